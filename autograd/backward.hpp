// Reverse-mode differentiation.
#pragma once

#include <vector>

#include <attune/autograd/var.hpp>

namespace attune {

/// ∂loss/∂w for every variable w that the loss depends on.
class Gradients {
 public:
  /// The gradient of a variable, of its shape. Throws when the loss did not depend on it.
  const Tensor& operator[](const Var& variable) const;

  /// Null when the loss did not depend on it.
  const Tensor* find(const Var& variable) const;

  /// All of them, in the order in which the variables were made. They may be changed (clipped).
  std::span<Tensor> all() { return tensors_; }
  std::span<const Tensor> all() const { return tensors_; }

 private:
  friend class BackwardWalk;
  std::vector<std::uint64_t> ids_;  // ascending
  std::vector<Tensor> tensors_;
};

/// The gradients of a scalar, by walking its history once, newest operation first. Each pullback
/// and what it captured is freed as soon as it has run, so a history can be walked only once. First
/// order only: what a pullback computes is not recorded.
///
/// Throws when the loss is not a scalar, depends on no variable, was walked before, or when a
/// tensor that a pullback needs was modified in place since the forward pass.
Gradients backward(const Var& loss);

/// The same for a result of any shape, given ∂loss/∂y.
Gradients backward(const Var& y, const Tensor& dy);

}  // namespace attune
