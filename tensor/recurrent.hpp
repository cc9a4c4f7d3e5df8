// LSTM and GRU over whole sequences, forward and backward. The input's share of the gates,
// x W_x + b, comes in ready: one product over all steps. What remains is the recurrence.
//
// Sequences are (T, B, ...). At a step where the mask is 0 the state is carried over unchanged, so
// after right padding h[T-1] (or h[0], backward) is the state after the last word. Rows of a batch
// do not depend on each other, so each tile of rows runs through all steps in one thread.
#pragma once

#include <attune/tensor/arrange.hpp>

namespace attune {

/// The LSTM, or a GRU whose reset gate acts after the product, r ⊙ (h W_n + b_hn), as in cuDNN and
/// PyTorch, or before it, (r ⊙ h) W_n, as in Cho et al. (2014) and Bahdanau et al. (2014).
enum class Cell { lstm, gru, gru_reset_before };

/// Gates of a cell: 4, in the order i f g o, of an LSTM, and 3, r z n, of a GRU.
constexpr Index gates_of(Cell cell) { return cell == Cell::lstm ? 4 : 3; }
/// The operation in error messages.
constexpr const char* operation_of(Cell cell) { return cell == Cell::lstm ? "lstm" : "gru"; }

/// The optional inputs and the settings of a recurrence; T is Tensor, or Var for `recurrent` of
/// autograd/recurrent.hpp. Undefined: zero states, no bias, all words.
template <class T>
struct RecurrenceOf {
  Cell cell = Cell::gru;
  T h0 = {};                                 // (B, H)
  T c0 = {};                                 // (B, H), LSTM only
  T b_hn = {};                               // (H), Cell::gru only
  Mask mask = {};                            // (T, B)
  Direction direction = Direction::forward;  // backward visits the last step first
};

/// The states after every step, and what backward needs.
struct RecurrentStates {
  Tensor h;      // (T, B, H)
  Tensor c;      // (T, B, H), LSTM only
  Tensor gates;  // (T, B, G·H), activated; Cell::gru: (T, B, 4H), and h W_n + b_hn
  Tensor rh;     // (T, B, H), r ⊙ h_{t-1}, gru_reset_before only
};

/// Gradients. That of w_h is a product the caller makes: Σ_t h_{t-1}ᵀ dhw_t, and with
/// gru_reset_before Σ_t [h_{t-1}ᵀ dhw_t[r z], rh_tᵀ dhw_t[n]]. dhw is dxw but for Cell::gru.
struct RecurrentGradients {
  Tensor dxw, dhw;  // (T, B, G·H)
  Tensor dh0, dc0;  // (B, H)
  Tensor db_hn;     // (H), where there is a b_hn
};

/// xw (T, B, G·H), w_h (H, G·H). All are of one dtype, the mask too.
RecurrentStates recurrent_forward(const Tensor& xw, const Tensor& w_h,
                                  const RecurrenceOf<Tensor>& options);

/// The inputs and states of forward, which are not checked again, and dh (T, B, H) and dc_last
/// (B, H), either of which may be undefined (zero). A GRU has no dc_last.
RecurrentGradients recurrent_backward(const Tensor& xw, const Tensor& w_h,
                                      const RecurrenceOf<Tensor>& options,
                                      const RecurrentStates& states, const Tensor& dh,
                                      const Tensor& dc_last = {});

}  // namespace attune
