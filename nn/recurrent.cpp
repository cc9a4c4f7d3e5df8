#include <attune/autograd/ops.hpp>
#include <attune/nn/recurrent.hpp>
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

namespace {

std::variant<Lstm, Gru> make(const Scope& scope, Index in, Index hidden,
                             const RecurrentOptions& o) {
  if (o.cell == Cell::lstm) return Lstm(scope, in, hidden);
  const GruForm form = o.cell == Cell::gru ? GruForm::reset_after : GruForm::reset_before;
  return Gru(scope, in, hidden, {.form = form});
}

}  // namespace

const char* name_of(Cell cell) {
  return cell == Cell::lstm ? "lstm" : cell == Cell::gru ? "gru" : "gru_reset_before";
}

Recurrent::Recurrent(const Scope& scope, Index in, Index hidden, const RecurrentOptions& options)
    : layer_(make(scope, in, hidden, options)) {}

RecurrentOutput<> Recurrent::operator()(const Var& x, const RunOptions<>& options) const {
  return std::visit([&](const auto& layer) { return layer(x, options); }, layer_);
}

Var Recurrent::input(const Var& x) const {
  return std::visit([&](const auto& layer) { return layer.input(x); }, layer_);
}

RecurrentState Recurrent::step(const Var& xw, const RecurrentState& state) const {
  return std::visit([&](const auto& layer) { return layer.step(xw, state); }, layer_);
}

Index Recurrent::gates() const {
  return std::visit([](const auto& layer) { return layer.gates(); }, layer_);
}

Index Recurrent::size() const {
  return std::visit([](const auto& layer) { return layer.size(); }, layer_);
}

}  // namespace attune::nn
