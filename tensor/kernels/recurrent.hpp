// LSTM and GRU over whole sequences, forward and backward. The caller computes the inputs' part of
// the gates, xw = x W_x + b, by one product over all steps. These functions compute the recurrence.
//
// Sequences are (T, B, ...). At a step where the mask is 0, the state is carried over unchanged. So
// after right padding, h[T-1] (direction backward: h[0]) is the final state of each sequence. Rows
// of a batch are independent; each thread takes a tile of rows through all steps.
#pragma once

#include <attune/tensor/arrange.hpp>

namespace attune {

/// gru: the reset gate acts after the product, r ⊙ (h W_n + b_hn), as in cuDNN and PyTorch.
/// gru_reset_before: before it, (r ⊙ h) W_n, as in Cho et al. (2014) and Bahdanau et al. (2014).
enum class Cell { lstm, gru, gru_reset_before };

/// Number of gates G: 4 for an LSTM, in the order i f g o; 3 for a GRU, in the order r z n.
constexpr Index gates_of(Cell cell) { return cell == Cell::lstm ? 4 : 3; }
/// Name of the operation in error messages.
constexpr const char* operation_of(Cell cell) { return cell == Cell::lstm ? "lstm" : "gru"; }

/// Optional inputs and settings of a recurrence. T is Tensor, or Var for autograd/recurrent.hpp. If
/// undefined: zero initial states, no bias, no masked steps.
template <class T>
struct RecurrenceOf {
  Cell cell = Cell::gru;
  T h0 = {};                                 // (B, H)
  T c0 = {};                                 // (B, H), LSTM only
  T b_hn = {};                               // (H), Cell::gru only
  Mask mask = {};                            // (T, B)
  Direction direction = Direction::forward;  // backward visits the last step first
};

/// The states after every step, and the activations that backward needs.
struct RecurrentActivations {
  Tensor h;      // (T, B, H)
  Tensor c;      // (T, B, H), LSTM only
  Tensor gates;  // (T, B, G·H), activated; Cell::gru: (T, B, 4H), the last H are h W_n + b_hn
  Tensor rh;     // (T, B, H), r ⊙ h_{t-1}, gru_reset_before only
};

/// Gradients. That of w_h is a product for the caller: Σ_t h_{t-1}ᵀ dhw_t; with gru_reset_before
/// Σ_t [h_{t-1}ᵀ dhw_t[r z], rh_tᵀ dhw_t[n]]. Except for Cell::gru, dhw is the same tensor as dxw.
struct RecurrentGradients {
  Tensor dxw, dhw;  // (T, B, G·H)
  Tensor dh0, dc0;  // (B, H)
  Tensor db_hn;     // (H), if b_hn is defined
};

/// The states of a recurrence over xw (T, B, G·H), with w_h (H, G·H). Throws if shapes or dtypes
/// do not match; the mask must have the same dtype too.
RecurrentActivations recurrent_forward(const Tensor& xw, const Tensor& w_h,
                                       const RecurrenceOf<Tensor>& options);

/// The gradients, from the inputs and states of recurrent_forward, which are not checked again, and
/// from dh (T, B, H) and dc_last (B, H; LSTM only). Either may be undefined, which means zero.
RecurrentGradients recurrent_backward(const Tensor& xw, const Tensor& w_h,
                                      const RecurrenceOf<Tensor>& options,
                                      const RecurrentActivations& states, const Tensor& dh,
                                      const Tensor& dc_last = {});

}  // namespace attune
