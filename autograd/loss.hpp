// Loss functions.
#pragma once

#include <cstdint>
#include <vector>

#include <attune/autograd/compositions.hpp>

namespace attune {

/// Whether a loss is the mean over positions or their sum.
enum class Reduction { mean, sum };

/// Settings of cross_entropy.
struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  double smoothing = 0;                       // ε of label smoothing, in [0, 1)
  std::vector<std::int32_t> unsmoothed = {};  // classes that get no share of ε
};

/// reference::cross_entropy in one pass: the sum or mean over positions, weighted by the mask (0, 1
/// or fractions). logits (..., V), targets (...) i32, mask (...) or undefined (ones) -> (). Targets
/// must be in [0, V), also where the mask is 0. Floating-point targets (..., V) are distributions q
/// instead, with loss -Σ_v q_v log softmax(logits)_v, and may have gradients. Throws if the mean is
/// over no position.
Var cross_entropy(const Var& logits, const Var& targets, const Tensor& mask = {},
                  const CrossEntropyOptions& options = {});

/// The squared error (y - target)², reduced over all elements. Throws unless the shapes are equal.
Var mse_loss(const Var& y, const Var& target, Reduction reduction = Reduction::mean);

/// -t log σ(x) - (1 - t) log(1 - σ(x)) for logits x and targets t in [0, 1], reduced over all
/// elements. Throws unless the shapes are equal.
Var binary_cross_entropy_with_logits(const Var& logits, const Var& targets,
                                     Reduction reduction = Reduction::mean);

/// An affine map, x W + b, W (R, V), or if transposed x Wᵀ + b, W (V, R); b (V) or undefined.
struct Affine {
  Var W, b;
  bool transposed = false;
};

/// The logits x W + b, not computed yet, for affine_cross_entropy. Var(logits) computes them.
/// Without W, the logits are x.
struct AffineLogits {
  Var x;
  Affine affine = {};

  explicit operator Var() const;
};

/// cross_entropy of the logits x W + b, for x (..., R): the same result up to rounding, in less
/// memory. With a large vocabulary the logits would need more memory than the model. So the
/// forward pass takes some rows at a time: it computes their logits, replaces these by their
/// gradient in place, and adds up the gradients of x, W and b, which it keeps until backward. If W
/// is frozen, pass it as a constant, detach(W), to skip its gradient. Rows with mask 0 are skipped.
/// If W is undefined, the logits are x.
Var affine_cross_entropy(const Var& x, const Affine& affine, const Tensor& targets,
                         const Tensor& mask = {}, const CrossEntropyOptions& options = {});

/// Settings of ctc_loss.
struct CtcLossOptions {
  Reduction reduction = Reduction::mean;  // mean: over all labels of the batch
  std::int32_t blank = 0;
};

/// Connectionist temporal classification: -log p(labels | frames), summed over the batch, or
/// divided by its number of labels. The function `ctc` (tensor/kernels/ctc.hpp) defines it and documents
/// its errors. logits (T, B, V), mask (T, B), labels (U, B) i32, labels_mask (U, B) -> ()
Var ctc_loss(const Var& logits, const Mask& mask, const Tensor& labels, const Mask& labels_mask,
             const CtcLossOptions& options = {});

}  // namespace attune
