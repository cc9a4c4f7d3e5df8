#include <cmath>

#include <attune/autograd/attention.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/score.hpp>

namespace attune::nn {

AdditiveScore::AdditiveScore(const Scope& scope, Index query, Index memory, Index attention)
    : W_a_(scope.add("W_a", {query, attention}, init::glorot())),
      U_a_(scope.add("U_a", {memory, attention}, init::glorot())),
      v_a_(scope.add("v_a", {attention},
                     init::normal(1 / std::sqrt(static_cast<double>(attention))))) {}

Keys AdditiveScore::keys(const Var& memory, const Tensor& mask) const {
  return {.values = matmul(memory, U_a_), .mask = mask};
}

Var AdditiveScore::operator()(const Query& query, const Keys& keys) const {
  return additive_scores(matmul(query.state, W_a_), keys.values, v_a_);
}

}  // namespace attune::nn
