// What all recurrent layers have in common, of one cell as of many.
#pragma once

#include <concepts>

#include <attune/nn/parameters.hpp>
#include <attune/tensor/recurrent.hpp>

namespace attune::nn {

/// The state of a recurrent cell. Undefined members are zero; a GRU has no c.
struct RecurrentState {
  Var h = {}, c = {};  // (B, H)
};

/// How to run over a sequence. State is the layer's own: that of a cell, or of several.
template <class State = RecurrentState>
struct RunOptions {
  Tensor mask = {};    // (T, B), undefined: all words
  State initial = {};  // by default zero
  Direction direction = Direction::forward;
};

/// What comes out at every step, in the order of the input, and the state after the step that was
/// visited last.
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

}  // namespace attune::nn
