// Recurrent layers: their interface, LSTM, GRU, own cells, bidirectional and stacked layers; scan.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <attune/autograd/ops.hpp>
#include <attune/autograd/recurrent.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/errors.hpp>

namespace attune::nn {

/// The state of a recurrent cell. Undefined members mean zeros; a GRU has no c.
struct RecurrentState {
  Var h = {}, c = {};  // (B, H)
};

/// Gathers rows by index (i32, may repeat): (B, ...) -> (rows, ...), without gradient. x may be
/// undefined.
inline Var select(const Var& x, const Tensor& rows) {
  return x.defined() ? gather(x.value(), rows) : x;
}

/// As `select`, along axis 1: (S, B, ...) -> (S, rows, ...).
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

/// Options of a run over a sequence. State is the state type of the layer.
template <class State = RecurrentState>
struct RunOptions {
  Mask mask = {};      // (T, B), undefined means no padding
  State initial = {};  // initial state, by default zeros
  Direction direction = Direction::forward;
};

/// The outputs of all steps, in the order of the input, and the final state. For
/// Direction::backward the final state is that of step 0.
template <class State = RecurrentState>
struct RecurrentOutput {
  Var h;       // (T, B, size)
  State last;  // final state
};

namespace detail {
/// What a step returns, as output and state: both, or a state that is or contains the output.
template <class State>
RecurrentOutput<State> with_output(auto step) {
  if constexpr (std::same_as<decltype(step), RecurrentOutput<State>>) {
    return step;
  } else if constexpr (requires { step.h; }) {
    return {step.h, step};
  } else {
    static_assert(std::convertible_to<decltype(step), Var>,
                  "a step returns a RecurrentOutput, or a state that is a Var or has a member h");
    return {step, step};
  }
}
}  // namespace detail

/// A loop over time: state_t = f(state_{t-1}, x_t, ...) for sequences x, ... (Var, Tensor or Mask)
/// along axis 0. f returns the new state, a Var or a struct whose member h is the output, or a
/// RecurrentOutput of output and state. Returns the outputs stacked in the order of the input, and
/// the final state. By default forward in time. The gradient of a weight in f is one product over
/// all steps. Throws unless the sequences have the same length.
template <class F, class Initial, class X, class... Xs,
          class State = std::conditional_t<std::same_as<Initial, Tensor>, Var, Initial>>
RecurrentOutput<State> scan(Direction direction, F f, Initial initial, const X& x,
                            const Xs&... xs) {
  const Index steps = x.dim(0);
  if (((xs.dim(0) != steps) || ...)) fail("scan", "the sequences have different lengths");
  if (steps == 0) fail("scan", "the sequence has no steps");
  std::vector<Var> outputs(static_cast<std::size_t>(steps));
  State state = std::move(initial);
  for (Index i = 0; i < steps; ++i) {
    const Index t = direction == Direction::forward ? i : steps - 1 - i;
    auto [h, next] = detail::with_output<State>(f(std::as_const(state), x[t], xs[t]...));
    outputs[static_cast<std::size_t>(t)] = std::move(h);
    state = std::move(next);
  }
  return {stack(outputs), std::move(state)};
}
template <class F, class... Rest>
requires(!std::same_as<F, Direction>) auto scan(F f, const Rest&... initial_and_sequences) {
  return scan(Direction::forward, std::move(f), initial_and_sequences...);
}

/// A recurrent layer on sequences (T, B, in): Lstm, Gru, Recurrent, a Bidirectional of one of them,
/// or a class of your own. Its constructor is L(scope, in, hidden, options); `size` is the size of
/// its output h.
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

/// A recurrent cell of your own, a class with the constructor C(scope, in, hidden) and
///     gates(), size()    G and H, of type Index
///     input(x)           the part of all steps that needs no state: (..., in) -> (..., G H)
///     step(xw, state)    xw (B, G H), old state -> new state. h and c of the old state are zeros
///                        at first; c of the new state may be undefined.
///     operator()(x, RunOptions<>)    optional: all steps at once, as Recurrent's
template <class C>
concept RecurrentCell = std::constructible_from<C, const Scope&, Index, Index> &&
    requires(const C& cell, const Var& x, const RecurrentState& state) {
  { cell.gates() } -> std::convertible_to<Index>;
  { cell.size() } -> std::convertible_to<Index>;
  { cell.input(x) } -> std::convertible_to<Var>;
  { cell.step(x, state) } -> std::convertible_to<RecurrentState>;
};

namespace detail {
/// A RecurrentCell whose type is erased.
struct OwnCell {
  Index gates, size;
  std::function<Var(const Var&)> input;
  std::function<RecurrentState(const Var&, const RecurrentState&)> step;
  std::function<RecurrentOutput<>(const Var&, const RunOptions<>&)> run = {};  // operator()
};
using MakeCell = std::shared_ptr<const OwnCell> (*)(const Scope& scope, Index in, Index hidden);

template <RecurrentCell C>
std::shared_ptr<const OwnCell> make_cell(const Scope& scope, Index in, Index hidden) {
  const auto cell = std::make_shared<const C>(scope, in, hidden);
  OwnCell own{cell->gates(), cell->size(), [cell](const Var& x) { return cell->input(x); },
              [cell](const Var& xw, const RecurrentState& s) { return cell->step(xw, s); }};
  if constexpr (requires(const Var& x, const RunOptions<>& options) { (*cell)(x, options); })
    own.run = [cell](const Var& x, const RunOptions<>& options) { return (*cell)(x, options); };
  return std::make_shared<const OwnCell>(std::move(own));
}
}  // namespace detail

/// The cell of a recurrent layer: a Cell, or own_cell<C>.
struct CellType {
  constexpr CellType(Cell cell, detail::MakeCell make = nullptr)  // NOLINT: implicit conversion
      : builtin(cell), own(make) {}
  bool operator==(const CellType&) const = default;

