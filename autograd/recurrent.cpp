#include <attune/autograd/record.hpp>
#include <attune/autograd/recurrent.hpp>
#include <attune/autograd/reference.hpp>
#include <attune/tensor/arrange.hpp>

namespace attune {
namespace {

/// A single step (B, n) as a sequence of one step (1, B, n), the shape that the kernels expect.
/// Other tensors are returned unchanged. as_step is the inverse.
Tensor as_sequence(const Tensor& x) {
  return x.defined() && x.rank() == 2 ? x.reshape(x.shape().inserted(0, 1)) : x;
}
Tensor as_step(const Tensor& x) { return x.reshape(x.shape().without(0)); }

/// Adds Σ_t h_{t-1}ᵀ d_t to a weight's gradient, for the states h (T, B, H) and the initial state
/// h0 (undefined: zero). The states before each step are views of rows of h, shifted by one step.
void add_state_products(const Tensor& h, const Tensor& h0, const Tensor& d, Direction direction,
                        GradientSlot& dw) {
  const Index steps = h.dim(0);
  const bool forward = direction == Direction::forward;
  if (steps > 1) {
    forward ? dw.add_product(h.slice(0, steps - 1), d.slice(1, steps))
            : dw.add_product(h.slice(1, steps), d.slice(0, steps - 1));
  }
  if (h0.defined()) {
    dw.add_product(h0, d[last_step(steps, forward ? Direction::backward : Direction::forward)]);
  } else if (steps == 1) {
    dw.accumulator();  // a zero state adds nothing, but the loss does depend on the weight
  }
}

}  // namespace

RecurrentResult recurrent(const Var& xw, const Var& w_h, const Recurrence& o) {
  const bool single = xw.rank() == 2, lstm = o.cell == Cell::lstm;
  const Tensor x = as_sequence(xw.value());
  const RecurrenceOf<Tensor> values{o.cell,         o.h0.value(),          o.c0.value(),
                                    o.b_hn.value(), o.mask.to(xw.dtype()), o.direction};
  const RecurrentActivations states = recurrent_forward(x, w_h.value(), values);
  const Tensor h = single ? as_step(states.h) : states.h;
  Recording result = lstm ? record("lstm", {h, states.c[last_step(states.c.dim(0), o.direction)]})
                          : record("gru", h);
  result.joint(
      {xw, w_h, o.h0, o.c0, o.b_hn},
      [states, single, lstm, mask = values.mask, cell = o.cell, direction = o.direction](
          auto& in, auto dy, auto& dx) {
        const auto& [dxw, dw_h, dh0, dc0, db_hn] = dx;
        const RecurrenceOf<Tensor> values{cell, in[2], in[3], in[4], mask, direction};
        const RecurrentGradients d = recurrent_backward(
            as_sequence(in[0]), in[1], values, states, as_sequence(dy[0]), lstm ? dy[1] : Tensor());
        if (dw_h && values.cell == Cell::gru_reset_before) {
          const Index n = states.h.dim(2);
          const Tensor d_rz = slice(d.dhw, 2, 0, 2 * n), d_n = slice(d.dhw, 2, 2 * n, 3 * n);
          add_state_products(states.h, values.h0, d_rz, values.direction, *dw_h);
          dw_h->add_product(states.rh, d_n, 2 * n);
        } else if (dw_h) {
          add_state_products(states.h, values.h0, d.dhw, values.direction, *dw_h);
        }
        if (dh0) dh0->add(d.dh0);
        if (dc0) dc0->add(d.dc0);
        if (db_hn) db_hn->add(d.db_hn);
        if (dxw) dxw->add(single ? as_step(d.dxw) : d.dxw);
      },
      [=, cell = o.cell, mask = o.mask, direction = o.direction](auto in) {
        const Var sequence = single ? reshape(in[0], in[0].shape().inserted(0, 1)) : in[0];
        const auto [h, c] =
            reference::recurrent(sequence, in[1], {cell, in[2], in[3], in[4], mask, direction});
        std::vector results{single ? h[0] : h};
        if (lstm) results.push_back(c);
        return results;
      });
  return {result.output(0), lstm ? result.output(1) : Var()};
}

}  // namespace attune
