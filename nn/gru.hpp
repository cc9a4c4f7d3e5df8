// The gated recurrent unit, in both of its published forms.
#pragma once

#include <attune/nn/parameters.hpp>
#include <attune/nn/recurrent_layer.hpp>

namespace attune::nn {

struct GruOptions {
  /// reset_after (the default) is the form of cuDNN and PyTorch, and the faster one: a step is one
  /// product. reset_before is the form of Cho et al. (2014) and Bahdanau et al. (2014).
  GruForm form = GruForm::reset_after;
};

/// GRU (Cho et al., 2014), with z as in cuDNN and PyTorch:
///     r z = σ(x_t W_x + h_{t-1} W_h + b),   h_t = (1 - z) ⊙ n + z ⊙ h_{t-1}
///     reset_after:   n = tanh(x_t W_x + b + r ⊙ (h_{t-1} W_h + b_hn))
///     reset_before:  n = tanh(x_t W_x + b + (r ⊙ h_{t-1}) W_h)
/// each with its own block of the weights' columns, in the order r z n. The papers exchange z and
/// 1 - z: the same function with the sign of z's weights turned.
class Gru {
 public:
  using Options = GruOptions;
  using State = RecurrentState;

  Gru(const Scope& scope, Index in, Index hidden, const GruOptions& options = {});

  /// (T, B, in) -> h (T, B, H) and the last state. For single steps there is `step`.
  RecurrentOutput<> operator()(const Var& x, const RunOptions<>& options = {}) const;

  /// The input's share of the gates, x W_x + b: (..., in) -> (..., 3H)
  Var input(const Var& x) const;

  /// One step from the gates' share of the input, xw (B, 3H).
  RecurrentState step(const Var& xw, const RecurrentState& state) const;

  static constexpr Index gates() { return 3; }
  /// H
  Index size() const { return W_h_.dim(0); }

 private:
  /// h for xw (T, B, 3H), or for one step (B, 3H)
  Var run(const Var& xw, const RunOptions<>& options) const;

  GruForm form_;
  Var W_x_;   // (in, 3H)
  Var W_h_;   // (H, 3H)
  Var b_;     // (3H)
  Var b_hn_;  // (H), reset_after only
  std::string path_;
};

}  // namespace attune::nn
