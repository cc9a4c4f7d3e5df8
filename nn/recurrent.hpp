// Recurrent layers: the interface that all share, the LSTM and the GRU, bidirectional and stacked
// ones.
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include <attune/autograd/ops.hpp>
#include <attune/autograd/recurrent.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/check.hpp>

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
  return x.defined() ? gather(x.value(), rows, 1) : x;
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
  Mask mask = {};      // (T, B), undefined: all words
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
inline const char* name_of(Cell cell) {
  return cell == Cell::lstm ? "lstm" : cell == Cell::gru ? "gru" : "gru_reset_before";
}

struct RecurrentOptions {
  Cell cell = Cell::gru;
  double forget_bias =
      1;  // of an LSTM (Gers et al., 2000): the cell keeps its state until learnt otherwise
};

/// The LSTM or GRU of reference::recurrent (autograd/reference.hpp) over xw = x W_x + b. Cell::gru is the form
/// of cuDNN and PyTorch, and the faster one: a step is one product. The blocks of the weights'
/// columns are in the order i f g o or r z n: G is 4 or 3.
///
/// The input's share is one product over all steps. Padding (mask 0) carries the state over; what x
/// holds there does not matter, as long as it is finite.
class Recurrent {
 public:
  using Options = RecurrentOptions;
  using State = RecurrentState;

  Recurrent(const Scope& scope, Index in, Index hidden, const RecurrentOptions& options = {})
      : cell_(options.cell),
        W_x_(scope.add("W_x", {in, gates() * hidden}, init::glorot(gates()))),
        W_h_(scope.add("W_h", {hidden, gates() * hidden}, init::orthogonal(gates()))),
        b_(scope.add("b", {gates() * hidden}, bias_init(options, hidden))),
        path_(scope.path()) {
    if (cell_ == Cell::gru) b_hn_ = scope.add("b_hn", {hidden}, init::zeros());
  }

  /// (T, B, in) -> h (T, B, H) and the last state. For single steps there is `step`.
  RecurrentOutput<> operator()(const Var& x, const RunOptions<>& options = {}) const {
    const InLayer layer(path_);
    ShapeCheck(operation_of(cell_))("x", x, "T B D");
    const auto [h, c_last] = run(input(x), options);
    return {h, {h[last_step(h.dim(0), options.direction)], c_last}};
  }

  /// The input's share of the gates, x W_x + b: (..., in) -> (..., G H)
  Var input(const Var& x) const {
    const InLayer layer(path_);
    return add_matmul(b_, x, W_x_);
  }

  /// One step from the gates' share of the input, xw (B, G H).
  RecurrentState step(const Var& xw, const RecurrentState& state) const {
    const auto [h, c] = run(xw, {.initial = state});
    return {h, c};
  }

  /// G
  Index gates() const { return gates_of(cell_); }
  /// H
  Index size() const { return W_h_.dim(0); }

 private:
  /// For xw (T, B, G H), or for one step (B, G H); a GRU has no c.
  RecurrentResult run(const Var& xw, const RunOptions<>& options) const {
    const InLayer layer(path_);
    const auto& [mask, initial, direction] = options;
    return recurrent(xw, W_h_, {cell_, initial.h, initial.c, b_hn_, mask, direction});
  }

  /// Zeros, but `forget_bias` for an LSTM's second gate.
  static Init bias_init(const RecurrentOptions& options, Index hidden) {
    if (options.cell != Cell::lstm) return init::zeros();
    return [=](Tensor& b, Random&) {
      fill(b, 0);
      Tensor forget = b.slice(hidden, 2 * hidden);
      fill(forget, options.forget_bias);
    };
  }

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

/// States of the two layers of a Bidirectional. The last state of `backward` is that of the first
/// word, which this layer reads last.
template <class State = RecurrentState>
struct BidirectionalState {
  State forward = {}, backward = {};
};

/// Two layers of one kind, one reading from the left and one from the right (Schuster and Paliwal,
/// 1997), with the parameters "forward" and "backward":  h = [→h; ←h]
template <RecurrentLayer Layer>
class Bidirectional {
 public:
  using Options = typename Layer::Options;
  using State = BidirectionalState<typename Layer::State>;

