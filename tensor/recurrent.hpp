// LSTM and GRU over whole sequences, forward and backward. The input's share of the gates,
// x W_x + b, comes in ready: one product over all steps. What remains is the recurrence.
//
// Sequences are (T, B, ...). At a step where the mask is 0 the state is carried over unchanged, so
// after right padding h[T-1] (or h[0], backward) is the state after the last word. Rows of a batch
// do not depend on each other, so each tile of rows runs through all steps in one thread.
#pragma once

#include <attune/tensor/arrange.hpp>

namespace attune {

/// Where the reset gate of a GRU acts: r ⊙ (h W_n + b_hn), as in cuDNN and PyTorch, or (r ⊙ h) W_n,
/// as in Cho et al. (2014) and Bahdanau et al. (2014).
enum class GruForm { reset_after, reset_before };

/// What flows into a recurrence of G gates: 4, in the order i f g o, of an LSTM, and 3, r z n, of a
/// GRU. An undefined state or bias is zero, an undefined mask is all ones.
struct RecurrentInput {
  Tensor xw;         // (T, B, G·H)
  Tensor w_h;        // (H, G·H)
  Tensor h0 = {};    // (B, H)
  Tensor c0 = {};    // (B, H), LSTM only
  Tensor b_hn = {};  // (H), GRU with reset_after only
  Tensor mask = {};  // (T, B)
  Direction direction = Direction::forward;
  GruForm form = GruForm::reset_after;  // GRU only
};

/// The states after every step, and what backward needs.
struct RecurrentStates {
  Tensor h;      // (T, B, H)
  Tensor c;      // (T, B, H), LSTM only
  Tensor gates;  // (T, B, G·H), activated; reset_after: (T, B, 4H), and h W_n + b_hn
  Tensor rh;     // (T, B, H), r ⊙ h_{t-1}, reset_before only
};

/// Gradients. That of w_h is a product the caller makes: Σ_t h_{t-1}ᵀ dhw_t, and with reset_before
/// Σ_t [h_{t-1}ᵀ dhw_t[r z], rh_tᵀ dhw_t[n]]. dhw is dxw but for reset_after.
struct RecurrentGradients {
  Tensor dxw, dhw;  // (T, B, G·H)
  Tensor dh0, dc0;  // (B, H)
  Tensor db_hn;     // (H), where there is a b_hn
};

RecurrentStates lstm_forward(const RecurrentInput& input);
RecurrentStates gru_forward(const RecurrentInput& input);

/// The input and states of forward, which are not checked again, and dh (T, B, H) and dc_last
/// (B, H), either of which may be undefined (zero).
RecurrentGradients lstm_backward(const RecurrentInput& input, const RecurrentStates& states,
                                 const Tensor& dh, const Tensor& dc_last);
RecurrentGradients gru_backward(const RecurrentInput& input, const RecurrentStates& states,
                                const Tensor& dh);

}  // namespace attune
