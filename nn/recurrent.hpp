// Recurrent layers: the interface that all share, the LSTM and the GRU.
#pragma once

#include <concepts>
#include <vector>

#include <attune/autograd/recurrent.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/arrange.hpp>

namespace attune::nn {

/// The state of a recurrent cell. Undefined members are zero; a GRU has no c.
struct RecurrentState {
  Var h = {}, c = {};  // (B, H)
};

// Selection of some rows of a batch, for the hypotheses that a search keeps.

/// Rows by number (i32), which may repeat: (B, ...) -> (rows, ...). Unrecorded; undefined stays so.
inline Var select(const Var& x, const Tensor& rows) {
  return x.defined() ? gather(x.value(), rows) : x;
}

/// The same of axis 1: (S, B, ...) -> (S, rows, ...).
inline Var select_columns(const Var& x, const Tensor& rows) {
  return x.defined() ? gather_columns(x.value(), rows) : x;
}

inline RecurrentState select(const RecurrentState& state, const Tensor& rows) {
  return {select(state.h, rows), select(state.c, rows)};
}

/// The states of several layers.
template <class State>
std::vector<State> select(const std::vector<State>& states, const Tensor& rows) {
  std::vector<State> selected;
  for (const State& state : states) selected.push_back(select(state, rows));
  return selected;
}

/// How to run over a sequence. State is the layer's own: that of a cell, or of several.
template <class State = RecurrentState>
struct RunOptions {
  Tensor mask = {};    // (T, B), undefined: all words
  State initial = {};  // by default zero
  Direction direction = Direction::forward;
};

/// The output at every step, in the order of the input, and the final state, after the step that
/// was visited last.
template <class State = RecurrentState>
struct RecurrentOutput {
  Var h;  // (T, B, size)
  State last;
};

/// A layer that reads a sequence (T, B, in): Lstm, Gru, Recurrent, Bidirectional and Stacked of
/// them, or one of your own. It is made as L(scope, in, hidden, options), and `size` is that of its
/// h.
template <class L>
concept RecurrentLayer =
    std::constructible_from<L, const Scope&, Index, Index, const typename L::Options&> &&
    requires(const L& layer, const Var& x, const RunOptions<typename L::State>& options) {
  { layer(x, options) } -> std::same_as<RecurrentOutput<typename L::State>>;
  { layer.size() } -> std::same_as<Index>;
};

using attune::Cell;

/// "lstm", "gru" or "gru_reset_before".
const char* name_of(Cell cell);

struct RecurrentOptions {
  Cell cell = Cell::gru;
  double forget_bias = 1;  // of an LSTM (Gers et al., 2000): remember, until learnt otherwise
};

/// LSTM (Hochreiter and Schmidhuber, 1997; forget gate: Gers et al., 2000):
///     i f g o = [σ σ tanh σ](x_t W_x + h_{t-1} W_h + b)
///     c_t = f ⊙ c_{t-1} + i ⊙ g,   h_t = o ⊙ tanh(c_t)
/// GRU (Cho et al., 2014), with z as in cuDNN and PyTorch:
///     r z = σ(x_t W_x + h_{t-1} W_h + b),   h_t = (1 - z) ⊙ n + z ⊙ h_{t-1}
///     gru:               n = tanh(x_t W_x + b + r ⊙ (h_{t-1} W_h + b_hn))
///     gru_reset_before:  n = tanh(x_t W_x + b + (r ⊙ h_{t-1}) W_h)
/// each with its own block of the weights' columns, in the order i f g o or r z n: G is 4 or 3. The
/// papers exchange z and 1 - z: the same function with the sign of z's weights turned. Cell::gru is
/// the form of cuDNN and PyTorch, and the faster one: a step is one product.
///
/// The input's share is one product over all steps. Padding (mask 0) carries the state over; what x
/// holds there does not matter, as long as it is finite.
class Recurrent {
 public:
  using Options = RecurrentOptions;
  using State = RecurrentState;

  Recurrent(const Scope& scope, Index in, Index hidden, const RecurrentOptions& options = {});

  /// (T, B, in) -> h (T, B, H) and the last state. For single steps there is `step`.
  RecurrentOutput<> operator()(const Var& x, const RunOptions<>& options = {}) const;

  /// The input's share of the gates, x W_x + b: (..., in) -> (..., G H)
  Var input(const Var& x) const;

  /// One step from the gates' share of the input, xw (B, G H).
  RecurrentState step(const Var& xw, const RecurrentState& state) const;

  /// G
  Index gates() const { return gates_of(cell_); }
  /// H
  Index size() const { return W_h_.dim(0); }

 private:
  /// For xw (T, B, G H), or for one step (B, G H); a GRU has no c.
  RecurrentResult run(const Var& xw, const RunOptions<>& options) const;

  Cell cell_;
  Var W_x_;   // (in, G H)
  Var W_h_;   // (H, G H)
  Var b_;     // (G H)
  Var b_hn_;  // (H), Cell::gru only
  std::string path_;
};

struct LstmOptions {
  double forget_bias = 1;
};

/// A Recurrent that is an LSTM.
class Lstm : public Recurrent {
 public:
  using Options = LstmOptions;
  Lstm(const Scope& scope, Index in, Index hidden, const LstmOptions& o = {})
      : Recurrent(scope, in, hidden, {.cell = Cell::lstm, .forget_bias = o.forget_bias}) {}
};

/// A GRU, unless its options say otherwise.
using Gru = Recurrent;

}  // namespace attune::nn