  Cell builtin;          // unless `own` is set
  detail::MakeCell own;  // constructs a cell of your own
};
template <RecurrentCell C>
inline constexpr CellType own_cell{Cell(), detail::make_cell<C>};

struct RecurrentOptions {
  CellType cell = Cell::gru;
  double forget_bias = 1;  // LSTM: initial bias of the forget gate (Gers et al., 2000)
};

/// LSTM or GRU, see reference::recurrent (autograd/reference.hpp), of the gate inputs x W_x + b,
/// which one matrix product computes for all steps; or a cell of your own. The columns of W_x, W_h
/// and b are G blocks: the gates i f g o of an LSTM (G = 4), or r z n of a GRU (G = 3). Cell::gru is
/// the form of cuDNN and PyTorch. It is faster than Cell::gru_reset_before: each step needs only one
/// matrix product.
///
/// At padding (mask 0) the state is copied from the previous step. The values of x there have no
/// influence, but must be finite.
class Recurrent {
 public:
  using Options = RecurrentOptions;
  using State = RecurrentState;

  Recurrent(const Scope& scope, Integer in, Integer hidden, const RecurrentOptions& options = {});

  /// (T, B, in) -> h (T, B, H) and the final state
  RecurrentOutput<> operator()(const Var& x, const RunOptions<>& options = {}) const;

  /// The gate inputs of any number of steps, x W_x + b: (..., in) -> (..., G H)
  Var input(const Var& x) const {
    const InLayer layer(path_);
    return own_ ? own_->input(x) : add_matmul(b_, x, W_x_);
  }

  /// One step, for a decoder: gate inputs xw (B, G H) from `input`, old state -> new state
  RecurrentState step(const Var& xw, const RecurrentState& state) const {
    if (own_) return step_own(xw, state);
    const auto [h, c] = run(xw, {.initial = state});
    return {h, c};
  }

  /// G, the number of gates
  Index gates() const { return own_ ? own_->gates : gates_of(cell_); }
  /// H
  Index size() const { return own_ ? own_->size : W_h_.dim(0); }

 private:
  /// xw (T, B, G H), or (B, G H) for one step
  RecurrentResult run(const Var& xw, const RunOptions<>& options) const {
    const InLayer layer(path_);
    const auto& [mask, initial, direction] = options;
    return recurrent(xw, W_h_, {cell_, initial.h, initial.c, b_hn_, mask, direction});
  }

  RecurrentOutput<> run_own(const Var& xw, const RunOptions<>& options) const;
  /// Where the mask (B) is 0, the new state is the old one.
  RecurrentState step_own(const Var& xw, RecurrentState old, const Mask& mask = {}) const;

