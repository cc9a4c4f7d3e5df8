// LSTM and GRU over whole sequences, as one operation each.
#pragma once

#include <attune/autograd/var.hpp>
#include <attune/tensor/recurrent.hpp>

namespace attune {

/// What a recurrence takes beside its input. Undefined: zero states, no normalisation, all words.
struct LstmRun {
  Var h0 = {}, c0 = {};                      // (B, H)
  Var gain_h = {};                           // (4H)
  Var gain_c = {}, bias_c = {};              // (H)
  Tensor mask = {};                          // (T, B)
  Direction direction = Direction::forward;  // backward visits the last step first
};

struct LstmResult {
  Var h;       // (T, B, H) or (B, H), in the order of the input whatever the direction
  Var c_last;  // (B, H), after the step that was visited last
};

/// LSTM (Hochreiter and Schmidhuber, 1997; forget gate: Gers et al., 2000) over xw = x W_x + b:
///     i f g o = [σ σ tanh σ](xw_t + h_{t-1} W_h)
///     c_t = f ⊙ c_{t-1} + i ⊙ g,   h_t = o ⊙ tanh(c_t)
/// xw (T, B, 4H), or (B, 4H) for a single step, w_h (H, 4H). Where the mask is 0 the states are
/// carried over unchanged.
/// With gain_h, gain_c and bias_c, which go together, the state's share and the output's c are
/// normalised (Ba, Kiros and Hinton, 2016, equations 20 to 22, but each gate's H by themselves):
///     i f g o = [σ σ tanh σ](xw_t + LN(h_{t-1} W_h; gain_h))
///     h_t = o ⊙ tanh(LN(c_t; gain_c) + bias_c)
///     LN(a; gain) = gain ⊙ (a - μ) / √(σ² + 1e-5),   μ = mean(a),   σ² = mean((a - μ)²)
LstmResult lstm(const Var& xw, const Var& w_h, const LstmRun& options = {});

struct GruRun {
  Var h0 = {};       // (B, H)
  Var b_hn = {};     // (H), reset_after only
  Var gain_h = {};   // (3H)
  Tensor mask = {};  // (T, B)
  Direction direction = Direction::forward;
  GruForm form = GruForm::reset_after;
};

/// GRU (Cho et al., 2014) over xw = x W_x + b, in cuDNN's notation, where z keeps the old state;
/// the papers exchange z and 1 - z, which is the same function with the sign of z's weights turned:
///     r z = σ(xw_t + h_{t-1} W_h),   h_t = (1 - z) ⊙ n + z ⊙ h_{t-1},
///     reset_after:   n = tanh(xw_t + r ⊙ (h_{t-1} W_n + b_hn))
///     reset_before:  n = tanh(xw_t + (r ⊙ h_{t-1}) W_n)
/// xw (T, B, 3H), w_h (H, 3H) -> h (T, B, H), or (B, 3H) -> (B, H) for a single step. Where the
/// mask is 0 the state is carried over.
/// With gain_h, LN of each product with a block of W_h stands for the product (Ba, Kiros and
/// Hinton, 2016, supplement), such as LN((r ⊙ h_{t-1}) W_n; gain_n), with LN as in lstm.
Var gru(const Var& xw, const Var& w_h, const GruRun& options = {});

}  // namespace attune
