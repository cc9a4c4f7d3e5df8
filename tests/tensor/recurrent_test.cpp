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

constexpr Cell cells[] = {Cell::lstm, Cell::gru, Cell::gru_reset_before};
constexpr Direction directions[] = {Direction::forward, Direction::backward};

RecurrentInput input_of(Cell cell, Direction direction, const Tensor& mask = {}) {
  const bool lstm = cell == Cell::lstm;
  const Index gates = gates_of(cell) * hidden;
  RecurrentInput in;
  in.xw = randn({steps, batch, gates}, DType::f64);
  in.w_h = randn({hidden, gates}, DType::f64, 2);
  in.h0 = randn({batch, hidden}, DType::f64, 3);
  if (lstm) in.c0 = randn({batch, hidden}, DType::f64, 4);
  if (cell == Cell::gru) in.b_hn = randn({hidden}, DType::f64, 7);
  in.mask = mask;
  in.direction = direction;
  in.cell = cell;
  return in;
}

/// Whether both are undefined, or the same to the bit.
bool same(const Tensor& x, const Tensor& y) { return x.defined() ? identical(x, y) : !y.defined(); }

/// Sentence b alone: its first steps, and only its row of every state.
Tensor sentence(const Tensor& x, Index b) {
  if (!x.defined()) return x;
  const Tensor column = slice(x, 1, b, b + 1);
  return slice(column, 0, 0, lengths[static_cast<std::size_t>(b)]);
}
Tensor row(const Tensor& state, Index b) {
  return state.defined() ? slice(state, 0, b, b + 1) : state;
}

Tensor reversed(const Tensor& x) {
  if (!x.defined()) return x;
  std::vector<Tensor> rows;
  for (Index t = x.dim(0) - 1; t >= 0; --t) rows.push_back(x[t]);
  return stack(rows);
}

