#include <attune/autograd/ops.hpp>
#include <attune/autograd/recurrent.hpp>
#include <attune/nn/lstm.hpp>

namespace attune::nn {
namespace {

/// Zeros, but `forget_bias` for the second of the four gates.
Init gate_bias(Index hidden, double forget_bias) {
  return [=](Tensor& b, Random&) {
    fill(b, 0);
    Tensor forget = b.slice(hidden, 2 * hidden);
    fill(forget, forget_bias);
  };
}

}  // namespace

Lstm::Lstm(const Scope& scope, Index in, Index hidden, const LstmOptions& options)
    : W_x_(scope.add("W_x", {in, gates * hidden}, init::glorot(gates))),
      W_h_(scope.add("W_h", {hidden, gates * hidden}, init::orthogonal(gates))),
      b_(scope.add("b", {gates * hidden}, gate_bias(hidden, options.forget_bias))) {}

Var Lstm::input(const Var& x) const { return matmul(x, W_x_) + b_; }

RecurrentOutput Lstm::operator()(const Var& x, const RunOptions& options) const {
  const auto [h, c_last] = lstm(input(x), W_h_,
                                {.h0 = options.initial.h,
                                 .c0 = options.initial.c,
                                 .mask = options.mask,
                                 .direction = options.direction});
  return {h, {h[last_step(h.dim(0), options.direction)], c_last}};
}

RecurrentState Lstm::step(const Var& xw, const RecurrentState& state) const {
  const auto [h, c] =
      lstm(reshape(xw, xw.shape().inserted(0, 1)), W_h_, {.h0 = state.h, .c0 = state.c});
  return {h[0], c};
}

}  // namespace attune::nn
