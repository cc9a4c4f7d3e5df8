#include <attune/nn/recurrent.hpp>

namespace attune::nn {
namespace {

/// Zeros, but `forget_bias` for an LSTM's second gate.
Init gate_bias(const RecurrentOptions& options, Index hidden) {
  if (options.cell != Cell::lstm) return init::zeros();
  return [=](Tensor& b, Random&) {
    fill(b, 0);
    Tensor forget = b.slice(hidden, 2 * hidden);
    fill(forget, options.forget_bias);
  };
}

}  // namespace

const char* name_of(Cell cell) {
  return cell == Cell::lstm ? "lstm" : cell == Cell::gru ? "gru" : "gru_reset_before";
}

Recurrent::Recurrent(const Scope& scope, Index in, Index hidden, const RecurrentOptions& options)
    : cell_(options.cell),
      W_x_(scope.add("W_x", {in, gates() * hidden}, init::glorot(gates()))),
      W_h_(scope.add("W_h", {hidden, gates() * hidden}, init::orthogonal(gates()))),
      b_(scope.add("b", {gates() * hidden}, gate_bias(options, hidden))),
      path_(scope.path()) {
  if (cell_ == Cell::gru) b_hn_ = scope.add("b_hn", {hidden}, init::zeros());
}

Var Recurrent::input(const Var& x) const {
  return detail::in_layer(path_, [&] { return add_matmul(b_, x, W_x_); });
}

RecurrentResult Recurrent::run(const Var& xw, const RunOptions<>& options) const {
  return detail::in_layer(path_, [&] {
    return recurrent(xw, W_h_,
                     {.cell = cell_,
                      .h0 = options.initial.h,
                      .c0 = options.initial.c,
                      .b_hn = b_hn_,
                      .mask = options.mask,
                      .direction = options.direction});
  });
}

RecurrentOutput<> Recurrent::operator()(const Var& x, const RunOptions<>& options) const {
  detail::in_layer(path_, [&] { ShapeCheck(operation_of(cell_))("x", x.shape(), "T B D"); });
  const auto [h, c_last] = run(input(x), options);
  return {h, {h[last_step(h.dim(0), options.direction)], c_last}};
}

RecurrentState Recurrent::step(const Var& xw, const RecurrentState& state) const {
  const auto [h, c] = run(xw, {.initial = state});
  return {h, c};
}

}  // namespace attune::nn
