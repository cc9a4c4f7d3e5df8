// The recurrences on whole sequences; their equations and gradients are checked one layer up.

#include <cmath>

#include <doctest/doctest.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/recurrent.hpp>

#include "support/naive.hpp"

namespace attune {
namespace {

constexpr Index steps = 5, batch = 3, hidden = 2;
constexpr std::array<Index, 3> lengths{5, 2, 4};

Tensor mask() { return mask_of(steps, {5, 2, 4}); }

RecurrentInput lstm_input(Direction direction, const Tensor& mask = {}) {
  RecurrentInput in;
  in.xw = randn({steps, batch, 4 * hidden}, DType::f64);
  in.w_h = randn({hidden, 4 * hidden}, DType::f64, 2);
  in.h0 = randn({batch, hidden}, DType::f64, 3);
  in.c0 = randn({batch, hidden}, DType::f64, 4);
  in.mask = mask;
  in.direction = direction;
  return in;
}

RecurrentInput gru_input(Direction direction, GruForm form, const Tensor& mask = {}) {
  RecurrentInput in;
  in.xw = randn({steps, batch, 3 * hidden}, DType::f64, 5);
  in.w_h = randn({hidden, 3 * hidden}, DType::f64, 6);
  if (form == GruForm::reset_after) in.b_hn = randn({hidden}, DType::f64, 7);
  in.h0 = randn({batch, hidden}, DType::f64, 8);
  in.mask = mask;
  in.direction = direction;
  in.form = form;
  return in;
}

/// Sentence b alone: its first steps, and only its row of every state.
Tensor sentence(const Tensor& x, Index b) {
  const Tensor column = slice(x, 1, b, b + 1);
  return slice(column, 0, 0, lengths[static_cast<std::size_t>(b)]);
}
Tensor row(const Tensor& state, Index b) { return slice(state, 0, b, b + 1); }

Tensor reversed(const Tensor& x) {
  std::vector<Tensor> rows;
  for (Index t = x.dim(0) - 1; t >= 0; --t) rows.push_back(x[t]);
  return stack(rows);
}

constexpr Direction directions[] = {Direction::forward, Direction::backward};
constexpr GruForm forms[] = {GruForm::reset_after, GruForm::reset_before};

double sigma(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("lstm_forward: one step of one neuron is what the equations give") {
  RecurrentInput in;
  in.xw = reals({1, 1, 4}, {0.1, 0.2, 0.3, 0.4});
  in.w_h = reals({1, 4}, {1, 2, 3, 4});
  in.h0 = reals({1, 1}, {0.5});
  in.c0 = reals({1, 1}, {-2});
  const RecurrentStates out = lstm_forward(in);
  const double i = sigma(0.1 + 0.5), f = sigma(0.2 + 1), g = std::tanh(0.3 + 1.5),
               o = sigma(0.4 + 2);
  const double c = f * -2 + i * g;
  CHECK(out.c.item() == doctest::Approx(c).epsilon(1e-15));
  CHECK(out.h.item() == doctest::Approx(o * std::tanh(c)).epsilon(1e-15));
  CHECK(difference(out.gates, reals({1, 1, 4}, {i, f, g, o})) <= 1e-15);
}

TEST_CASE("gru_forward: one step of one neuron is what the equations of each form give") {
  RecurrentInput in;
  in.xw = reals({1, 1, 3}, {0.1, 0.2, 0.3});
  in.w_h = reals({1, 3}, {1, 2, 3});
  in.b_hn = reals({1}, {0.7});
  in.h0 = reals({1, 1}, {0.5});
  const double r = sigma(0.1 + 0.5), z = sigma(0.2 + 1);
  const double n_after = std::tanh(0.3 + r * (1.5 + 0.7));
  CHECK(gru_forward(in).h.item() == doctest::Approx((1 - z) * n_after + z * 0.5).epsilon(1e-15));
  in.b_hn = {};
  in.form = GruForm::reset_before;
  const double n_before = std::tanh(0.3 + r * 0.5 * 3);
  CHECK(gru_forward(in).h.item() == doctest::Approx((1 - z) * n_before + z * 0.5).epsilon(1e-15));
}

TEST_CASE("lstm_forward: padding carries the states over, in both directions") {
  for (Direction direction : directions) {
    const RecurrentInput in = lstm_input(direction, mask());
    const RecurrentStates out = lstm_forward(in);
    const naive::Array h(out.h), c(out.c), h0(in.h0), c0(in.c0);
    for (Index b = 0; b < batch; ++b) {
      const Index length = lengths[static_cast<std::size_t>(b)];
      for (Index t = length; t < steps; ++t) {
        for (Index j = 0; j < hidden; ++j) {
          const bool forward = direction == Direction::forward;
          CHECK(h[{t, b, j}] == (forward ? h[{length - 1, b, j}] : h0[{b, j}]));
          CHECK(c[{t, b, j}] == (forward ? c[{length - 1, b, j}] : c0[{b, j}]));
        }
      }
    }
  }
}

TEST_CASE("gru_forward: padding carries the state over, in both directions and forms") {
  for (GruForm form : forms) {
    for (Direction direction : directions) {
      const RecurrentInput in = gru_input(direction, form, mask());
      const RecurrentStates out = gru_forward(in);
      const naive::Array h(out.h), h0(in.h0);
      for (Index b = 0; b < batch; ++b) {
        const Index length = lengths[static_cast<std::size_t>(b)];
        for (Index t = length; t < steps; ++t) {
          for (Index j = 0; j < hidden; ++j) {
            CHECK(h[{t, b, j}] ==
                  (direction == Direction::forward ? h[{length - 1, b, j}] : h0[{b, j}]));
          }
        }
      }
    }
  }
}

TEST_CASE("lstm: a padded batch is its sentences one by one to the bit, forward and backward") {
  for (Direction direction : directions) {
    const RecurrentInput in = lstm_input(direction, mask());
    const RecurrentStates out = lstm_forward(in);
    Tensor dh = randn({steps, batch, hidden}, DType::f64, 9);
    dh = dh * in.mask.reshape({steps, batch, 1});
    const Tensor dc_last = randn({batch, hidden}, DType::f64, 10);
    const RecurrentGradients gradients = lstm_backward(in, out, dh, dc_last);
    for (Index b = 0; b < batch; ++b) {
      CAPTURE(b);
      RecurrentInput alone = in;
      alone.xw = sentence(in.xw, b);
      alone.h0 = row(in.h0, b), alone.c0 = row(in.c0, b);
      alone.mask = {};
      const RecurrentStates expected = lstm_forward(alone);
      CHECK(identical(sentence(out.h, b), expected.h));
      CHECK(identical(sentence(out.c, b), expected.c));
      const RecurrentGradients expected_gradients =
          lstm_backward(alone, expected, sentence(dh, b), row(dc_last, b));
      CHECK(identical(sentence(gradients.dxw, b), expected_gradients.dxw));
      CHECK(identical(sentence(gradients.dhw, b), expected_gradients.dhw));
      CHECK(identical(row(gradients.dh0, b), expected_gradients.dh0));
      CHECK(identical(row(gradients.dc0, b), expected_gradients.dc0));
    }
    CHECK(difference(gradients.dxw * (1.0 - in.mask.reshape({steps, batch, 1})),
                     zeros(in.xw.shape(), DType::f64)) == 0);
  }
}

TEST_CASE("gru: a padded batch is its sentences one by one to the bit, forward and backward") {
  for (GruForm form : forms) {
    for (Direction direction : directions) {
      const RecurrentInput in = gru_input(direction, form, mask());
      const RecurrentStates out = gru_forward(in);
      const Tensor dh =
          randn({steps, batch, hidden}, DType::f64, 9) * in.mask.reshape({steps, batch, 1});
      const RecurrentGradients gradients = gru_backward(in, out, dh);
      for (Index b = 0; b < batch; ++b) {
        CAPTURE(b);
        RecurrentInput alone = in;
        alone.xw = sentence(in.xw, b);
        alone.h0 = row(in.h0, b);
        alone.mask = {};
        const RecurrentStates expected = gru_forward(alone);
        CHECK(identical(sentence(out.h, b), expected.h));
        const RecurrentGradients expected_gradients =
            gru_backward(alone, expected, sentence(dh, b));
        CHECK(identical(sentence(gradients.dxw, b), expected_gradients.dxw));
        CHECK(identical(sentence(gradients.dhw, b), expected_gradients.dhw));
        CHECK(identical(row(gradients.dh0, b), expected_gradients.dh0));
      }
    }
  }
}

TEST_CASE("lstm: backward is forward over the reversed sequence") {
  const RecurrentInput in = lstm_input(Direction::backward);
  RecurrentInput turned = in;
  turned.xw = reversed(in.xw);
  turned.direction = Direction::forward;
  const RecurrentStates out = lstm_forward(in), expected = lstm_forward(turned);
  CHECK(identical(out.h, reversed(expected.h)));
  CHECK(identical(out.c, reversed(expected.c)));
  const Tensor dh = randn(out.h.shape(), DType::f64, 9),
               dc_last = randn({batch, hidden}, DType::f64, 10);
  const RecurrentGradients gradients = lstm_backward(in, out, dh, dc_last);
  const RecurrentGradients expected_gradients =
      lstm_backward(turned, expected, reversed(dh), dc_last);
  CHECK(identical(gradients.dxw, reversed(expected_gradients.dxw)));
  CHECK(identical(gradients.dc0, expected_gradients.dc0));
}

TEST_CASE("gru: backward is forward over the reversed sequence") {
  for (GruForm form : forms) {
    const RecurrentInput in = gru_input(Direction::backward, form);
    RecurrentInput turned = in;
    turned.xw = reversed(in.xw);
    turned.direction = Direction::forward;
    const RecurrentStates out = gru_forward(in), expected = gru_forward(turned);
    CHECK(identical(out.h, reversed(expected.h)));
    const Tensor dh = randn(out.h.shape(), DType::f64, 9);
    CHECK(identical(gru_backward(in, out, dh).dxw,
                    reversed(gru_backward(turned, expected, reversed(dh)).dxw)));
  }
}

TEST_CASE("lstm: undefined states are zero, and an undefined mask is all ones") {
  RecurrentInput given = lstm_input(Direction::forward, ones({steps, batch}, DType::f64));
  given.h0 = given.c0 = zeros({batch, hidden}, DType::f64);
  RecurrentInput left_out = given;
  left_out.h0 = left_out.c0 = left_out.mask = {};
  CHECK(identical(lstm_forward(given).h, lstm_forward(left_out).h));
}

TEST_CASE("gru: undefined state and bias are zero, and an undefined mask is all ones") {
  RecurrentInput given =
      gru_input(Direction::forward, GruForm::reset_after, ones({steps, batch}, DType::f64));
  given.h0 = zeros({batch, hidden}, DType::f64), given.b_hn = zeros({hidden}, DType::f64);
  RecurrentInput left_out = given;
  left_out.h0 = left_out.b_hn = left_out.mask = {};
  CHECK(identical(gru_forward(given).h, gru_forward(left_out).h));
}

TEST_CASE("lstm: undefined gradients of the results are zero") {
  const RecurrentInput in = lstm_input(Direction::forward);
  const RecurrentStates out = lstm_forward(in);
  const Tensor dh = randn(out.h.shape(), DType::f64, 9);
  const Tensor none_h = zeros(out.h.shape(), DType::f64),
               none_c = zeros({batch, hidden}, DType::f64);
  CHECK(identical(lstm_backward(in, out, dh, {}).dxw, lstm_backward(in, out, dh, none_c).dxw));
  CHECK(identical(lstm_backward(in, out, {}, none_c + 1.0).dxw,
                  lstm_backward(in, out, none_h, none_c + 1.0).dxw));
}

TEST_CASE("lstm: the inputs and the given gradients are left as they were") {
  const RecurrentInput in = lstm_input(Direction::forward, mask());
  const RecurrentStates out = lstm_forward(in);
  const Tensor dh = randn(out.h.shape(), DType::f64, 9),
               dc = randn({batch, hidden}, DType::f64, 10);
  const Tensor dh_before = dh.clone(), dc_before = dc.clone(), c0_before = in.c0.clone();
  lstm_backward(in, out, dh, dc);
  CHECK(identical(dh, dh_before));
  CHECK(identical(dc, dc_before));
  CHECK(identical(in.c0, c0_before));
}

TEST_CASE("lstm: a batch row does not depend on the batch around it, in any tile") {
  RecurrentInput in;
  in.xw = randn({3, 70, 4 * 5}, DType::f64);
  in.w_h = randn({5, 4 * 5}, DType::f64, 2);
  const Tensor h = lstm_forward(in).h;
  for (Index b : {0, 31, 32, 36, 69}) {
    RecurrentInput alone = in;
    alone.xw = slice(in.xw, 1, b, b + 1);
    CHECK(difference(slice(h, 1, b, b + 1), lstm_forward(alone).h) <= 1e-12);
  }
}

TEST_CASE("lstm: f32 follows f64 to its precision over a sequence") {
  RecurrentInput in = lstm_input(Direction::forward, mask()), single = in;
  for (Tensor* x : {&single.xw, &single.w_h, &single.h0, &single.c0, &single.mask}) {
    *x = x->to(DType::f32);
  }
  CHECK(difference(lstm_forward(single).h.to(DType::f64), lstm_forward(in).h) <= 1e-5);
}

TEST_CASE("last_step: where a direction's last state stands") {
  CHECK(last_step(5, Direction::forward) == 4);
  CHECK(last_step(5, Direction::backward) == 0);
}

TEST_CASE("lstm and gru: a batch of no sentences has no states") {
  RecurrentInput lstm;
  lstm.xw = zeros({2, 0, 12}), lstm.w_h = zeros({3, 12});
  CHECK(lstm_forward(lstm).h.shape() == Shape{2, 0, 3});
  RecurrentInput gru;
  gru.xw = zeros({2, 0, 9}), gru.w_h = zeros({3, 9});
  CHECK(gru_forward(gru).h.shape() == Shape{2, 0, 3});
}

}  // namespace attune
