// Padding in recurrences. tests/autograd checks their equations and gradients.

#include <doctest/doctest.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/kernels/recurrent.hpp>

#include "support/naive.hpp"

namespace attune {
namespace {

constexpr Index steps = 5, batch = 3, hidden = 2;
constexpr std::array<Index, 3> lengths{5, 2, 4};

Tensor mask() { return mask_of(steps, {5, 2, 4}); }

constexpr Cell cells[] = {Cell::lstm, Cell::gru, Cell::gru_reset_before};
constexpr Direction directions[] = {Direction::forward, Direction::backward};

/// A recurrence with its inputs and weights.
struct Input : RecurrenceOf<Tensor> {
  Tensor xw, w_h;
};
RecurrentActivations run_forward(const Input& in) { return recurrent_forward(in.xw, in.w_h, in); }
RecurrentGradients run_backward(const Input& in, const RecurrentActivations& states,
                                const Tensor& dh, const Tensor& dc_last) {
  return recurrent_backward(in.xw, in.w_h, in, states, dh, dc_last);
}

Input input_of(Cell cell, Direction direction, const Tensor& mask = {}) {
  const bool lstm = cell == Cell::lstm;
  const Index gates = gates_of(cell) * hidden;
  Input in;
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

/// True if both are undefined or the same bit for bit.
bool same(const Tensor& x, const Tensor& y) { return x.defined() ? identical(x, y) : !y.defined(); }

/// Sentence b alone: its steps without padding, and its row of every state.
Tensor sentence(const Tensor& x, Index b) {
  if (!x.defined()) return x;
  const Tensor column = slice(x, 1, b, b + 1);
  return slice(column, 0, 0, lengths[static_cast<std::size_t>(b)]);
}
Tensor row(const Tensor& state, Index b) {
  return state.defined() ? slice(state, 0, b, b + 1) : state;
}

}  // namespace

TEST_CASE("recurrences: a padded batch gives the same bits as its sentences one by one") {
  for (Cell cell : cells) {
    for (Direction direction : directions) {
      const Input in = input_of(cell, direction, mask());
      const RecurrentActivations out = run_forward(in);
      const Tensor used = in.mask.reshape({steps, batch, 1});
      const Tensor dh = randn({steps, batch, hidden}, DType::f64, 9) * used;
      const Tensor dc_last = randn({batch, hidden}, DType::f64, 10);
      const RecurrentGradients d = run_backward(in, out, dh, dc_last);
      for (Index b = 0; b < batch; ++b) {
        CAPTURE(b);
        Input alone = in;
        alone.xw = sentence(in.xw, b);
        alone.h0 = row(in.h0, b), alone.c0 = row(in.c0, b);
        alone.mask = {};
        const RecurrentActivations expected = run_forward(alone);
        CHECK(same(sentence(out.h, b), expected.h));
        CHECK(same(sentence(out.c, b), expected.c));
        const RecurrentGradients expected_d =
            run_backward(alone, expected, sentence(dh, b), row(dc_last, b));
        CHECK(same(sentence(d.dxw, b), expected_d.dxw));
        CHECK(same(sentence(d.dhw, b), expected_d.dhw));
        CHECK(same(row(d.dh0, b), expected_d.dh0));
        CHECK(same(row(d.dc0, b), expected_d.dc0));
      }
      CHECK(difference(d.dxw * (1.0 - used), zeros(in.xw.shape(), DType::f64)) == 0);
    }
  }
}

TEST_CASE("lstm: inputs and given gradients are not modified") {
  const Input in = input_of(Cell::lstm, Direction::forward, mask());
  const RecurrentActivations out = run_forward(in);
  const Tensor dh = randn(out.h.shape(), DType::f64, 9),
               dc = randn({batch, hidden}, DType::f64, 10);
  const Tensor dh_before = dh.clone(), dc_before = dc.clone(), c0_before = in.c0.clone();
  run_backward(in, out, dh, dc);
  CHECK(identical(dh, dh_before));
  CHECK(identical(dc, dc_before));
  CHECK(identical(in.c0, c0_before));
}

TEST_CASE("last_step: index of the final state in each direction") {
  CHECK(last_step(5, Direction::forward) == 4);
  CHECK(last_step(5, Direction::backward) == 0);
}

TEST_CASE("lstm and gru: an empty batch gives empty states") {
  for (Cell cell : cells) {
    const Index width = gates_of(cell) * 3;
    const Input in{{.cell = cell}, zeros({2, 0, width}), zeros({3, width})};
    CHECK(run_forward(in).h.shape() == Shape{2, 0, 3});
  }
}

}  // namespace attune
