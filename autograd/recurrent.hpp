// LSTM and GRU over whole sequences, as one operation each.
#pragma once

#include <attune/autograd/var.hpp>
#include <attune/tensor/recurrent.hpp>

namespace attune {

/// What a recurrence takes beside its input. Undefined: zero states, no bias, all words.
struct Recurrence {
  Var h0 = {};                               // (B, H)
  Var c0 = {};                               // (B, H), LSTM only
  Var b_hn = {};                             // (H), GRU with reset_after only
  Tensor mask = {};                          // (T, B)
  Direction direction = Direction::forward;  // backward visits the last step first
  GruForm form = GruForm::reset_after;       // GRU only
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
LstmResult lstm(const Var& xw, const Var& w_h, const Recurrence& options = {});

/// GRU (Cho et al., 2014) over xw = x W_x + b, in cuDNN's notation, where z keeps the old state;
/// the papers exchange z and 1 - z, which is the same function with the sign of z's weights turned:
///     r z = σ(xw_t + h_{t-1} W_h),   h_t = (1 - z) ⊙ n + z ⊙ h_{t-1},
///     reset_after:   n = tanh(xw_t + r ⊙ (h_{t-1} W_n + b_hn))
///     reset_before:  n = tanh(xw_t + (r ⊙ h_{t-1}) W_n)
/// xw (T, B, 3H), w_h (H, 3H) -> h (T, B, H), or (B, 3H) -> (B, H) for a single step. Where the
/// mask is 0 the state is carried over.
Var gru(const Var& xw, const Var& w_h, const Recurrence& options = {});

}  // namespace attune
