// Kernels that work along one axis share this. Not installed.
#pragma once

#include <algorithm>

#include <attune/tensor/elementwise.hpp>

namespace attune::detail {

/// A tensor of f32 or f64 seen along one axis: (outer, n, inner).
struct AxisView {
  Index outer, n, inner;
  AxisView(const char* operation, const Tensor& x, int axis);

  /// Where the column that begins at offset `first` stands once the axis has extent 1.
  Index reduced(Index first) const { return first / (n * inner) * inner + first % (n * inner); }

  /// body(at, j) for the elements of `width` columns from offset `first` on, row after row; j is
  /// the column.
  template <class Body>
  void for_elements(Index first, Index width, Body body) const {
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < width; ++j) body(first + i * inner + j, j);
    }
  }
};

/// The mask in x's dtype, and of x's shape or that of its last axes; undefined where the mask is.
/// Throws when it does not fit x.
Tensor mask_of_axes(const char* operation, const Tensor& x, const Mask& mask);

/// Columns that a kernel handles side by side.
inline constexpr Index widest_column_block = 64;

/// Calls body(first, count) for blocks of `count` neighbouring columns of one outer slab; `first`
/// is the offset of the block's first element. Elements of a column are `view.inner` apart.
template <class Body>
void for_columns(const AxisView& view, Body body) {
  if (view.n == 0) return;
  const Index blocks = (view.inner + widest_column_block - 1) / widest_column_block;
  const Index width = std::min(widest_column_block, view.inner);
  const Index units = std::max<Index>(1, elementwise_tile / (view.n * std::max<Index>(1, width)));
  parallel_each(view.outer * blocks, units, [&](Index unit) {
    const Index column = unit % blocks * widest_column_block;
    body(unit / blocks * view.n * view.inner + column,
         std::min(widest_column_block, view.inner - column));
  });
}

}  // namespace attune::detail
