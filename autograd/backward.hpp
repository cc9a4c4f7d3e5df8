// Reverse-mode differentiation.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <attune/autograd/var.hpp>

namespace attune {

/// A variable and what to call it in a message.
struct NamedVariable {
  std::string name;
  Var variable;
};

/// ∂loss/∂w for every variable w that the loss depends on, or for those that were asked for. They
/// are Tensors without history: a loss that uses one (a gradient penalty) treats it as a constant,
/// as there are no gradients of second order.
class Gradients {
 public:
  Gradients() = default;
  /// Gradients that were computed elsewhere: one for each variable, of its shape and dtype. Throws
  /// where they are not.
  Gradients(std::span<const NamedVariable> variables, std::vector<Tensor> gradients);

  /// The gradient of a variable, of its shape. Throws when the loss did not depend on it.
  const Tensor& operator[](const Var& variable) const;

  /// Null when the loss did not depend on it.
  const Tensor* find(const Var& variable) const;

  /// All of them, in the order in which the variables were made. Their elements may be changed:
  ///     for (Tensor gradient : gradients.all()) scale_in_place(gradient, 0.5);
  std::span<const Tensor> all() const { return tensors_; }

  /// ‖g‖₂ over all elements of all gradients, in double: finite where all of them are, however
  /// large.
  double global_norm() const;
  /// The same, and remembered until an element changes: whoever asks next (clipping, an optimiser)
  /// need not read all of them again.
  double global_norm();

  /// Adds those of another loss, variable by variable; what only one of the two has stays as it is.
  /// The sum shares no elements with `other`. So micro-batches add up, in the order in which they
  /// are added. If a loss is the mean over its tokens, the mean over those of all parts weighs each
  /// part by its share of them:
  ///     for (const Batch& part : parts) total += backward(loss(part) * (tokens(part) / tokens(all)));
  Gradients& operator+=(Gradients other);

  /// All of them times a factor. What others hold of them stays as it was.
  void scale(double factor);

 private:
  friend class BackwardWalk;
  bool norm_is_known() const;

  std::vector<std::uint64_t> ids_;  // ascending
  bool of_some_ = false;            // variables that were asked for
  std::vector<Tensor> tensors_;
  double norm_ = 0;
  std::uint64_t norm_at_ = 0;  // on the modification clock; 0 where it was not asked for
};

/// A line for each gradient, its shape and its norm, in the order of `all`.
std::ostream& operator<<(std::ostream& out, const Gradients& gradients);

/// The gradients of a scalar, by walking its history once, newest operation first. Each pullback
/// and what it captured is freed as soon as it has run, so a history can be walked only once. First
/// order only: what a pullback computes is not recorded.
///
/// Throws when the loss is not a scalar, depends on no variable, was walked before, or when a
/// tensor that a pullback needs was modified in place since the forward pass.
[[nodiscard]] Gradients backward(const Var& loss);

/// The same for a result of any shape, given ∂loss/∂y.
[[nodiscard]] Gradients backward(const Var& y, const Tensor& dy);

/// The gradients of these variables alone, with the bits that backward(loss) gives them. Pullbacks
/// that lead to none of them do not run, so frozen parts cost no more than their forward pass:
///     backward(loss, head)      // all of an nn::Parameters, or the list that its where() makes
///     backward(loss, {x, w})
/// What was not walked may be walked later. Throws when the loss depends on none of them.
[[nodiscard]] Gradients backward(const Var& loss, std::span<const NamedVariable> variables);
[[nodiscard]] Gradients backward(const Var& loss, const std::vector<Var>& variables);

}  // namespace attune
