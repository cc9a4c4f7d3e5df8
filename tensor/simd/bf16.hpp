// Matrix products in bfloat16, on CPUs that have them (AVX512-BF16).
//
// An instruction multiplies two pairs of bf16 and adds both products to an f32:
// c <- c + a_i,2k b_2k,j + a_i,2k+1 b_2k+1,j. A matrix therefore becomes pairs along k, with a zero
// where K is odd; a pair stands in the bits of one f32, so that what merely moves elements (packing
// panels, strides) serves pairs too. As with f32, an element of C is one chain in ascending k.
#pragma once

#include <attune/tensor/simd/gemm.hpp>

namespace attune::simd {

/// Whether this CPU has the instructions.
bool has_bf16();

/// Steps of k that are made of `depth`.
constexpr Index pairs(Index depth) { return (depth + 1) / 2; }

/// The pairs of x (rows, depth), rounded to nearest even, into rows x pairs(depth) elements: row
/// after row when the columns of x follow one another, else column after column.
void to_pairs(const Strided<float>& x, Index rows, Index depth, float* to);

/// C = A·B, or C += A·B, where A is pairs, the panels hold pairs, and `depth` counts pairs.
void run_pairs(const PanelProduct<float>& product);

}  // namespace attune::simd