double sigma(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("lstm: one step of one neuron is what the equations give") {
  const RecurrentInput in{.xw = reals({1, 1, 4}, {0.1, 0.2, 0.3, 0.4}),
                          .w_h = reals({1, 4}, {1, 2, 3, 4}),
                          .h0 = reals({1, 1}, {0.5}),
                          .c0 = reals({1, 1}, {-2}),
                          .cell = Cell::lstm};
  const RecurrentStates out = recurrent_forward(in);
  const double i = sigma(0.1 + 0.5), f = sigma(0.2 + 1), g = std::tanh(0.3 + 1.5),
               o = sigma(0.4 + 2);
  const double c = f * -2 + i * g;
  CHECK(out.c.item() == doctest::Approx(c).epsilon(1e-15));
  CHECK(out.h.item() == doctest::Approx(o * std::tanh(c)).epsilon(1e-15));
  CHECK(difference(out.gates, reals({1, 1, 4}, {i, f, g, o})) <= 1e-15);
}

TEST_CASE("gru: one step of one neuron is what the equations of each form give") {
  RecurrentInput in;
  in.xw = reals({1, 1, 3}, {0.1, 0.2, 0.3});
  in.w_h = reals({1, 3}, {1, 2, 3});
  in.b_hn = reals({1}, {0.7});
  in.h0 = reals({1, 1}, {0.5});
  const double r = sigma(0.1 + 0.5), z = sigma(0.2 + 1);
  const double n_after = std::tanh(0.3 + r * (1.5 + 0.7));
  CHECK(recurrent_forward(in).h.item() ==
        doctest::Approx((1 - z) * n_after + z * 0.5).epsilon(1e-15));
  in.b_hn = {};
  in.cell = Cell::gru_reset_before;
  const double n_before = std::tanh(0.3 + r * 0.5 * 3);
  CHECK(recurrent_forward(in).h.item() ==
        doctest::Approx((1 - z) * n_before + z * 0.5).epsilon(1e-15));
}

TEST_CASE("recurrences: padding carries the states over, in both directions") {
  for (Cell cell : cells) {
    for (Direction direction : directions) {
      const RecurrentInput in = input_of(cell, direction, mask());
      const RecurrentStates out = recurrent_forward(in);
      for (const auto& [all, initial] : {std::pair(out.h, in.h0), std::pair(out.c, in.c0)}) {
        if (!all.defined()) continue;
        for (Index b = 0; b < batch; ++b) {
          const Index length = lengths[static_cast<std::size_t>(b)];
          const Tensor last = direction == Direction::forward ? all[length - 1][b] : initial[b];
          for (Index t = length; t < steps; ++t) CHECK(identical(all[t][b], last));
        }
      }
    }
  }
}

TEST_CASE("recurrences: a padded batch is its sentences one by one to the bit") {
  for (Cell cell : cells) {
    for (Direction direction : directions) {
      const RecurrentInput in = input_of(cell, direction, mask());
      const RecurrentStates out = recurrent_forward(in);
      const Tensor used = in.mask.reshape({steps, batch, 1});
      const Tensor dh = randn({steps, batch, hidden}, DType::f64, 9) * used;
      const Tensor dc_last = randn({batch, hidden}, DType::f64, 10);
      const RecurrentGradients d = recurrent_backward(in, out, dh, dc_last);
      for (Index b = 0; b < batch; ++b) {
        CAPTURE(b);
        RecurrentInput alone = in;
        alone.xw = sentence(in.xw, b);
        alone.h0 = row(in.h0, b), alone.c0 = row(in.c0, b);
        alone.mask = {};
        const RecurrentStates expected = recurrent_forward(alone);
        CHECK(same(sentence(out.h, b), expected.h));
        CHECK(same(sentence(out.c, b), expected.c));
        const RecurrentGradients expected_d =
            recurrent_backward(alone, expected, sentence(dh, b), row(dc_last, b));
        CHECK(same(sentence(d.dxw, b), expected_d.dxw));
        CHECK(same(sentence(d.dhw, b), expected_d.dhw));
        CHECK(same(row(d.dh0, b), expected_d.dh0));
        CHECK(same(row(d.dc0, b), expected_d.dc0));
      }
      CHECK(difference(d.dxw * (1.0 - used), zeros(in.xw.shape(), DType::f64)) == 0);
    }
  }
}

TEST_CASE("recurrences: backward is forward over the reversed sequence") {
  for (Cell cell : cells) {
    const RecurrentInput in = input_of(cell, Direction::backward);
    RecurrentInput turned = in;
    turned.xw = reversed(in.xw);
    turned.direction = Direction::forward;
    const RecurrentStates out = recurrent_forward(in), expected = recurrent_forward(turned);
    CHECK(same(out.h, reversed(expected.h)));
    CHECK(same(out.c, reversed(expected.c)));
    const Tensor dh = randn(out.h.shape(), DType::f64, 9),
                 dc_last = randn({batch, hidden}, DType::f64, 10);
    const RecurrentGradients d = recurrent_backward(in, out, dh, dc_last),
                             expected_d =
                                 recurrent_backward(turned, expected, reversed(dh), dc_last);
    CHECK(same(d.dxw, reversed(expected_d.dxw)));
    CHECK(same(d.dc0, expected_d.dc0));
  }
}

TEST_CASE("recurrences: undefined states and bias are zero, an undefined mask is all ones") {
  for (Cell cell : cells) {
    RecurrentInput given = input_of(cell, Direction::forward, ones({steps, batch}, DType::f64));
    for (Tensor* x : {&given.h0, &given.c0, &given.b_hn}) {
      if (x->defined()) *x = zeros(x->shape(), DType::f64);
    }
    RecurrentInput left_out = given;
    left_out.h0 = left_out.c0 = left_out.b_hn = left_out.mask = {};
    CHECK(identical(recurrent_forward(given).h, recurrent_forward(left_out).h));
  }
}

TEST_CASE("lstm: undefined gradients of the results are zero") {
  const RecurrentInput in = input_of(Cell::lstm, Direction::forward);
  const RecurrentStates out = recurrent_forward(in);
  const Tensor dh = randn(out.h.shape(), DType::f64, 9);
  const Tensor none_h = zeros(out.h.shape(), DType::f64),
               none_c = zeros({batch, hidden}, DType::f64);
  CHECK(identical(recurrent_backward(in, out, dh, {}).dxw,
                  recurrent_backward(in, out, dh, none_c).dxw));
  CHECK(identical(recurrent_backward(in, out, {}, none_c + 1.0).dxw,
                  recurrent_backward(in, out, none_h, none_c + 1.0).dxw));
}

TEST_CASE("lstm: the inputs and the given gradients are left as they were") {
  const RecurrentInput in = input_of(Cell::lstm, Direction::forward, mask());
  const RecurrentStates out = recurrent_forward(in);
  const Tensor dh = randn(out.h.shape(), DType::f64, 9),
               dc = randn({batch, hidden}, DType::f64, 10);
  const Tensor dh_before = dh.clone(), dc_before = dc.clone(), c0_before = in.c0.clone();
  recurrent_backward(in, out, dh, dc);
  CHECK(identical(dh, dh_before));
  CHECK(identical(dc, dc_before));
  CHECK(identical(in.c0, c0_before));
}

TEST_CASE("lstm: a batch row does not depend on the batch around it, in any tile") {
  const RecurrentInput in{.xw = randn({3, 70, 4 * 5}, DType::f64),
                          .w_h = randn({5, 4 * 5}, DType::f64, 2),
                          .cell = Cell::lstm};
  const Tensor h = recurrent_forward(in).h;
  for (Index b : {0, 31, 32, 36, 69}) {
    RecurrentInput alone = in;
    alone.xw = slice(in.xw, 1, b, b + 1);
    CHECK(difference(slice(h, 1, b, b + 1), recurrent_forward(alone).h) <= 1e-12);
  }
}

TEST_CASE("lstm: f32 follows f64 to its precision over a sequence") {
  RecurrentInput in = input_of(Cell::lstm, Direction::forward, mask()), single = in;
  for (Tensor* x : {&single.xw, &single.w_h, &single.h0, &single.c0}) *x = x->to(DType::f32);
  single.mask = in.mask.to(DType::f32);
  CHECK(difference(recurrent_forward(single).h.to(DType::f64), recurrent_forward(in).h) <= 1e-5);
}

TEST_CASE("last_step: where a direction's last state stands") {
  CHECK(last_step(5, Direction::forward) == 4);
  CHECK(last_step(5, Direction::backward) == 0);
}

TEST_CASE("lstm and gru: a batch of no sentences has no states") {
  for (Cell cell : cells) {
    const Index width = gates_of(cell) * 3;
    const RecurrentInput in{.xw = zeros({2, 0, width}), .w_h = zeros({3, width}), .cell = cell};
    CHECK(recurrent_forward(in).h.shape() == Shape{2, 0, 3});
  }
}

}  // namespace attune
