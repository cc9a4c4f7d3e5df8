#include <attune/nn/linear.hpp>

namespace attune::nn {

Linear::Linear(const Scope& scope, Index in, Index out, const LinearOptions& options)
    : W_(scope.add("W", {in, out}, options.weight_init)) {
  if (options.bias) b_ = scope.add("b", {out}, options.bias_init);
}

Var Linear::operator()(const Var& x) const { return AffineLogits{x, affine()}; }

}  // namespace attune::nn
