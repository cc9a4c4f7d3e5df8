// Kernels that work along one axis share this. Not installed.
#pragma once

#include <algorithm>
#include <numeric>

#include <attune/tensor/elementwise.hpp>

namespace attune::detail {

/// Columns that a kernel handles side by side.
inline constexpr Index widest_column_block = 64;

/// A tensor of f32 or f64 seen along one axis: (outer, n, inner). Its columns are along the axis; a
/// block is up to `widest_column_block` neighbouring ones of one outer slab.
struct AxisView {
  Index outer, n, inner;
  AxisView(const char* operation, const Tensor& x, int axis);

  /// How many blocks there are, none where the axis is empty, and how many form a tile of work.
  Index blocks() const { return n == 0 ? 0 : outer * blocks_of_slab(); }
  Index tile() const { return rows_of_tile(n * std::min(widest_column_block, inner)); }

  /// The offset of a block's first element, and its columns. Elements of a column are `inner` apart.
  struct Block {
    Index first, width;
  };
  Block block(Index i) const {
    const Index column = i % blocks_of_slab() * widest_column_block;
    return {i / blocks_of_slab() * n * inner + column,
            std::min(widest_column_block, inner - column)};
  }

  /// Where the column that begins at offset `first` is once the axis has extent 1.
  Index reduced(Index first) const { return first / (n * inner) * inner + first % (n * inner); }

  /// body(at, j) for the elements of a block, row after row; j is the column.
  template <class Body>
  void for_elements(const Block& block, const Body& body) const {
    for (Index i = 0; i < n; ++i) {
      for (Index j = 0; j < block.width; ++j) body(block.first + i * inner + j, j);
    }
  }

 private:
  Index blocks_of_slab() const { return (inner + widest_column_block - 1) / widest_column_block; }
};

/// Σ_i f(i) in independent sums, so that the loop vectorises. Zeros at the end change nothing.
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

/// The mask in x's dtype, and of x's shape or that of its last axes; undefined where the mask is.
/// Throws when it does not fit x.
Tensor mask_of_axes(const char* operation, const Tensor& x, const Mask& mask);

}  // namespace attune::detail
