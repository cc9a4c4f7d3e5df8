// A recurrent layer run in both directions.
#pragma once

#include <attune/autograd/ops.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/nn/recurrent_layer.hpp>

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

  /// (T, B, in) -> h (T, B, 2H) and the last states. With Direction::backward both layers turn
  /// round.
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

}  // namespace attune::nn
