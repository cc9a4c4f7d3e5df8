// LSTM and GRU over whole sequences, as one operation each.
#pragma once

#include <attune/autograd/var.hpp>
#include <attune/tensor/recurrent.hpp>

namespace attune {

/// What a recurrence takes beside its input. Undefined: zero states, no bias, all words.
struct Recurrence {
  Cell cell = Cell::gru;
  Var h0 = {};                               // (B, H)
  Var c0 = {};                               // (B, H), LSTM only
  Var b_hn = {};                             // (H), Cell::gru only
  Mask mask = {};                            // (T, B)
  Direction direction = Direction::forward;  // backward visits the last step first
};

struct RecurrentResult {
  Var h;       // (T, B, H) or (B, H), in the order of the input whatever the direction
  Var c_last;  // (B, H), after the step that was visited last; undefined of a GRU
};

/// A recurrence over xw = x W_x + b (T, B, G H), or (B, G H) for a single step, w_h (H, G H), with
/// G = gates_of(cell). Where the mask is 0 the states are carried over unchanged.
/// LSTM (Hochreiter and Schmidhuber, 1997; forget gate: Gers et al., 2000):
///     i f g o = [σ σ tanh σ](xw_t + h_{t-1} W_h)
///     c_t = f ⊙ c_{t-1} + i ⊙ g,   h_t = o ⊙ tanh(c_t)
/// GRU (Cho et al., 2014), where z keeps the old state, as in cuDNN; Bahdanau et al. (2014) have z
/// and 1 - z exchanged, which is the same function with z's parameters negated:
///     r z = σ(xw_t + h_{t-1} W_h),   h_t = (1 - z) ⊙ n + z ⊙ h_{t-1},
///     gru:               n = tanh(xw_t + r ⊙ (h_{t-1} W_n + b_hn))
///     gru_reset_before:  n = tanh(xw_t + (r ⊙ h_{t-1}) W_n)
RecurrentResult recurrent(const Var& xw, const Var& w_h, const Recurrence& options = {});

}  // namespace attune
