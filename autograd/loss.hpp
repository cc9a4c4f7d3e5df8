// Losses.
#pragma once

#include <cstdint>
#include <vector>

#include <attune/autograd/compositions.hpp>

namespace attune {

/// Whether a loss is the sum over positions or their mean.
enum class Reduction { mean, sum };

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  double smoothing = 0;                       // ε, in [0, 1)
  std::vector<std::int32_t> unsmoothed = {};  // columns that have no share of ε
};

/// reference::cross_entropy in one pass, summed or averaged over the positions whose mask is 1.
/// logits (..., V), targets (...) i32, mask (...) or undefined (all) -> (). Targets under mask 0
/// must still be in [0, V). Floating targets (..., V) are distributions q instead:
/// -Σ_v q_v log softmax(logits)_v. Throws when there is no position to average.
Var cross_entropy(const Var& logits, const Tensor& targets, const Tensor& mask = {},
                  const CrossEntropyOptions& options = {});

/// The squared error (y - target)² of all elements.
Var mse_loss(const Var& y, const Var& target, Reduction reduction = Reduction::mean);

/// -t log σ(x) - (1 - t) log(1 - σ(x)) of all elements, computed as log(1 + eˣ) - t x: x are logits,
/// targets in [0, 1].
Var binary_cross_entropy_with_logits(const Var& logits, const Var& targets,
                                     Reduction reduction = Reduction::mean);

/// cross_entropy of the logits x W + b, for x (..., R): the same numbers up to rounding. The logits
/// of a large vocabulary would fill more memory than the model: here they are made for some rows at
/// a time, turned at once into their gradient in place, and that into its share of the gradients of
/// x, W and b. To skip that work for a frozen W, pass it as a constant: detach(W). Rows with mask 0
/// are left out. Without W the logits are x.
Var affine_cross_entropy(const Var& x, const Affine& affine, const Tensor& targets,
                         const Tensor& mask = {}, const CrossEntropyOptions& options = {});

struct CtcLossOptions {
  Reduction reduction = Reduction::mean;  // over labels
  std::int32_t blank = 0;
};

/// Connectionist temporal classification: -log p(labels | frames), summed over a batch or divided
/// by the number of its labels. See `ctc` in tensor/ctc.hpp for what it is, and when it throws.
/// logits (T, B, V), mask (T, B), labels (U, B) i32, labels_mask (U, B) -> ()
Var ctc_loss(const Var& logits, const Mask& mask, const Tensor& labels, const Mask& labels_mask,
             const CtcLossOptions& options = {});

}  // namespace attune
