#include <attune/autograd/ops.hpp>
#include <attune/nn/embedding.hpp>
#include <attune/nn/parameters.hpp>

namespace attune::nn {

Embedding::Embedding(const Scope& scope, Index vocabulary, Index size, const Init& init)
    : E_(scope.add("E", {vocabulary, size}, init)), path_(scope.path()) {}

Var Embedding::operator()(const Tensor& ids) const {
  return detail::in_layer(path_, [&] { return gather(E_, ids); });
}

}  // namespace attune::nn
