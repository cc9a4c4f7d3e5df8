#include <attune/autograd/normalize.hpp>
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
      b_(scope.add("b", {gates * hidden}, gate_bias(hidden, options.forget_bias))) {
  if (options.norm == CellNorm::none) return;
  gain_x_ = scope.add("gain_x", {gates * hidden}, init::constant(1));
  gain_h_ = scope.add("gain_h", {gates * hidden}, init::constant(1));
  gain_c_ = scope.add("gain_c", {hidden}, init::constant(1));
  bias_c_ = scope.add("bias_c", {hidden}, init::zeros());
}

Var Lstm::input(const Var& x) const {
  return detail::normalize_blocks(matmul(x, W_x_), gain_x_, W_h_.dim(0)) + b_;
}

RecurrentState Lstm::normalized_step(const Var& xw, const RecurrentState& state) const {
  const Var hw = detail::normalize_blocks(matmul(state.h, W_h_), gain_h_, W_h_.dim(0));
  const std::vector<Var> a = split(xw + hw, gates, -1);  // i f g o
  const Var c = sigmoid(a[1]) * state.c + sigmoid(a[0]) * tanh(a[2]);
  return {sigmoid(a[3]) * tanh(layer_norm(c, gain_c_, bias_c_)), c};
}

RecurrentOutput Lstm::run(const Var& xw, const RunOptions& options) const {
  if (gain_h_.defined()) {
    return detail::run_steps("lstm", xw, W_h_, options, [this](const Var& x, const auto& state) {
      return normalized_step(x, state);
    });
  }
  const auto [h, c_last] = lstm(xw, W_h_,
                                {.h0 = options.initial.h,
                                 .c0 = options.initial.c,
                                 .mask = options.mask,
                                 .direction = options.direction});
  return {h, {h[last_step(h.dim(0), options.direction)], c_last}};
}

RecurrentOutput Lstm::operator()(const Var& x, const RunOptions& options) const {
  return run(input(x), options);
}

RecurrentState Lstm::step(const Var& xw, const RecurrentState& state) const {
  return run(reshape(xw, xw.shape().inserted(0, 1)), {.initial = state}).last;
}

}  // namespace attune::nn
