// The sizes that decide how a matrix product is made. All were measured: f32 on one core of a Zen
// 4, with AVX-512. Not installed.
#pragma once

#include <attune/tensor/shape.hpp>

namespace attune::detail::sizes {

// BLAS, or kernels of our own. BLAS packs both factors for each call; ours pack B, which often is
// still packed from the product before.

/// The smallest product C (M, N) += A (M, K)·B (K, N) that BLAS makes faster, by up to 8 %. With
/// fewer columns ours are up to 9 % faster.
constexpr Index blas_rows = 256, blas_columns = 1024, blas_depth = 256;
/// The smallest M where the rows of A are those of a batch. It is larger: a loss over a large
/// vocabulary takes blocks of 256 rows, and attune's kernels pack the weight once for all blocks.
constexpr Index blas_batch_rows = 512;
/// The least multiply-adds of a product by BLAS, and those of each call (5 ms of one core) into
/// which it is cut for several threads. Two calls take up to 4 % more time in all than one, and
/// eight up to 12 %, as each call packs its factors.
constexpr Index blas_work = 512 * 1024 * 1024, blas_call_work = blas_work / 2;
/// Calls of one product, enough for as many threads.
constexpr Index most_blas_calls = 8;

// Kernels of our own.

/// Steps of k in a block: 256 rows of a panel fill the first-level cache, those of a tile stay in
/// the second.
constexpr Index depth_block = 256;
/// The largest tiles of C: their parts of A and B for a block of k stay in the second-level cache.
constexpr Index most_rows = 512, most_cols = 256;
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
