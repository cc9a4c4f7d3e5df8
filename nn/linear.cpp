#include <attune/autograd/ops.hpp>
#include <attune/nn/linear.hpp>

namespace attune::nn {

Linear::Linear(const Scope& scope, Index in, Index out, const LinearOptions& options)
    : W_(scope.add("W", {in, out}, options.weight_init)) {
  if (options.bias) b_ = scope.add("b", {out}, options.bias_init);
}

Var Linear::operator()(const Var& x) const {
  return b_.defined() ? add_matmul(b_, x, W_) : matmul(x, W_);
}

}  // namespace attune::nn
