// Sizes that select how a matrix product is computed, measured in f32 on one core of a Zen 4 with
// AVX-512. Not installed.
#pragma once

#include <attune/tensor/shape.hpp>

namespace attune::detail::sizes {

/// The least multiply-adds of a product that OpenBLAS computes, if it is selected: below, its call
/// and its packing of both factors cost more than they gain.
constexpr Index blas_work = 1024 * 1024;

// Kernels of our own.

/// Steps of k in a block: the rows of A that a kernel reads at a time (28 KiB) stay in the
/// first-level cache while panels of B are read from the second. 256 steps were up to 4 % slower:
/// C is read and written more often.
constexpr Index depth_block = 512;
/// The same for tiles of bf16 (simd/tiles.cpp), and the rows and columns of C that are computed at
/// once: the blocks of B for it (32 KiB) stay in the first-level cache of Intel's CPUs (48 KiB).
constexpr Index tile_depth_block = 256, tile_width = 32;
/// The largest tiles of C: their parts of A and B for a block of k (1 MiB) stay in the second-level
/// cache.
constexpr Index most_rows = 256, most_cols = 256;
/// Columns of a tile where B is not packed: long pieces of its rows.
constexpr Index most_cols_of_rows = 2048;
/// A product is cut into this many tiles for the sake of threads, as long as each has rows enough
/// to read a panel for, and multiply-adds enough for handing it to another thread.
constexpr Index enough_tiles = 8, least_rows = 64, least_work = 256 * 1024;
/// A transposed A is packed in the order in which the kernel reads it if its columns are at least so
/// many bytes apart. Closer ones stay in the cache: copying them took 2 % of the smallest models'
/// training.
constexpr Index packed_bytes = 2048;
/// Rows of A whole pages apart are gathered into a copy where B has so many columns.
constexpr Index gathered_columns = 128;
/// Rows of C up to which B is read as it is: packing it would take longer than the product.
constexpr Index few_rows = 4;
/// Elements of A that one thread turns into pairs of bf16.
constexpr Index conversion_work = 64 * 1024;
/// Multiply-adds of small products that one thread makes in a row.
constexpr Index small_product = 32 * 1024;

// Packed weights that are kept (kept_packed in matmul.cpp).

/// With this many rows of A, packing B for each product costs little (with 320 rows, a beam of 5
/// over 64 sentences, it took 6 % of a search). With fewer columns of B, no packed form is kept
/// either.
constexpr Index many_rows = 512, few_columns = 16;
/// Elements below which packing a matrix each time costs less than looking for its packed form.
constexpr Index few_elements = 1024;

// Recurrences and gradients.

/// From this many steps on, packing W_h pays within one call. With fewer steps, but at least so
/// many rows, it pays if more calls follow, as in a decoder.
constexpr Index enough_steps = 3, enough_step_rows = 2;
/// Rows of a batch that one thread takes through all steps of a recurrence, at most and at least:
/// with fewer, products become those of a matrix and a vector.
constexpr Index most_tile_rows = 40, least_tile_rows = 8;
/// Rows of a step from which on its share of a weight's gradient is a product of its own; fewer are
/// copied into one product over several steps.
constexpr Index enough_gradient_rows = 256;

}  // namespace attune::detail::sizes
