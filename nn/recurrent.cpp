#include <attune/nn/recurrent.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::nn {
namespace {

/// Zeros, except `forget_bias` for the forget gate of an LSTM.
Init bias_init(const RecurrentOptions& options, Index hidden) {
  if (options.cell != Cell::lstm) return init::zeros();
  return [=](Tensor& b, Random&) {
    fill(b, 0);
    Tensor forget = b.slice(hidden, 2 * hidden);
    fill(forget, options.forget_bias);
  };
}

}  // namespace

Recurrent::Recurrent(const Scope& scope, Integer in, Integer hidden,
                     const RecurrentOptions& options)
    : cell_(options.cell.builtin), path_(scope.path()) {
  if (options.cell.own) own_ = options.cell.own(scope, in, hidden);
  if (own_) return;
  W_x_ = scope.add("W_x", {in, gates() * hidden}, init::glorot(gates()));
  W_h_ = scope.add("W_h", {hidden, gates() * hidden}, init::orthogonal(gates()));
  b_ = scope.add("b", {gates() * hidden}, bias_init(options, hidden));
  if (cell_ == Cell::gru) b_hn_ = scope.add("b_hn", {hidden}, init::zeros());
}

RecurrentOutput<> Recurrent::operator()(const Var& x, const RunOptions<>& options) const {
  const InLayer layer(path_);
  ShapeCheck shapes(own_ ? "recurrent" : operation_of(cell_));
  shapes("x", x, "T B D");
  if (own_ && options.mask.defined()) shapes("mask", options.mask, "T B");
  if (own_) return own_->run ? own_->run(x, options) : run_own(own_->input(x), options);
  const auto [h, c_last] = run(input(x), options);
  return {h, {h[last_step(h.dim(0), options.direction)], c_last}};
}

RecurrentOutput<> Recurrent::run_own(const Var& xw, const RunOptions<>& o) const {
  const auto step = [&](const RecurrentState& state, const Var& now, const auto&... mask) {
    return step_own(now, state, Mask::unchecked(mask)...);
  };
  return o.mask.defined() ? scan(o.direction, step, o.initial, xw, o.mask)
                          : scan(o.direction, step, o.initial, xw);
}

RecurrentState Recurrent::step_own(const Var& xw, RecurrentState old, const Mask& mask) const {
  const InLayer layer(path_);
  for (Var* x : {&old.h, &old.c})
    if (!x->defined()) *x = zeros({xw.dim(0), size()}, xw.dtype());
  RecurrentState next = own_->step(xw, old);
  if (!mask.defined()) return next;
  const Mask used = Mask::unchecked(mask.reshape({-1, 1}));
  if (next.c.defined()) next.c = where(used, next.c, old.c);
  return {where(used, next.h, old.h), next.c};
}

}  // namespace attune::nn
