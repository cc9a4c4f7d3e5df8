// The inner loops of matrix products, vectorised, with the instruction set chosen at run time.
//
// Every element of C is one chain of multiply-adds in ascending k, c <- a_ik b_kj + c, which begins
// with 0 or with what C holds. It depends neither on the other rows and columns nor on how the
// product is cut: a row alone and the same row in a batch give the same bits.
//
// B is first packed into panels as wide as two registers, or one: panel p holds columns [p width,
// (p + 1) width) of B one row after another, and columns that B does not have are zero. The kernel
// then reads B as one stream, and keeps its block of C, all of whose columns are of one panel, in
// registers.
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

  /// Without the rows before i and the columns before j.
  Strided from(Index i, Index j) const { return {data + i * row + j * column, row, column}; }
};

/// Columns of a panel of a matrix with `columns` columns: those that two registers hold, or those
/// of one register if all columns fit into it.
template <class T>
Index panel_width(Index columns);

/// Packs B (depth, columns), one of whose strides is 1, into depth x width elements for each panel.
/// The panels are 64-byte aligned.
template <class T>
void pack_panels(Strided<T> b, Index depth, Index columns, Index width, T* panels);

/// Copies A (rows, depth), whose columns are contiguous, in the order in which a product reads it:
/// the rows that a kernel takes, column after column, then those of the next.
template <class T>
void pack_rows(Strided<T> a, Index rows, Index depth, T* to);

/// What the sums of a product begin with: rows `stride` apart, 0 for one that serves all; C itself
/// where it is added to; null: 0.
template <class T>
struct Start {
  const T* data = nullptr;
  Index stride = 0;

  /// Without the rows before i and the columns before j.
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
  const T* next = nullptr;   // the panel that is read after these, if any: it is fetched meanwhile
};
template <class T>
void run(const PanelProduct<T>& product);

/// C += A·B for a few rows, with B (depth, columns) as it is, its rows `stride_b` apart: B is read
/// once, in its order.
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

// Products in bfloat16, by vectors (AVX512-BF16, bf16.cpp) or by tiles (AMX, tiles.cpp).
//
// Instructions multiply pairs of bf16 and add both products to an f32:
// c <- c + a_i,2k b_2k,j + a_i,2k+1 b_2k+1,j. A matrix therefore becomes pairs along k, with a zero
// where K is odd; a pair stands in the bits of one f32, so that what merely moves elements (packing
// panels, strides) serves pairs too. As with f32, an element of C is one chain in ascending k; that
// of tiles adds the sums of 32 products.

/// Whether this CPU has the instructions on vectors, and products by them are faster than in f32.
/// AMD's CPUs execute as many of them in a cycle as of f32, Intel's half as many.
bool has_bf16();

/// Steps of k that are made of `depth`.
constexpr Index pairs(Index depth) { return (depth + 1) / 2; }

/// The pairs of x (rows, depth), rounded to nearest even, into rows x pairs(depth) elements: row
/// after row when the columns of x follow one another, else column after column.
void to_pairs(const Strided<float>& x, Index rows, Index depth, float* to);

/// The same, where A is pairs, the panels hold pairs, and `depth` counts pairs.
void run_pairs(const PanelProduct<float>& product);

/// Whether tiles can be used: the CPU has them, and the system lets the process use them; or they are
/// emulated.
bool has_tiles();
/// For tests: tiles are emulated, on any CPU.
inline bool emulated_tiles = false;

/// How tiles hold a factor of K steps, in blocks of 32 steps, padded with zeros. A has the pairs of
/// 16 rows and a block one row after another, one block after another, then the next 16 rows, up to
/// a multiple of 32; B has panels 32 wide. When split, x becomes the sum of two bf16, and a block of
/// the high parts is followed by that of the low ones.
struct TileForm {
  bool split, panels;

