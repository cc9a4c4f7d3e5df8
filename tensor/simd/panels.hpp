// A product by panels of B, cut into calls of a kernel that keeps its block of C in registers.
#pragma once

#include <algorithm>
#include <span>

#include <attune/tensor/simd/gemm.hpp>

namespace attune::simd {

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

/// C = or += A·B for some rows and one panel of B.
template <class T>
using PanelKernel = void (*)(Index depth, const T* a, Index a_row, Index a_column, const T* b, T* c,
                             Index stride_c, bool add, Ahead<T> ahead);

/// Elements of the largest block of C that a kernel keeps.
constexpr Index most_in_registers = 14 * 32;

/// The product by the kernels for 1, 2, ... rows.
template <class T>
void run_panels(const PanelProduct<T>& p, std::span<const PanelKernel<T>> kernels) {
  const Index width = p.width;
  const auto copy_rows = [](const T* from, Index from_stride, T* to, Index to_stride, Index rows,
                            Index columns) {
    for (Index i = 0; i < rows; ++i) {
      std::copy_n(from + i * from_stride, columns, to + i * to_stride);
    }
  };
  // Rows of A whole pages apart share a set of the first-level cache, which has 8 places or more.
  const bool collide = p.a.column == 1 && p.a.row * static_cast<Index>(sizeof(T)) % 4096 == 0;
  // Nearly equal parts of the rows: each then has enough sums that do not wait for each other.
  const Index most_rows = std::min(std::ssize(kernels), collide ? Index{7} : std::ssize(kernels));
  const Index parts = (p.rows + most_rows - 1) / most_rows;
  alignas(64) T edge[most_in_registers];
  const T* panel = p.panels;
  for (Index column = 0; column < p.columns; column += width, panel += p.panel_stride) {
    const Index columns = std::min(width, p.columns - column);
    const T* next = column + width < p.columns ? panel + p.panel_stride : p.next;
    const Index step = next ? (width + parts - 1) / parts : 0;
    for (Index i = 0; i < parts; ++i) {
      const Ahead<T> ahead{next ? next + i * p.depth * step : panel, step};
      const Index begin = p.rows * i / parts, rows = p.rows * (i + 1) / parts - begin;
      const PanelKernel<T> kernel = kernels[rows - 1];
      const T* a = p.a.data + begin * p.a.row;
      T* c = p.c + begin * p.stride_c + column;
      if (columns == width) {
        kernel(p.depth, a, p.a.row, p.a.column, panel, c, p.stride_c, p.add, ahead);
      } else {
        if (p.add) copy_rows(c, p.stride_c, edge, width, rows, columns);
        kernel(p.depth, a, p.a.row, p.a.column, panel, edge, width, p.add, ahead);
        copy_rows(edge, width, c, p.stride_c, rows, columns);
      }
    }
  }
}

}  // namespace attune::simd
