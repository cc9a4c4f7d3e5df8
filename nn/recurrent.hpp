// A recurrent layer whose cell is chosen at run time.
#pragma once

#include <variant>

#include <attune/nn/gru.hpp>
#include <attune/nn/lstm.hpp>

namespace attune::nn {

/// Which cell: the LSTM, or the GRU in either of its forms.
enum class Cell { lstm, gru, gru_reset_before };

/// "lstm", "gru" or "gru_reset_before".
const char* name_of(Cell cell);

struct RecurrentOptions {
  Cell cell = Cell::gru;
};

/// An Lstm or a Gru: the same calls, the same parameter names.
class Recurrent {
 public:
  using Options = RecurrentOptions;
  using State = RecurrentState;

  Recurrent(const Scope& scope, Index in, Index hidden, const RecurrentOptions& options = {});

  /// (T, B, in) -> h (T, B, H) and the last state
  RecurrentOutput<> operator()(const Var& x, const RunOptions<>& options = {}) const;
  /// (..., in) -> (..., gates · H)
  Var input(const Var& x) const;
  /// xw (B, gates · H)
  RecurrentState step(const Var& xw, const RecurrentState& state) const;
  /// 4 for an LSTM, 3 for a GRU.
  Index gates() const;
  /// H
  Index size() const;

 private:
  std::variant<Lstm, Gru> layer_;
};

}  // namespace attune::nn
