#include <attune/autograd/ops.hpp>
#include <attune/autograd/recurrent.hpp>
#include <attune/nn/gru.hpp>

namespace attune::nn {

Gru::Gru(const Scope& scope, Index in, Index hidden, const GruOptions& options)
    : form_(options.form),
      W_x_(scope.add("W_x", {in, gates * hidden}, init::glorot(gates))),
      W_h_(scope.add("W_h", {hidden, gates * hidden}, init::orthogonal(gates))),
      b_(scope.add("b", {gates * hidden}, init::zeros())) {
  if (form_ == GruForm::reset_after) b_hn_ = scope.add("b_hn", {hidden}, init::zeros());
  if (options.norm == CellNorm::none) return;
  gain_x_ = scope.add("gain_x", {gates * hidden}, init::constant(1));
  gain_h_ = scope.add("gain_h", {gates * hidden}, init::constant(1));
}

Var Gru::input(const Var& x) const {
  return detail::normalize_blocks(matmul(x, W_x_), gain_x_, W_h_.dim(0)) + b_;
}

RecurrentState Gru::normalized_step(const Var& xw, const Var& h) const {
  const Index n = W_h_.dim(0);
  const std::vector<Var> x = split(xw, gates, -1);  // r z n
  const std::vector<Var> hw =
      split(detail::normalize_blocks(matmul(h, W_h_), gain_h_, n), gates, -1);
  const Var r = sigmoid(x[0] + hw[0]), z = sigmoid(x[1] + hw[1]);
  const auto reset_before = [&] {
    const Var W_n = slice(W_h_, 1, 2 * n, 3 * n), gain_n = slice(gain_h_, 0, 2 * n, 3 * n);
    return detail::normalize_blocks(matmul(r * h, W_n), gain_n, n);
  };
  const Var candidate =
      tanh(x[2] + (form_ == GruForm::reset_after ? r * (hw[2] + b_hn_) : reset_before()));
  return {(1 - z) * candidate + z * h, {}};
}

RecurrentOutput Gru::run(const Var& xw, const RunOptions& options) const {
  if (gain_h_.defined()) {
    return detail::run_steps("gru", xw, W_h_, options, [this](const Var& x, const auto& state) {
      return normalized_step(x, state.h);
    });
  }
  const Var h = gru(xw, W_h_,
                    {.h0 = options.initial.h,
                     .b_hn = b_hn_,
                     .mask = options.mask,
                     .direction = options.direction,
                     .form = form_});
  return {h, {h[last_step(h.dim(0), options.direction)], {}}};
}

RecurrentOutput Gru::operator()(const Var& x, const RunOptions& options) const {
  return run(input(x), options);
}

RecurrentState Gru::step(const Var& xw, const RecurrentState& state) const {
  return run(reshape(xw, xw.shape().inserted(0, 1)), {.initial = state}).last;
}

}  // namespace attune::nn