  /// `hidden` is the size of each direction, and options go to both.
  Bidirectional(const Scope& scope, Index in, Index hidden, const Options& options = {})
      : forward_(scope / "forward", in, hidden, options),
        backward_(scope / "backward", in, hidden, options) {}

  /// (T, B, in) -> h (T, B, 2H) and the last states. Direction::backward reverses both
  /// layers.
  RecurrentOutput<State> operator()(const Var& x, const RunOptions<State>& options = {}) const {
    const auto& [mask, initial, direction] = options;
    const bool turned = direction == Direction::backward;
    const auto f = forward_(x, {mask, initial.forward, direction});
    const auto b =
        backward_(x, {mask, initial.backward, turned ? Direction::forward : Direction::backward});
    return {concat({f.h, b.h}, -1), {f.last, b.last}};
  }

  /// 2H
  Index size() const { return forward_.size() + backward_.size(); }

 private:
  Layer forward_, backward_;
};

struct StackedOptions {
  Index layers = 2;
  double dropout = 0;  // between the layers, in training
};

/// Layers of one kind, each reading the output of the one below, with the parameters "layer1"
/// (the lowest), "layer2" and so on:
///     y_1 = layer1(x),   y_l = layer_l(dropout(y_{l-1}))
/// There is no dropout between the steps of a layer, as in Zaremba et al. (2014), nor on x or on the
/// highest layer's output: use a Dropout outside for these two. The state is that of every layer,
/// the lowest first.
template <RecurrentLayer Layer>
class Stacked {
 public:
  using State = std::vector<typename Layer::State>;
  using Output = RecurrentOutput<State>;

  /// `layer_options` are those of every layer. Throws unless layers >= 1 and 0 <= dropout < 1.
  Stacked(const Scope& scope, Index in, Index hidden, const StackedOptions& options = {},
          const typename Layer::Options& layer_options = {})
      : dropout_(options.dropout) {
    if (options.layers < 1)
      fail("Stacked", "layers = " + std::to_string(options.layers) + " is not in [1, inf)");
    for (Index l = 1; l <= options.layers; ++l) {
      layers_.emplace_back(scope / ("layer" + std::to_string(l)), l == 1 ? in : size(), hidden,
                           layer_options);
    }
  }

  /// (T, B, in) -> h (T, B, size) and the last states, in that direction in all layers. Throws when
  /// there are initial states, but not one for each layer.
  Output operator()(const Var& x, const RunOptions<State>& options = {}) const {
    return run_layers(x, options.initial, [&](std::size_t l, const Var& in, const auto& state) {
      return layers_[l](in,
                        {.mask = options.mask, .initial = state, .direction = options.direction});
    });
  }

  /// The input's share of the lowest layer's gates: (..., in) -> (..., gates · H)
  Var input(const Var& x) const { return layers_.front().input(x); }

  /// One step of all layers from the lowest one's share of the input, xw (B, gates · H): what a
  /// decoder does. `states` is the `last` of the step before; empty: all zero. Throws when there are
  /// states, but not one for each layer.
  Output step(const Var& xw, const State& states) const {
    return run_layers(xw, states, [&](std::size_t l, const Var& in, const auto& state) {
      const auto next = layers_[l].step(l == 0 ? in : layers_[l].input(in), state);
      return RecurrentOutput<>{next.h, next};
    });
  }

  /// Gates of each layer: the last axis of `input` is this many times H.
  Index gates() const { return layers_.front().gates(); }

  /// Size of the output: H, or 2H.
  Index size() const { return layers_.front().size(); }

 private:
  /// From the lowest layer to the highest; run(l, in, state) runs one.
  template <class Run>
  Output run_layers(const Var& x, const State& states, Run run) const {
    if (!states.empty() && states.size() != layers_.size())
      fail("Stacked", "there are " + std::to_string(states.size()) + " states for " +
                          std::to_string(layers_.size()) + " layers");
    Output y;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const auto [h, last] =
          run(l, l == 0 ? x : dropout_(y.h), states.empty() ? typename Layer::State{} : states[l]);
      y.h = h;
      y.last.push_back(last);
    }
    return y;
  }

  std::vector<Layer> layers_;
  Dropout dropout_;
};

}  // namespace attune::nn
