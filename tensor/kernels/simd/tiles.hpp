// Matrix products in bfloat16 by tiles (AMX). See bf16.hpp for the arithmetic.
#pragma once

#include <attune/tensor/kernels/simd/bf16.hpp>

namespace attune::simd {

/// True if the CPU has tiles and the system lets the process use them, or if they are emulated.
bool has_tiles();
/// Emulates tiles on any CPU, for tests.
inline bool emulated_tiles = false;

/// The format of a factor of K steps for tiles, in blocks of 32 steps, padded with zeros. A: the
/// pairs of 16 rows and one block, row by row; then the next block; then the next 16 rows; padded
/// to a multiple of 32 rows. B: panels 32 columns wide. If split, x is the sum of two bf16: a block
/// of the high parts is followed by a block of the low parts.
struct TileForm {
  bool split, panels;

  /// Elements per row of A or column of B.
  Index steps(Index depth) const { return ceil_div(depth, 32) * (split ? 32 : 16); }
};
/// Converts the first 32 steps of x (rows, depth) to a block of a factor with `steps` elements per
/// row of A or column of B.
void to_tiles(const Strided<float>& x, Index rows, Index depth, const TileForm& form, Index steps,
              float* to);

/// The product of factors in the format of tiles. A's rows are given as Strided{a, steps, 16}. If
/// split, it is the sum of high · high, high · low and low · high.
void run_tiles(const PanelProduct<float>& product, bool split);

}  // namespace attune::simd
