// Bidirectional and stacked recurrent layers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <attune/autograd/ops.hpp>
#include <attune/nn/dropout.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {

/// States of the two layers of a Bidirectional. The last state of `backward` is that of the first
/// word, which this layer reads last.
template <class State = RecurrentState>
struct BothWays {
  State forward = {}, backward = {};
};

/// Two layers of one kind, one reading from the left and one from the right (Schuster and Paliwal,
/// 1997), with the parameters "forward" and "backward":  h = [→h; ←h]
template <RecurrentLayer Layer>
class Bidirectional {
 public:
  using Options = typename Layer::Options;
  using State = BothWays<typename Layer::State>;

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
  DropoutKind dropout_kind = DropoutKind::elementwise;
  bool residual = false;  // from the second layer on, add the layer's input to its output
};

/// Layers of one kind, each reading the output of the one below, with the parameters "layer1"
/// (the lowest), "layer2" and so on:
///     y_1 = layer1(x),   y_l = layer_l(dropout(y_{l-1}))
/// and with residual connections (Wu et al., 2016, equation 6), which go around the dropout,
///     y_l = layer_l(dropout(y_{l-1})) + y_{l-1}   for l > 1
/// so that sizes always agree: x is read by the first layer alone. There is no dropout between the
/// steps of a layer, as in Zaremba et al. (2014), nor on x or on the highest layer's output: use a
/// Dropout outside for these two. With DropoutKind::per_sequence, all steps share one mask for each
/// gap between two layers. The state is that of every layer, the lowest first; with residual
/// connections the output is not the highest layer's h alone.
template <RecurrentLayer Layer>
class Stacked {
 public:
  using State = std::vector<typename Layer::State>;
  using Output = RecurrentOutput<State>;

  /// `layer_options` are those of every layer. Throws unless layers >= 1 and 0 <= dropout < 1.
  Stacked(const Scope& scope, Index in, Index hidden, const StackedOptions& options = {},
          const typename Layer::Options& layer_options = {})
      : dropout_(options.dropout, options.dropout_kind), options_(options) {
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
    return climb(x, options.initial, {}, [&](std::size_t l, const Var& in, const auto& state) {
      return layers_[l](in,
                        {.mask = options.mask, .initial = state, .direction = options.direction});
    });
  }

  /// The input's share of the lowest layer's gates: (..., in) -> (..., gates · H)
  Var input(const Var& x) const { return layers_.front().input(x); }

  /// One step of all layers from the lowest one's share of the input, xw (B, gates · H): what a
  /// decoder does. `states` is the `last` of the step before; empty: all zero. `masks` are those of
  /// `draw_masks`; empty: dropout draws new ones. The lowest layer's new state is transition(state)
  /// before it goes on upward, for a decoder with a second cell there. Throws when there are states
  /// or masks, but not one for each layer or gap.
  template <class Transition = std::identity>
  Output step(const Var& xw, const State& states, const std::vector<Tensor>& masks = {},
              Transition transition = {}) const {
    return climb(xw, states, masks, [&](std::size_t l, const Var& in, const auto& state) {
      const typename Layer::State next = l == 0 ? transition(layers_[l].step(in, state))
                                                : layers_[l].step(layers_[l].input(in), state);
      return RecurrentOutput<>{next.h, next};
    });
  }

  /// For the steps over one sequence: dropout's mask (B, H) for each gap between two layers, the
  /// lowest first. Empty where there is none to share: outside of training, at rate 0, or
  /// elementwise.
  std::vector<Tensor> draw_masks(Index batch, DType dtype) const {
    std::vector<Tensor> masks;
    if (options_.dropout_kind != DropoutKind::per_sequence) return masks;
    for (std::size_t gap = 1; gap < layers_.size(); ++gap) {
      const Tensor mask = dropout_.draw({batch, size()}, dtype);
      if (mask.defined()) masks.push_back(mask);
    }
    return masks;
  }

  /// Gates of each layer: the last axis of `input` is this many times H.
  Index gates() const { return layers_.front().gates(); }

  /// Size of the output: H, or 2H.
  Index size() const { return layers_.front().size(); }

 private:
  /// Throws unless there are `expected` of them, or none.
  void require(std::size_t count, const char* what, std::size_t expected) const {
    if (count == 0 || count == expected) return;
    fail("Stacked", "there are " + std::to_string(count) + " " + what + " for " +
                        std::to_string(layers_.size()) + " layers");
  }

  /// From the lowest layer to the highest; run(l, in, state) runs one.
  template <class Run>
  Output climb(const Var& x, const State& states, const std::vector<Tensor>& masks, Run run) const {
    require(states.size(), "states", layers_.size());
    require(masks.size(), "masks", layers_.size() - 1);
    Output y;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const Var in = l == 0 ? x : masks.empty() ? dropout_(y.h) : y.h * masks[l - 1];
      const auto output = run(l, in, states.empty() ? typename Layer::State{} : states[l]);
      y.h = options_.residual && l > 0 ? output.h + y.h : output.h;
      y.last.push_back(output.last);
    }
    return y;
  }

  std::vector<Layer> layers_;
  Dropout dropout_;
  StackedOptions options_;
};

}  // namespace attune::nn
