// LSTM and GRU over whole sequences, forward and backward. The input's share of the gates,
// x W_x + b, comes in ready: one product over all steps. What remains is the recurrence.
//
// Sequences are (T, B, ...). At a step where the mask is 0 the state is carried over unchanged, so
// after right padding h[T-1] (or h[0], backward) is the state after the last word. Rows of a batch
// do not depend on each other, so each tile of rows runs through all steps in one thread.
//
// With a gain_h, layer normalisation (Ba, Kiros and Hinton, 2016) of each gate's H elements by
// themselves stands for every product with W_h:
//     LN(a; gain) = gain ⊙ (a - μ) / √(σ² + 1e-5),   μ = mean(a),   σ² = mean((a - μ)²)
#pragma once

#include <attune/tensor/direction.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune {

/// What backward needs of the products that were normalised; undefined where none were.
struct NormalizedProducts {
  Tensor hw;       // (T, B, G·H), before that
  Tensor moments;  // (T, B, G, 2), μ and 1 / √(σ² + 1e-5) of each gate
};

/// h and c after every step, and the activated gates i f g o, which backward needs.
struct LstmForward {
  Tensor h, c;                  // (T, B, H)
  Tensor gates;                 // (T, B, 4H)
  NormalizedProducts products;  // h_{t-1} W_h
};

/// What flows into the recurrence; an undefined h0 or c0 is zero, an undefined mask is all ones.
/// With gain_h, gain_c and bias_c, h = o ⊙ tanh(LN(c; gain_c) + bias_c).
struct LstmInput {
  Tensor xw;                        // (T, B, 4H)
  Tensor w_h;                       // (H, 4H)
  Tensor h0 = {}, c0 = {};          // (B, H)
  Tensor gain_h = {};               // (4H)
  Tensor gain_c = {}, bias_c = {};  // (H)
  Tensor mask = {};                 // (T, B)
  Direction direction = Direction::forward;
};

LstmForward lstm_forward(const LstmInput& input);

/// Gradients; that of w_h is Σ_t h_{t-1}ᵀ dhw_t, one product the caller makes. dhw is dxw where
/// nothing is normalised.
struct LstmBackward {
  Tensor dxw, dhw;          // (T, B, 4H)
  Tensor dh0, dc0;          // (B, H)
  Tensor dgain_h;           // (4H)
  Tensor dgain_c, dbias_c;  // (H)
};

/// dh (T, B, H) and dc_last (B, H), either of which may be undefined (zero).
LstmBackward lstm_backward(const LstmInput& input, const LstmForward& forward, const Tensor& dh,
                           const Tensor& dc_last);

/// Where the reset gate acts: r ⊙ (h W_n + b_hn), as in cuDNN and PyTorch, or (r ⊙ h) W_n, as in
/// Cho et al. (2014) and Bahdanau et al. (2014).
enum class GruForm { reset_after, reset_before };

struct GruInput {
  Tensor xw;           // (T, B, 3H), in the order r z n
  Tensor w_h;          // (H, 3H)
  Tensor b_hn = {};    // (H), reset_after only; undefined is zero
  Tensor h0 = {};      // (B, H), undefined is zero
  Tensor gain_h = {};  // (3H), undefined is no normalisation
  Tensor mask = {};    // (T, B), undefined is all ones
  Direction direction = Direction::forward;
  GruForm form = GruForm::reset_after;
};

struct GruForward {
  Tensor h;                     // (T, B, H)
  Tensor gates;                 // (T, B, 3H), r z n; reset_after: (T, B, 4H), and what r multiplies
  Tensor rh;                    // (T, B, H), r ⊙ h_{t-1}, reset_before only
  NormalizedProducts products;  // h_{t-1} W_h; reset_before: of n, (r ⊙ h_{t-1}) W_n
};

GruForward gru_forward(const GruInput& input);

/// Gradients. reset_after: dw_h = Σ_t h_{t-1}ᵀ dhw_t. reset_before, where dhw is dxw if nothing is
/// normalised: dw_h = Σ_t [h_{t-1}ᵀ dhw_t[r z], rh_tᵀ dhw_t[n]].
struct GruBackward {
  Tensor dxw, dhw;  // (T, B, 3H)
  Tensor dh0;       // (B, H)
  Tensor dgain_h;   // (3H), where there is a gain_h
  Tensor db_hn;     // (H), where there is a b_hn
};

GruBackward gru_backward(const GruInput& input, const GruForward& forward, const Tensor& dh);

}  // namespace attune
