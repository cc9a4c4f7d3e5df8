// LSTM and GRU over whole sequences, as one operation each.
#pragma once

#include <attune/autograd/var.hpp>
#include <attune/tensor/recurrent.hpp>

namespace attune {

using Recurrence = RecurrenceOf<Var>;

struct RecurrentResult {
  Var h;       // (T, B, H) or (B, H), in the order of the input whatever the direction
  Var c_last;  // (B, H), after the step that was visited last; undefined of a GRU
};

/// reference::recurrent over xw = x W_x + b (T, B, G H), or (B, G H) for a single step, and
/// w_h (H, G H), with G = gates_of(cell). Where the mask is 0 the states are carried over unchanged.
RecurrentResult recurrent(const Var& xw, const Var& w_h, const Recurrence& options = {});

}  // namespace attune
