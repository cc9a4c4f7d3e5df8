// Reverse-mode differentiation.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <attune/autograd/var.hpp>

namespace attune {

/// A variable and its name in messages.
struct NamedVariable {
  std::string name;
  Var variable;
};

/// Gradients ∂loss/∂w of all variables w that the loss depends on, or of the requested ones. They
/// are Tensors without history: a loss that uses a gradient treats it as a constant (see grad.hpp).
class Gradients {
 public:
  Gradients() = default;
  /// Gradients computed elsewhere. Throws unless there is one per variable, of its shape and dtype.
  Gradients(std::span<const NamedVariable> variables, std::vector<Tensor> gradients);

  /// The gradient of a variable, in its shape. Throws if the loss does not depend on the variable.
  const Tensor& operator[](const Var& variable) const&;
  Tensor operator[](const Var& variable) const&& { return (*this)[variable]; }

  /// The same, or null if the loss does not depend on the variable.
  const Tensor* find(const Var& variable) const&;
  const Tensor* find(const Var& variable) const&& = delete;  // keep the Gradients in a variable

  /// All gradients, in the order in which the variables were created. They may be changed in place:
  ///     for (Tensor gradient : gradients.all()) scale_in_place(gradient, 0.5);
  std::span<const Tensor> all() const&;
  std::vector<Tensor> all() const&& { return tensors_; }

  /// ‖g‖₂ over all elements of all gradients, accumulated in double: finite if all elements are.
  double global_norm() const;
  /// The same. Caches the result until an element changes, for use by clipping and the optimiser.
  double global_norm();

  /// Adds the gradients of another loss, variable by variable. A variable in only one of the two
  /// keeps its gradient. The sum shares no elements with `other`. Use it to accumulate
  /// micro-batches. If a loss is a mean over tokens, weight each part by its share of the tokens:
  ///     for (const Batch& part : parts) total += backward(loss(part) * (tokens(part) / tokens(all)));
  Gradients& operator+=(Gradients other) &;

  /// Multiplies all gradients by a factor. Other Tensors that share their elements do not change.
  void scale(double factor);

 private:
  friend class BackwardWalk;
  bool norm_is_known() const;

  std::vector<std::uint64_t> ids_;  // ascending
  bool requested_only_ = false;     // only of requested variables
  std::vector<Tensor> tensors_;
  double norm_ = 0;
  std::uint64_t norm_at_ = 0;  // on the modification clock; 0: norm_ is not known
};

/// The gradients of a scalar. Walks its history once, newest operation first, and frees each
/// pullback and its captures after running it. So a history can be walked only once. What a pullback
/// computes is not recorded; grad (grad.hpp) returns gradients with a history.
///
/// Throws if the loss is not a scalar, depends on no variable or was walked before, or if a tensor
/// that a pullback needs was modified in place since the forward pass.
[[nodiscard]] Gradients backward(const Var& loss);

/// The same for a result y of any shape, given dy = ∂loss/∂y in that shape.
[[nodiscard]] Gradients backward(const Var& y, const Tensor& dy);

/// The gradients of the given variables only, equal bit for bit to those of backward(loss). Skips
/// pullbacks that lead to none of these variables, so frozen parts cost only their forward pass:
///     backward(loss, head)      // an nn::Parameters, or the result of its where()
///     backward(loss, {x, w})
/// Parts that were not walked can be walked later. Throws if the loss depends on no given variable.
[[nodiscard]] Gradients backward(const Var& loss, std::span<const NamedVariable> variables);
[[nodiscard]] Gradients backward(const Var& loss, const std::vector<Var>& variables);

namespace detail {

/// Runs the pullbacks between y and these inputs of its history, and adds the gradients of the inputs
/// to dx (null: not needed). To be called by a pullback.
void backward_into(const Var& y, const Tensor& dy, std::span<const Target> inputs,
                   std::span<GradientSlot* const> dx);

}  // namespace detail
}  // namespace attune
