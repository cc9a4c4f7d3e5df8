// Helpers of kernels that work along one axis. Not installed.
#pragma once

#include <algorithm>
#include <numeric>

#include <attune/tensor/loops.hpp>

namespace attune::detail {

/// Most columns that a kernel processes together.
inline constexpr Index widest_column_block = 64;

/// A tensor of f32 or f64 seen along one axis, as (outer, n, inner). A column is the n elements
/// along the axis. A block is up to `widest_column_block` neighbouring columns of one outer index.
struct AxisView {
  Index outer, n, inner;
  AxisView(const char* operation, const Tensor& x, int axis);

  /// Number of blocks (0 if the axis is empty), and blocks per tile of parallel_for.
  Index blocks() const { return n == 0 ? 0 : outer * blocks_of_slab(); }
  Index tile() const { return rows_of_tile(n * std::min(widest_column_block, inner)); }

  /// The offset of a block's first element, and its number of columns. Rows are `inner` apart.
  struct Block {
    Index first, width;
  };
  Block block(Index i) const {
    const Index column = i % blocks_of_slab() * widest_column_block;
    return {i / blocks_of_slab() * n * inner + column,
            std::min(widest_column_block, inner - column)};
  }

  /// Offset in the result with extent 1 along the axis, for the column that begins at `first` in x.
  Index reduced(Index first) const { return first / (n * inner) * inner + first % (n * inner); }

  /// Calls body(offset, j) for the elements of a block, row by row; j is the column in the block.
  template <class Body>
  void for_elements(const Block& block, const Body& body) const {
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < block.width; ++j) body(block.first + i * inner + j, j);
    }
  }

 private:
  Index blocks_of_slab() const { return ceil_div(inner, widest_column_block); }
};

/// Σ_i f(i) as 8 independent sums, to vectorise. Trailing zeros do not change the result.
template <class F>
double sum_in_lanes(Index n, F f) {
  constexpr Index lanes = 8;
  double sums[lanes] = {};
  Index i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (Index lane = 0; lane < lanes; ++lane) sums[lane] += f(i + lane);
  }
  for (; i < n; ++i) sums[i % lanes] += f(i);
  return std::accumulate(sums, sums + lanes, 0.0);
}

/// The mask in x's dtype, in x's shape or that of its last axes (at least one); undefined if the
/// mask is undefined. Throws if the mask does not broadcast to x.
Tensor mask_of_axes(const char* operation, const Tensor& x, const Mask& mask);

}  // namespace attune::detail
