#include <attune/autograd/ops.hpp>
#include <attune/nn/embedding.hpp>

namespace attune::nn {

Embedding::Embedding(const Scope& scope, Index vocabulary, Index size, const Init& init)
    : E_(scope.add("E", {vocabulary, size}, init)) {}

Var Embedding::operator()(const Tensor& ids) const { return gather(E_, ids); }

}  // namespace attune::nn
