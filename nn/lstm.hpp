// Long short-term memory.
#pragma once

#include <attune/autograd/recurrent.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/nn/recurrent_layer.hpp>

namespace attune::nn {

struct LstmOptions {
  double forget_bias = 1;  // Gers et al. (2000): remember, until learnt otherwise
};

/// LSTM (Hochreiter and Schmidhuber, 1997; forget gate: Gers et al., 2000):
///     i f g o = [σ σ tanh σ](x_t W_x + h_{t-1} W_h + b)
///     c_t = f ⊙ c_{t-1} + i ⊙ g,   h_t = o ⊙ tanh(c_t)
/// The input's share is one product over all steps. Padding (mask 0) carries the state over; what x
/// holds there does not matter, as long as it is finite.
class Lstm {
 public:
  using Options = LstmOptions;
  using State = RecurrentState;

  Lstm(const Scope& scope, Index in, Index hidden, const LstmOptions& options = {});

  /// (T, B, in) -> h (T, B, H) and the last state. For single steps there is `step`.
  RecurrentOutput<> operator()(const Var& x, const RunOptions<>& options = {}) const;

  /// The input's share of the gates, x W_x + b: (..., in) -> (..., 4H)
  Var input(const Var& x) const;

  /// One step from the gates' share of the input, xw (B, 4H).
  RecurrentState step(const Var& xw, const RecurrentState& state) const;

  /// The last axis of `input` is this many times H.
  static constexpr Index gates() { return 4; }
  /// H
  Index size() const { return W_h_.dim(0); }

 private:
  /// For xw (T, B, 4H), or for one step (B, 4H)
  LstmResult run(const Var& xw, const RunOptions<>& options) const;

  Var W_x_;  // (in, 4H)
  Var W_h_;  // (H, 4H)
  Var b_;    // (4H)
  std::string path_;
};

}  // namespace attune::nn
