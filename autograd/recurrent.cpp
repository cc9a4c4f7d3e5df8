#include <attune/autograd/record.hpp>
#include <attune/autograd/recurrent.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/axis.hpp>

namespace attune {
namespace {

/// A single step (B, n) as a sequence of one step (1, B, n), which the kernels expect; anything
/// else as it is. as_step is the inverse.
Tensor as_sequence(const Tensor& x) {
  return x.defined() && x.rank() == 2 ? x.reshape(x.shape().inserted(0, 1)) : x;
}
Tensor as_step(const Tensor& x) { return x.reshape(x.shape().without(0)); }

/// Adds Σ_t h_{t-1}ᵀ d_t to a weight's gradient, where h (T, B, H) are the states and h0 the
/// initial one (undefined is zero). The states before each step are rows of h, shifted by one:
/// nothing is copied.
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
    dw.accumulator();  // a zero state has no share in it, but the loss does depend on the weight
  }
}

/// 1 and 0, in the dtype of x; undefined where there is none.
Tensor checked_mask(const char* operation, const Tensor& mask, const Var& x) {
  return mask.defined() ? detail::binary_mask(operation, mask, x.dtype()) : mask;
}

}  // namespace

LstmResult lstm(const Var& xw, const Var& w_h, const LstmRun& options) {
  const auto& [h0, c0, gain_h, gain_c, bias_c, mask, direction] = options;
  const bool single = xw.rank() == 2;
  const LstmInput input{as_sequence(xw.value()),
                        w_h.value(),
                        h0.value(),
                        c0.value(),
                        gain_h.value(),
                        gain_c.value(),
                        bias_c.value(),
                        checked_mask("lstm", mask, xw),
                        direction};
  const LstmForward forward = lstm_forward(input);
  const Tensor c_last = forward.c[last_step(forward.c.dim(0), direction)];
  Recording result = record("lstm", {single ? as_step(forward.h) : forward.h, c_last});
  result.joint({xw, w_h, h0, c0, gain_h, gain_c, bias_c},
               [input, forward, single](auto dy, const auto& dx) {
                 const auto& [dxw, dw_h, dh0, dc0, dgain_h, dgain_c, dbias_c] = dx;
                 const LstmBackward d = lstm_backward(input, forward, as_sequence(dy[0]), dy[1]);
                 if (dw_h) add_state_products(forward.h, input.h0, d.dhw, input.direction, *dw_h);
                 if (dh0) dh0->add(d.dh0);
                 if (dc0) dc0->add(d.dc0);
                 if (dgain_h) dgain_h->add(d.dgain_h);
                 if (dgain_c) dgain_c->add(d.dgain_c);
                 if (dbias_c) dbias_c->add(d.dbias_c);
                 if (dxw) dxw->add(single ? as_step(d.dxw) : d.dxw);
               });
  return {result.output(0), result.output(1)};
}

Var gru(const Var& xw, const Var& w_h, const GruRun& options) {
  const auto& [h0, b_hn, gain_h, mask, direction, form] = options;
  const bool single = xw.rank() == 2;
  const GruInput input{
      as_sequence(xw.value()),       w_h.value(), b_hn.value(), h0.value(), gain_h.value(),
      checked_mask("gru", mask, xw), direction,   form};
  const GruForward forward = gru_forward(input);
  return record("gru", single ? as_step(forward.h) : forward.h)
      .joint({xw, w_h, b_hn, h0, gain_h}, [input, forward, single](auto dy, const auto& dx) {
        const auto& [dxw, dw_h, db_hn, dh0, dgain_h] = dx;
        const GruBackward d = gru_backward(input, forward, as_sequence(dy[0]));
        const Index n = forward.h.dim(2);
        if (dw_h && input.form == GruForm::reset_after) {
          add_state_products(forward.h, input.h0, d.dhw, input.direction, *dw_h);
        } else if (dw_h) {
          const Tensor d_rz = slice(d.dhw, 2, 0, 2 * n), d_n = slice(d.dhw, 2, 2 * n, 3 * n);
          add_state_products(forward.h, input.h0, d_rz, input.direction, *dw_h);
          dw_h->add_product(forward.rh, d_n, 2 * n);
        }
        if (db_hn) db_hn->add(d.db_hn);
        if (dh0) dh0->add(d.dh0);
        if (dgain_h) dgain_h->add(d.dgain_h);
        if (dxw) dxw->add(single ? as_step(d.dxw) : d.dxw);
      });
}

}  // namespace attune
