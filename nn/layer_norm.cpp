#include <attune/autograd/ops.hpp>
#include <attune/nn/layer_norm.hpp>
#include <attune/nn/parameters.hpp>

namespace attune::nn {

LayerNorm::LayerNorm(const Scope& scope, Index n, const LayerNormOptions& options)
    : gain_(scope.add("gain", {n}, init::constant(1))),
      bias_(scope.add("bias", {n}, init::zeros())),
      epsilon_(options.epsilon),
      path_(scope.path()) {}

Var LayerNorm::operator()(const Var& x) const {
  return detail::in_layer(path_, [&] { return layer_norm(x, gain_, bias_, epsilon_); });
}

}  // namespace attune::nn
