#include <attune/autograd/ops.hpp>
#include <attune/autograd/recurrent.hpp>
#include <attune/nn/in_layer.hpp>
#include <attune/nn/lstm.hpp>
#include <attune/tensor/check.hpp>

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
    : W_x_(scope.add("W_x", {in, gates() * hidden}, init::glorot(gates()))),
      W_h_(scope.add("W_h", {hidden, gates() * hidden}, init::orthogonal(gates()))),
      b_(scope.add("b", {gates() * hidden}, gate_bias(hidden, options.forget_bias))),
      path_(scope.path()) {}

Var Lstm::input(const Var& x) const {
  return detail::in_layer(path_, [&] { return add_matmul(b_, x, W_x_); });
}

LstmResult Lstm::run(const Var& xw, const RunOptions<>& options) const {
  return detail::in_layer(path_, [&] {
    return lstm(xw, W_h_,
                {.h0 = options.initial.h,
                 .c0 = options.initial.c,
                 .mask = options.mask,
                 .direction = options.direction});
  });
}

RecurrentOutput<> Lstm::operator()(const Var& x, const RunOptions<>& options) const {
  detail::in_layer(path_, [&] { ShapeCheck("lstm")("x", x.shape(), "T B D"); });
  const auto [h, c_last] = run(input(x), options);
  return {h, {h[last_step(h.dim(0), options.direction)], c_last}};
}

RecurrentState Lstm::step(const Var& xw, const RecurrentState& state) const {
  const auto [h, c] = run(xw, {.initial = state});
  return {h, c};
}

}  // namespace attune::nn