  /// Elements of a row of A or of a column of B.
  Index steps(Index depth) const { return (depth + 31) / 32 * (split ? 32 : 16); }
};
/// Rows of a tile, and pairs in each.
constexpr Index tile_side = 16;
/// Where the pairs of up to 16 rows and 32 steps go: in rows `stride` elements apart, or transposed.
struct TilePairs {
  float *high, *low;  // low: null unless factors are split
  Index stride;
  bool transposed;
};
/// By AVX512-BF16, which CPUs with tiles have; positions beyond `rows` and `depth` become 0.
void to_tile_pairs(const Strided<float>& x, Index rows, Index depth, const TilePairs& to);

void to_tiles(const Strided<float>& x, Index rows, Index depth, const TileForm& form, float* to);

/// The product of factors in that form; rows of A are in Strided{a, steps, 16}. When split, the
/// products of high parts and of a high and a low part are added.
void run_tiles(const PanelProduct<float>& product, bool split);

// The frame of a kernel.

/// What is read next, so that it comes into the second-level cache meanwhile: `step` elements for
/// each step of k.
template <class T>
struct Ahead {
  const T* data;
  Index step;
};

template <class T>
inline void fetch(const T* data, Index n) {
  constexpr Index line = 64 / sizeof(T);
  for (Index i = 0; i < n; i += line) __builtin_prefetch(data + i, /*write=*/0, /*locality=*/2);
}

/// C = start + A·B for some rows and one panel of B.
template <class T>
using PanelKernel = void (*)(Index depth, const T* a, Index a_row, Index a_column, const T* b, T* c,
                             Index stride_c, Start<T> start, Ahead<T> ahead);

/// Nearly equal parts of the rows: each then has enough sums that do not wait for each other.
struct RowParts {
  RowParts(Index rows_in_all, Index most)
      : rows(rows_in_all), count((rows_in_all + most - 1) / most) {}

  Index begin(Index i) const { return rows * i / count; }

  Index rows, count;
};

/// Elements of the largest block of C that a kernel keeps.
constexpr Index most_in_registers = 14 * 32;

template <class T>
void copy_rows(const T* from, Index from_stride, T* to, Index to_stride, Index rows,
               Index columns) {
  for (Index i = 0; i < rows; ++i) std::copy_n(from + i * from_stride, columns, to + i * to_stride);
}

/// The product by the kernels for 1, 2, ... rows.
template <class T>
void run_panels(const PanelProduct<T>& p, std::span<const PanelKernel<T>> kernels) {
  const Index width = p.width;
  // Rows of A whole pages apart share a set of the first-level cache, which has 8 places or more.
  const bool collide =
      !p.packed_rows && p.a.column == 1 && p.a.row * static_cast<Index>(sizeof(T)) % 4096 == 0;
  const RowParts parts(p.rows,
                       collide ? std::min<Index>(std::ssize(kernels), 7) : std::ssize(kernels));
  alignas(64) T edge[most_in_registers];
  const T* panel = p.panels;
  for (Index column = 0; column < p.columns; column += width, panel += p.panel_stride) {
    const Index columns = std::min(width, p.columns - column);
    const T* next = column + width < p.columns ? panel + p.panel_stride : p.next;
    const Index step = next ? (width + parts.count - 1) / parts.count : 0;
    for (Index i = 0; i < parts.count; ++i) {
      const Ahead<T> ahead{next ? next + i * p.depth * step : panel, step};
      const Index begin = parts.begin(i), rows = parts.begin(i + 1) - begin;
      const PanelKernel<T> kernel = kernels[rows - 1];
      const Strided<T> a =
          p.packed_rows ? Strided<T>{p.a.data + begin * p.depth, 1, rows} : p.a.from(begin, 0);
      T* c = p.c + begin * p.stride_c + column;
      Start<T> start = p.start.from(begin, column);
      if (columns == width) {
        kernel(p.depth, a.data, a.row, a.column, panel, c, p.stride_c, start, ahead);
      } else {
        if (start.data) {
          copy_rows(start.data, start.stride, edge, width, rows, columns);
          start = {edge, width};
        }
        kernel(p.depth, a.data, a.row, a.column, panel, edge, width, start, ahead);
        copy_rows(edge, width, c, p.stride_c, rows, columns);
      }
    }
  }
}

}  // namespace attune::simd
