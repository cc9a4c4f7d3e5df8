// Sizes that select how a matrix product is computed, measured in f32 on one core of a Zen 4 with
// AVX-512, unless another CPU is named. Not installed.
#pragma once

#include <attune/tensor/shape.hpp>

namespace attune::detail::sizes {

/// Fewest multiply-adds of a product that a BLAS computes, if one is selected: below, its call and
/// its packing of both factors cost more than they gain.
constexpr Index blas_work = 1024 * 1024;

// The library's own kernels.

/// Steps of k per block. The rows of A that a kernel reads for a block (28 KiB) stay in the
/// first-level cache, and panels of B in the second-level cache. 256 steps were up to 4 % slower: C
/// is read and written more often.
constexpr Index depth_block = 512;
/// The same for AMX tiles (simd/tiles.cpp), and the rows and columns of C that are computed at
/// once: their blocks of B (32 KiB) stay in the first-level cache of Intel's CPUs (48 KiB).
constexpr Index tile_depth_block = 256, tile_width = 32;
/// From more than this many steps of k on, chains of multiply-adds of `chain_depth` steps are added
/// in double: a multiple of depth_block, at which reading and writing C takes less than 2 %.
constexpr Index most_chained = 4096, chain_depth = 2048;
/// Largest tile of C: its A and B for a block of k (1 MiB) stay in the second-level cache.
constexpr Index max_rows = 256, max_cols = 256;
/// Largest number of columns of a tile if B is not packed: its rows are read in long pieces.
constexpr Index max_unpacked_cols = 2048;
/// A product is split into this many tiles for parallelism, as long as a tile has enough rows to
/// amortise reading a panel, and enough multiply-adds to amortise the dispatch to a thread.
constexpr Index enough_tiles = 8, least_rows = 64, min_work = 256 * 1024;
/// A transposed A is packed in the order of the kernel if its columns are at least this many widths
/// of a panel apart: such columns share few sets of the first-level cache, and evict each other once
/// for each panel. Gradients of weights with 128 rows took 1.2 times as long without packing on a
/// Zen 3, whose panels have 16 columns, and up to 1.2 times with it on a Sapphire Rapids (32 columns).
constexpr Index packed_panels = 8;
/// If rows of A are a multiple of 4096 bytes apart and B has at least this many columns, A is first
/// copied to closer rows.
constexpr Index gathered_columns = 128;
/// Up to this many rows of C, B is not packed: packing would take longer than the product.
constexpr Index few_rows = 4;
/// From this many elements on, B is packed by the tiles that read it, if C has one row of tiles. It is
/// not packed if its rows are at most read_directly elements apart. Those of 512 elements evict each
/// other: on a Zen 3, products with them took 1.15 times as long.
constexpr Index packed_before = 256 * 1024, read_directly = 256;
/// A smaller B with such rows is not packed if C has at most this many rows, in widths of a panel. On an
/// Emerald Rapids, packing took more than half of a product of 8 rows, and 4 to 12 % of 256.
constexpr Index direct_rows = 8;
/// Elements of B, in panels, that are packed on the stack.
constexpr Index small_factor = 2048;
/// Elements per tile when a factor, A or B, is converted or copied before the product.
constexpr Index conversion_work = 64 * 1024;
/// Multiply-adds per thread in a batch of small products.
constexpr Index small_product = 32 * 1024;

// Cached packed weights.

/// From this many rows of A on, packing B for each product is cheap enough, so no packed form is
/// cached. With 320 rows (a beam of 5 over 64 sentences) packing took 6 % of a search, so that form
/// is cached. With fewer columns of B than few_columns, none is cached.
constexpr Index many_rows = 512, few_columns = 16;
/// Below this many elements, packing each time is faster than looking up a cached form.
constexpr Index few_elements = 1024;

// Recurrences and gradients.

/// From this many steps on, packing W_h pays within one call. With fewer steps, but at least
/// enough_step_rows rows, it pays if more calls follow, as in a decoder.
constexpr Index enough_steps = 3, enough_step_rows = 2;
/// Most and fewest rows of a batch that one thread takes through all steps of a recurrence: with
/// fewer rows, matrix products degenerate to matrix-vector products.
constexpr Index max_tile_rows = 40, min_tile_rows = 8;
/// From this many rows per step on, the gradient of a weight is computed by one product per step.
/// With fewer, the rows of several steps are copied into one product.
constexpr Index enough_gradient_rows = 256;

}  // namespace attune::detail::sizes
