// LSTM and GRU over whole sequences, as fused operations.
#pragma once

#include <attune/autograd/var.hpp>
#include <attune/tensor/kernels/recurrent.hpp>

namespace attune {

using Recurrence = RecurrenceOf<Var>;

struct RecurrentResult {
  Var h;       // (T, B, H) or (B, H); h[t] belongs to input step t in both directions
  Var c_last;  // (B, H), the final cell state, after the step visited last; undefined for a GRU
};

/// Computes reference::recurrent for xw = x W_x + b (T, B, G H), or (B, G H) for a single step, and
/// w_h (H, G H), with G = gates_of(cell). Where the mask is 0, states are carried over unchanged.
RecurrentResult recurrent(const Var& xw, const Var& w_h, const Recurrence& options = {});

}  // namespace attune
