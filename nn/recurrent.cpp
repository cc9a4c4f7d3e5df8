#include <array>

#include <fmt/format.h>

#include <attune/nn/recurrent.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {
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
