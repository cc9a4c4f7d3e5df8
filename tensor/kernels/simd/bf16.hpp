// Matrix products in bfloat16 by vector instructions (AVX512-BF16).
//
// The instructions multiply pairs of bf16 and add both products to an f32: c <- c + a_i,2k b_2k,j +
// a_i,2k+1 b_2k+1,j. Therefore the elements of a matrix are grouped into pairs along k, with a zero
// at the end if K is odd. A pair is stored in the bits of one f32, so that code which only moves
// elements (packing panels, strides) also works on pairs. As with f32, an element of C is one chain
// in ascending k; with tiles, a chain of sums of 32 products.
#pragma once

#include <attune/tensor/kernels/simd/gemm.hpp>

namespace attune::simd {

/// True if the CPU has the vector instructions and they are faster than f32. AMD's CPUs execute as
/// many of them per cycle as f32 instructions, Intel's half as many.
bool has_bf16();

/// Number of pairs for `depth` steps of k.
constexpr Index pairs(Index depth) { return ceil_div(depth, 2); }

/// Converts x (rows, depth), rounded to nearest even, to rows x pairs(depth) pairs: row by row if
/// the columns of x are contiguous along a row, else column by column.
void to_pairs(const Strided<float>& x, Index rows, Index depth, float* to);

/// The same for A and panels that hold pairs; `depth` counts pairs.
void run_pairs(const PanelProduct<float>& product);

/// Rows of a tile, and pairs per row.
constexpr Index tile_side = 16;
/// Output of to_tile_pairs: up to 16 rows of 32 steps, `stride` elements apart, or transposed.
struct TilePairs {
  float *high, *low;  // low: null unless split
  Index stride;
  bool transposed;
};
/// Converts with AVX512-BF16, which CPUs with tiles have. Elements beyond `rows` and `depth` are 0.
void to_tile_pairs(const Strided<float>& x, Index rows, Index depth, const TilePairs& to);

}  // namespace attune::simd
