#include <attune/autograd/record.hpp>
#include <attune/autograd/recurrent.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune {
namespace {

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

}  // namespace

LstmResult lstm(const Var& xw, const Var& w_h, const LstmRun& options) {
  const LstmInput input{xw.value(),         w_h.value(),  options.h0.value(),
                        options.c0.value(), options.mask, options.direction};
  const LstmForward forward = lstm_forward(input);
  const Tensor c_last = forward.c[last_step(forward.c.dim(0), options.direction)];
  Recording result = record("lstm", {forward.h, c_last});
  result.joint({xw, w_h, options.h0, options.c0}, [input, forward](auto dy, auto dx) {
    const LstmBackward d = lstm_backward(input, forward, dy[0], dy[1]);
    if (dx[1]) add_state_products(forward.h, input.h0, d.dxw, input.direction, *dx[1]);
    if (dx[2]) dx[2]->add(d.dh0);
    if (dx[3]) dx[3]->add(d.dc0);
    if (dx[0]) dx[0]->add(d.dxw);
  });
  return {result.output(0), result.output(1)};
}

Var gru(const Var& xw, const Var& w_h, const GruRun& options) {
  const GruInput input{xw.value(),   w_h.value(),       options.b_hn.value(), options.h0.value(),
                       options.mask, options.direction, options.form};
  const GruForward forward = gru_forward(input);
  return record("gru", forward.h)
      .joint({xw, w_h, options.b_hn, options.h0}, [input, forward](auto dy, auto dx) {
        const GruBackward d = gru_backward(input, forward, dy[0]);
        const Index n = forward.h.dim(2);
        if (dx[1] && input.form == GruForm::reset_after) {
          add_state_products(forward.h, input.h0, d.dhw, input.direction, *dx[1]);
        } else if (dx[1]) {
          add_state_products(forward.h, input.h0, slice(d.dxw, 2, 0, 2 * n), input.direction,
                             *dx[1]);
          dx[1]->add_product(forward.rh, slice(d.dxw, 2, 2 * n, 3 * n), 2 * n);
        }
        if (dx[2]) dx[2]->add(sum(slice(d.dhw, 2, 2 * n, 3 * n), {0, 1}));
        if (dx[3]) dx[3]->add(d.dh0);
        if (dx[0]) dx[0]->add(d.dxw);
      });
}

}  // namespace attune
