#include <attune/autograd/ops.hpp>
#include <attune/autograd/recurrent.hpp>
#include <attune/nn/gru.hpp>
#include <attune/nn/in_layer.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {

Gru::Gru(const Scope& scope, Index in, Index hidden, const GruOptions& options)
    : form_(options.form),
      W_x_(scope.add("W_x", {in, gates() * hidden}, init::glorot(gates()))),
      W_h_(scope.add("W_h", {hidden, gates() * hidden}, init::orthogonal(gates()))),
      b_(scope.add("b", {gates() * hidden}, init::zeros())),
      path_(scope.path()) {
  if (form_ == GruForm::reset_after) b_hn_ = scope.add("b_hn", {hidden}, init::zeros());
}

Var Gru::input(const Var& x) const {
  return detail::in_layer(path_, [&] { return add_matmul(b_, x, W_x_); });
}

Var Gru::run(const Var& xw, const RunOptions<>& options) const {
  return detail::in_layer(path_, [&] {
    return gru(xw, W_h_,
               {.h0 = options.initial.h,
                .b_hn = b_hn_,
                .mask = options.mask,
                .direction = options.direction,
                .form = form_});
  });
}

RecurrentOutput<> Gru::operator()(const Var& x, const RunOptions<>& options) const {
  detail::in_layer(path_, [&] { ShapeCheck("gru")("x", x.shape(), "T B D"); });
  const Var h = run(input(x), options);
  return {h, {h[last_step(h.dim(0), options.direction)], {}}};
}

RecurrentState Gru::step(const Var& xw, const RecurrentState& state) const {
  return {run(xw, {.initial = state}), {}};
}

}  // namespace attune::nn
