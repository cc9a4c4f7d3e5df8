// Gradients as Vars, which can be differentiated again.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <attune/autograd/backward.hpp>

namespace attune {

/// The gradients ∂y/∂x of a scalar y, in the order of `x`, as Vars with a history: a loss may use
/// them, and grad or backward differentiates them again, to any order. Gradients of `backward` are
/// Tensors, that is, constants. Each x is any Var with a history, not only a variable; the gradient
/// is zero if y does not depend on this x. Under NoGrad the gradients are constants. The history of y is kept, so that backward can run on it
/// later. A gradient penalty (Gulrajani et al., 2017):
///
///     const Var x = variable(data), y = critic(x);
///     const Var penalty = mean(square(norm(grad(sum(y), x), -1) - 1));
///     const Gradients gradients = backward(loss + 10 * penalty);
///
/// Throws if y is not a scalar, depends on no x, or was walked by backward before, or if an
/// operation has a pullback that takes only Tensors.
[[nodiscard]] std::vector<Var> grad(const Var& y, const std::vector<Var>& x);
[[nodiscard]] std::vector<Var> grad(const Var& y, std::span<const NamedVariable> variables);
[[nodiscard]] Var grad(const Var& y, const Var& x);
[[nodiscard]] inline std::vector<Var> grad(const Var& y, std::initializer_list<Var> x) {
  return grad(y, std::vector<Var>(x));
}
/// The same for a result y of any shape, given dy = ∂loss/∂y in that shape.
[[nodiscard]] std::vector<Var> grad(const Var& y, const std::vector<Var>& x, const Var& dy);
[[nodiscard]] Var grad(const Var& y, const Var& x, const Var& dy);

/// The product H v of the Hessian of a scalar loss with a vector v, which has one tensor per variable
/// (a variable that v lacks counts as 0). Computed as the gradient of Σ v · ∂loss/∂w, without H.
[[nodiscard]] Gradients hessian_product(const Var& loss, std::span<const NamedVariable> variables,
                                        const Gradients& v);

/// f(x), whose history is not kept: backward runs f again, and so takes less memory and more time
/// (activation checkpointing; Chen et al., 2016). Gradients, also those of variables that f uses, are
/// the same bits, as dropout draws the same numbers again. Objects that f refers to must exist, and be
/// unchanged, until backward.
///
///     for (const auto& layer : layers) x = recompute(layer, x);
Var recompute(const std::function<Var(const Var&)>& f, const Var& x);

}  // namespace attune
