#include <attune/autograd/ops.hpp>
#include <attune/models/parts.hpp>

namespace attune::models {

DeepOutput::DeepOutput(const nn::Scope& scope, const DeepOutputSizes& in, Index out)
    : U_o_(scope.add("U_o", {in.state, out}, nn::init::glorot())),
      V_o_(scope.add("V_o", {in.word, out}, nn::init::glorot())) {
  if (in.context > 0) C_o_ = scope.add("C_o", {in.context, out}, nn::init::glorot());
  b_o_ = scope.add("b_o", {out}, nn::init::zeros());
}

Var DeepOutput::operator()(const Var& s, const Var& y, const Var& c) const {
  const Var t = add_matmul(add_matmul(b_o_, s, U_o_), y, V_o_);
  return c.defined() ? add_matmul(t, c, C_o_) : t;
}

}  // namespace attune::models
