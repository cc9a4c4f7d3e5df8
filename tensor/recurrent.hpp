// LSTM and GRU over whole sequences, forward and backward. The input's share of the gates,
// x W_x + b, comes in ready: one product over all steps. What remains is the recurrence.
//
// Sequences are (T, B, ...). At a step where the mask is 0 the state is carried over unchanged, so
// after right padding h[T-1] (or h[0], backward) is the state after the last word. Rows of a batch
// do not depend on each other, so each tile of rows runs through all steps in one thread.
#pragma once

#include <attune/tensor/tensor.hpp>

namespace attune {

/// The order in which a recurrence visits the steps.
enum class Direction { forward, backward };

/// The step that a direction visits last: where its last state stands.
inline Index last_step(Index steps, Direction direction) {
  return direction == Direction::forward ? steps - 1 : 0;
}

/// h and c after every step, and the activated gates i f g o, which backward needs.
struct LstmForward {
  Tensor h, c;   // (T, B, H)
  Tensor gates;  // (T, B, 4H)
};

/// What flows into the recurrence; an undefined h0 or c0 is zero, an undefined mask is all ones.
struct LstmInput {
  Tensor xw;                // (T, B, 4H)
  Tensor w_h;               // (H, 4H)
  Tensor h0 = {}, c0 = {};  // (B, H)
  Tensor mask = {};         // (T, B)
  Direction direction = Direction::forward;
};

LstmForward lstm_forward(const LstmInput& input);

/// Gradients; that of w_h is Σ_t h_{t-1}ᵀ dxw_t, one product the caller makes.
struct LstmBackward {
  Tensor dxw;       // (T, B, 4H)
  Tensor dh0, dc0;  // (B, H)
};

/// dh (T, B, H) and dc_last (B, H), either of which may be undefined (zero).
LstmBackward lstm_backward(const LstmInput& input, const LstmForward& forward, const Tensor& dh,
                           const Tensor& dc_last);

/// Where the reset gate acts: r ⊙ (h W_n + b_hn), as in cuDNN and PyTorch, or (r ⊙ h) W_n, as in
/// Cho et al. (2014) and Bahdanau et al. (2014).
enum class GruForm { reset_after, reset_before };

struct GruInput {
  Tensor xw;         // (T, B, 3H), in the order r z n
  Tensor w_h;        // (H, 3H)
  Tensor b_hn = {};  // (H), reset_after only; undefined is zero
  Tensor h0 = {};    // (B, H), undefined is zero
  Tensor mask = {};  // (T, B), undefined is all ones
  Direction direction = Direction::forward;
  GruForm form = GruForm::reset_after;
};

struct GruForward {
  Tensor h;      // (T, B, H)
  Tensor gates;  // reset_after: (T, B, 4H), r z n and h W_n + b_hn; reset_before: (T, B, 3H), r z n
  Tensor rh;     // (T, B, H), r ⊙ h_{t-1}, reset_before only
};

GruForward gru_forward(const GruInput& input);

/// Gradients. reset_after: dw_h = Σ_t h_{t-1}ᵀ dhw_t, and dhw's last third is ∂L/∂b_hn of each row.
/// reset_before: dhw is undefined; dw_h = Σ_t [h_{t-1}ᵀ dxw_t[r z], rh_tᵀ dxw_t[n]].
struct GruBackward {
  Tensor dxw, dhw;  // (T, B, 3H)
  Tensor dh0;       // (B, H)
};

GruBackward gru_backward(const GruInput& input, const GruForward& forward, const Tensor& dh);

}  // namespace attune
