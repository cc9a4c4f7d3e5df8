// Connectionist temporal classification (Graves et al., 2006): labels of a sequence without knowing
// where each stands.
#pragma once

#include <limits>

#include <attune/tensor/tensor.hpp>

namespace attune {

constexpr double log_zero = -std::numeric_limits<double>::infinity();

/// log(eᵃ + eᵇ + eᶜ), without overflow.
double log_add(double a, double b, double c = log_zero);

/// Frames, and the labels that they are to be read as.
struct CtcInput {
  Tensor logits;     // (T, B, V)
  Mask mask;         // (T, B): 1 on frames, 0 on padding after them
  Tensor labels;     // (U, B) i32
  Mask labels_mask;  // (U, B): 1 on labels, 0 on padding after them
  std::int32_t blank = 0;
};

struct Ctc {
  Tensor loss;     // (B): -log p(labels)
  Tensor dlogits;  // (T, B, V): the gradient of their sum; undefined unless asked for
};

/// The negative log-probability of each sentence's labels: the sum over all alignments of the
/// labels with the frames, with any number of blanks between labels, and at least one between two
/// equal labels (sections 4.1 and 4.2). Computed with logarithms in f64, from logits: it includes
/// the softmax over V. What the padding holds does not matter. Where logits of -∞ leave no path,
/// the loss is ∞ and the gradient 0.
///
/// Throws when a label is the blank or not in [0, V), and when a sentence has fewer frames than its
/// labels need: their number, and one more for each that is equal to the one before.
Ctc ctc(const CtcInput& input, bool with_gradient);

}  // namespace attune
