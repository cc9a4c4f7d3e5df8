// Batches of sequences of real numbers.
#pragma once

#include <attune/nn/layers.hpp>

namespace attune::frames {

/// Sequences (T, D) of f32 or f64, side by side: x (T, B, D) with zeros after their ends, and the
/// mask. Throws when there is none, or where they differ in D or dtype.
nn::Sequence make_batch(std::span<const Tensor> sequences);

}  // namespace attune::frames
