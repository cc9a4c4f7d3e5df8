// A recurrent layer run in both directions.
#pragma once

#include <attune/autograd/ops.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/nn/recurrent_state.hpp>

namespace attune::nn {

/// Annotations of every step, and the last state of each direction: that of `backward` has read the
/// whole sentence when it stands on its first word.
struct BidirectionalOutput {
  Var h;  // (T, B, 2H): [→h; ←h]
  RecurrentState forward, backward;
};

namespace detail {

/// A layer's options, where it has any.
template <class Layer>
struct OptionsOf {
  struct type {};
};
template <class Layer>
requires requires { typename Layer::Options; }
struct OptionsOf<Layer> {
  using type = typename Layer::Options;
};

}  // namespace detail

/// Two layers of one kind, one reading from the left and one from the right (Schuster and Paliwal,
/// 1997), with the parameters "forward" and "backward". Layer is Lstm, Gru, Recurrent, or anything
/// with their constructor and call.
template <class Layer>
class Bidirectional {
 public:
  /// Options go to both layers: Bidirectional<Lstm>(scope, in, hidden, {.forget_bias = 2}).
  Bidirectional(const Scope& scope, Index in, Index hidden,
                const typename detail::OptionsOf<Layer>::type& options)
      : forward_(scope / "forward", in, hidden, options),
        backward_(scope / "backward", in, hidden, options) {}
  Bidirectional(const Scope& scope, Index in, Index hidden)
      : forward_(scope / "forward", in, hidden), backward_(scope / "backward", in, hidden) {}

  /// (T, B, in), mask (T, B) or undefined
  BidirectionalOutput operator()(const Var& x, const Tensor& mask = {}) const {
    const RecurrentOutput f = forward_(x, {.mask = mask});
    const RecurrentOutput b = backward_(x, {.mask = mask, .direction = Direction::backward});
    return {concat({f.h, b.h}, -1), f.last, b.last};
  }

 private:
  Layer forward_, backward_;
};

}  // namespace attune::nn
