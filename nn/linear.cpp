#include <attune/nn/linear.hpp>
#include <attune/nn/parameters.hpp>

namespace attune::nn {

Linear::Linear(const Scope& scope, Index in, Index out, const LinearOptions& options)
    : W_(scope.add("W", {in, out}, options.weight_init)), path_(scope.path()) {
  if (options.bias) b_ = scope.add("b", {out}, options.bias_init);
}

Var Linear::operator()(const Var& x) const {
  return detail::in_layer(path_, [&] { return Var(AffineLogits{x, affine()}); });
}

}  // namespace attune::nn
