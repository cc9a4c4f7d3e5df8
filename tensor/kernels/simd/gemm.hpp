// Vectorised inner loops of matrix products. The instruction set is selected at run time.
//
// Every element of C is one chain of multiply-adds in ascending k, c <- a_ik b_kj + c, starting
// with 0 or with the old value of C. It does not depend on other rows and columns or on how the
// product is split into tiles: a row gives the same bits alone and in a batch.
//
// B is first packed into panels, whose width is that of two registers, or one. Panel p holds
// columns [p width, (p + 1) width) of B, row by row; columns beyond B are zero. The kernel then
// reads B sequentially, and keeps its block of C, which is within one panel, in registers.
#pragma once

#include <algorithm>
#include <span>

#include <attune/tensor/shape.hpp>

namespace attune::simd {

/// A matrix in memory: element (i, j) is data[i * row + j * column].
template <class T>
struct Strided {
  const T* data;
  Index row, column;

  /// The submatrix from row i and column j on.
  Strided from(Index i, Index j) const { return {data + i * row + j * column, row, column}; }
};

/// Columns per panel for a matrix with `columns` columns: the elements of two registers, or of one
/// register if all columns fit into it.
template <class T>
Index panel_width(Index columns);

/// Packs B (depth, columns), one of whose strides is 1, into depth x width elements for each panel.
/// The panels are 64-byte aligned.
template <class T>
void pack_panels(Strided<T> b, Index depth, Index columns, Index width, T* panels);

/// Copies A (rows, depth), whose columns are contiguous, in the order in which a product reads it:
/// groups of as many rows as a kernel processes, each column by column.
template <class T>
void pack_rows(Strided<T> a, Index rows, Index depth, T* to);

/// Initial values of the sums of a product: a matrix with rows `stride` apart (0: one row for all),
/// which is C itself if the product is added to C; or zeros if null.
template <class T>
struct Start {
  const T* data = nullptr;
  Index stride = 0;

  /// The submatrix from row i and column j on.
  Start from(Index i, Index j) const { return {data ? data + i * stride + j : nullptr, stride}; }
};

/// C = start + A·B, for A (rows, depth) and B (depth, columns) in panels that begin `panel_stride`
/// elements apart. Rows of C are `stride_c` apart.
template <class T>
struct PanelProduct {
  Index rows, depth, columns;
  Index width;  // of a panel
  Strided<T> a;
  const T* panels;
  Index panel_stride;
  T* c;
  Index stride_c;
  Start<T> start;
  bool packed_rows = false;  // A is in the order of pack_rows
  // What is read after these panels, to be prefetched: a panel, or `width` columns of a matrix whose
  // rows are next_stride apart. May be null.
  const T* next = nullptr;
  Index next_stride = width;
  Index panel_row = width;  // elements between the rows of a panel: B itself may be one
};
template <class T>
void run(const PanelProduct<T>& product);

/// C += A·B for few rows, with B (depth, columns) not packed, its rows `stride_b` apart
/// and read once.
template <class T>
struct RowProduct {
  Index rows, depth, columns;
  Strided<T> a;
  const T* b;
  Index stride_b;
  T* c;
  Index stride_c;
};
template <class T>
void run(const RowProduct<T>& product);

// The outer loop over kernels.

/// Data to prefetch into the second-level cache: n elements for each group of steps of k, `stride`
/// elements apart.
template <class T>
struct Ahead {
  static constexpr Index group = 16;  // a prefetch in every step would take registers from the sums
  const T* data;
  Index n, stride;
};

template <class T>
inline void fetch(const T* data, Index n) {
  constexpr Index line = 64 / sizeof(T);
  for (Index i = 0; i < n; i += line) __builtin_prefetch(data + i, /*write=*/0, /*locality=*/2);
}

/// C = start + A·B for some rows and one panel of B.
template <class T>
using PanelKernel = void (*)(Index depth, const T* a, Index a_row, Index a_column, const T* b,
                             Index stride_b, T* c, Index stride_c, Start<T> start, Ahead<T> ahead);

/// Splits rows into nearly equal parts of at most `most`, so that each has enough independent sums.
struct RowParts {
  RowParts(Index rows_in_all, Index most) : rows(rows_in_all), count(ceil_div(rows_in_all, most)) {}

  Index begin(Index i) const { return rows * i / count; }

  Index rows, count;
};

/// Elements of the largest block of C that a kernel keeps in registers.
constexpr Index max_register_block = 14 * 32;

template <class T>
void copy_rows(const T* from, Index from_stride, T* to, Index to_stride, Index rows,
               Index columns) {
  for (Index i = 0; i < rows; ++i) std::copy_n(from + i * from_stride, columns, to + i * to_stride);
}

/// A product by kernels[n - 1] for n rows.
template <class T>
void run_panels(const PanelProduct<T>& p, std::span<const PanelKernel<T>> kernels) {
  const Index width = p.width;
  // Rows of A whole pages apart map to one set of the first-level cache, which has 8 ways or more.
  const bool collide =
      !p.packed_rows && p.a.column == 1 && p.a.row * static_cast<Index>(sizeof(T)) % 4096 == 0;
  const RowParts parts(p.rows,
                       collide ? std::min<Index>(std::ssize(kernels), 7) : std::ssize(kernels));
  alignas(64) T edge[max_register_block];
  const T* panel = p.panels;
  for (Index column = 0; column < p.columns; column += width, panel += p.panel_stride) {
    const Index columns = std::min(width, p.columns - column);
    const bool last = column + width >= p.columns;
    const T* next = last ? p.next : panel + p.panel_stride;
    // Each group of rows prefetches its share of a packed panel, or some rows of B.
    const bool is_packed = !last || p.next_stride == width;
    const Index n = !next ? 0 : is_packed ? Ahead<T>::group * ceil_div(width, parts.count) : width;
    Ahead<T> ahead{next ? next : panel, n, is_packed ? n : p.next_stride};
    for (Index i = 0; i < parts.count; ++i) {
      const Index begin = parts.begin(i), rows = parts.begin(i + 1) - begin;
      const PanelKernel<T> kernel = kernels[rows - 1];
      const Strided<T> a =
          p.packed_rows ? Strided<T>{p.a.data + begin * p.depth, 1, rows} : p.a.from(begin, 0);
      T* c = p.c + begin * p.stride_c + column;
      Start<T> start = p.start.from(begin, column);
      if (columns == width) {
        kernel(p.depth, a.data, a.row, a.column, panel, p.panel_row, c, p.stride_c, start, ahead);
      } else {
        if (start.data) {
          copy_rows(start.data, start.stride, edge, width, rows, columns);
          start = {edge, width};
        }
        kernel(p.depth, a.data, a.row, a.column, panel, p.panel_row, edge, width, start, ahead);
        copy_rows(edge, width, c, p.stride_c, rows, columns);
      }
      ahead.data += ceil_div(p.depth, Ahead<T>::group) * ahead.stride;
    }
  }
}

}  // namespace attune::simd
