// Connectionist temporal classification (Graves et al., 2006): the probability of a label sequence,
// without a given alignment of labels and frames.
#pragma once

#include <limits>

#include <attune/tensor/tensor.hpp>

namespace attune {

constexpr double log_zero = -std::numeric_limits<double>::infinity();

/// log(eᵃ + eᵇ + eᶜ), without overflow.
double log_add(double a, double b, double c = log_zero);

/// The logits of each frame, and the label sequences.
struct CtcInput {
  Tensor logits;     // (T, B, V)
  Mask mask;         // (T, B): 1 on frames, 0 on padding after them
  Tensor labels;     // (U, B) i32
  Mask labels_mask;  // (U, B): 1 on labels, 0 on padding after them
  std::int32_t blank = 0;
};

struct Ctc {
  Tensor loss;     // (B): -log p(labels)
  Tensor dlogits;  // (T, B, V): the gradient of Σ_b loss_b; undefined unless requested
};

/// The negative log-probability of each sentence's labels. The probability sums over all alignments
/// of the labels with the frames, with any number of blanks between labels, and at least one
/// between two equal labels (sections 4.1 and 4.2). Computed with logarithms in f64. The logits are
/// not normalised: the function includes the softmax over V. Values at padding have no effect. If
/// logits of -∞ leave no possible alignment, the loss is ∞ and the gradient 0.
///
/// Throws if a label is the blank or not in [0, V), and if a sentence has fewer frames than its
/// labels need: one frame for each label, and one more for each label that equals the previous one.
Ctc ctc(const CtcInput& input, bool with_gradient);

}  // namespace attune
