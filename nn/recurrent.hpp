// A recurrent layer whose cell is chosen at run time.
#pragma once

#include <concepts>
#include <string_view>
#include <variant>

#include <attune/nn/gru.hpp>
#include <attune/nn/lstm.hpp>

namespace attune::nn {

/// Which cell: the LSTM, or the GRU in either of its forms.
enum class Cell { lstm, gru, gru_reset_before };

/// "lstm", "gru" or "gru_reset_before". `cell_of` throws on any other name.
const char* name_of(Cell cell);
Cell cell_of(std::string_view name);

struct RecurrentOptions {
  Cell cell = Cell::gru;
  CellNorm norm = CellNorm::none;
};

/// An Lstm or a Gru: the same calls, the same parameter names.
class Recurrent {
 public:
  using Options = RecurrentOptions;

  Recurrent(const Scope& scope, Index in, Index hidden, const RecurrentOptions& options);
  /// A template, so that {} is no Cell.
  Recurrent(const Scope& scope, Index in, Index hidden, std::same_as<Cell> auto cell)
      : Recurrent(scope, in, hidden, RecurrentOptions{.cell = cell}) {}

  /// (T, B, in) -> h (T, B, H) and the last state
  RecurrentOutput operator()(const Var& x, const RunOptions& options = {}) const;
  /// (..., in) -> (..., gates · H)
  Var input(const Var& x) const;
  /// xw (B, gates · H)
  RecurrentState step(const Var& xw, const RecurrentState& state) const;
  /// 4 for an LSTM, 3 for a GRU.
  Index gates() const;

 private:
  std::variant<Lstm, Gru> layer_;
};

}  // namespace attune::nn