  Cell cell_;
  std::shared_ptr<const detail::OwnCell> own_;  // if set, replaces the parameters
  Var W_x_;                                     // (in, G H)
  Var W_h_;                                     // (H, G H)
  Var b_;                                       // (G H)
  Var b_hn_;                                    // (H), Cell::gru only
  std::string path_;
};

struct LstmOptions {
  double forget_bias = 1;
};

/// LSTM layer (Hochreiter and Schmidhuber, 1997; forget gate: Gers et al., 2000), see Recurrent:
///     i f g o = [σ σ tanh σ](x_t W_x + b + h_{t-1} W_h)
///     c_t = f ⊙ c_{t-1} + i ⊙ g,   h_t = o ⊙ tanh(c_t)
class Lstm : public Recurrent {
 public:
  using Options = LstmOptions;
  Lstm(const Scope& scope, Integer in, Integer hidden, const LstmOptions& o = {})
      : Recurrent(scope, in, hidden, {.cell = Cell::lstm, .forget_bias = o.forget_bias}) {}
};

struct GruOptions {
  bool reset_before = false;  // the form of Cho et al. (2014), Cell::gru_reset_before
};

/// GRU layer (Cho et al., 2014), see Recurrent; x_n = x_t W_x + b, columns of n:
///     r z = σ(x_t W_x + b + h_{t-1} W_h),   h_t = (1 - z) ⊙ n + z ⊙ h_{t-1}
///     n = tanh(x_n + r ⊙ (h_{t-1} W_n + b_hn)), with reset_before tanh(x_n + (r ⊙ h_{t-1}) W_n)
class Gru : public Recurrent {
 public:
  using Options = GruOptions;
  Gru(const Scope& scope, Integer in, Integer hidden, const GruOptions& o = {})
      : Recurrent(scope, in, hidden,
                  {.cell = o.reset_before ? Cell::gru_reset_before : Cell::gru}) {}
};

/// State of a Bidirectional layer. A final state has each direction's state after the last step
/// that it processed: `forward` at step T - 1, `backward` at step 0.
template <class State = RecurrentState>
struct BidirectionalState {
  State forward = {}, backward = {};
};

/// Two layers of one type that process the sequence in both directions (Schuster and Paliwal,
/// 1997): h = [→h; ←h]. Their parameters are "forward.*" and "backward.*".
template <RecurrentLayer Layer>
class Bidirectional {
 public:
  using Options = typename Layer::Options;
  using State = BidirectionalState<typename Layer::State>;

  /// `hidden` is H of each direction; both layers have the same options.
  Bidirectional(const Scope& scope, Integer in, Integer hidden, const Options& options = {})
      : forward_(scope / "forward", in, hidden, options),
        backward_(scope / "backward", in, hidden, options) {}

  /// (T, B, in) -> h (T, B, 2H) and the final states. Direction::backward reverses both layers.
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
  double dropout = 0;  // rate of the dropout between layers, in training mode
};

/// A stack of L layers of one type, with the parameters "layer1.*", "layer2.*", ...:
///     y_1 = layer1(x),   y_l = layer_l(dropout(y_{l-1})),   output h = y_L
/// As in Zaremba et al. (2014), dropout applies between layers, not between the steps of a layer.
/// It does not apply to x and h; use a Dropout for these. The state is a vector of the states of
/// layer1, layer2, ...
template <RecurrentLayer Layer>
class Stacked {
 public:
  using State = std::vector<typename Layer::State>;
  using Output = RecurrentOutput<State>;

  /// All layers have the same `layer_options`. Throws unless layers >= 1 and 0 <= dropout < 1.
  Stacked(const Scope& scope, Integer in, Integer hidden, const StackedOptions& options = {},
          const typename Layer::Options& layer_options = {})
      : dropout_(options.dropout) {
    if (options.layers < 1)
      fail("Stacked", "layers = " + std::to_string(options.layers) + " is not in [1, inf)");
    for (Index l = 1; l <= options.layers; ++l) {
      layers_.emplace_back(scope / ("layer" + std::to_string(l)), l == 1 ? Index{in} : size(),
                           hidden, layer_options);
    }
  }

  /// (T, B, in) -> h (T, B, size) and the final states. The direction applies to all layers. Throws
  /// unless there are no initial states, or one for each layer.
  Output operator()(const Var& x, const RunOptions<State>& options = {}) const {
    return run_layers(x, options.initial, [&](std::size_t l, const Var& in, const auto& state) {
      return layers_[l](in,
                        {.mask = options.mask, .initial = state, .direction = options.direction});
    });
  }

  /// The gate inputs of layer1: (..., in) -> (..., gates · H), see Recurrent::input.
  Var input(const Var& x) const { return layers_.front().input(x); }

  /// One step of all layers, for a decoder: gate inputs of layer1 xw (B, gates · H), and `last` of
  /// the previous step (empty: zeros) -> h (B, H) and the new states. Throws unless there is one
  /// state for each layer.
  Output step(const Var& xw, const State& states) const {
    return run_layers(xw, states, [&](std::size_t l, const Var& in, const auto& state) {
      return detail::with_output<typename Layer::State>(
          layers_[l].step(l == 0 ? in : layers_[l].input(in), state));
    });
  }

  /// Number of gates of each layer, see `input`.
  Index gates() const { return layers_.front().gates(); }

  /// Size of the output: H, or 2H for a stack of Bidirectional layers.
  Index size() const { return layers_.front().size(); }

 private:
  /// Runs all layers, starting with layer1; run(l, in, state) runs layer l.
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
