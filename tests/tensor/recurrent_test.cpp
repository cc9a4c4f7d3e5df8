// Recurrences: aliasing and empty batches. padding_test.cpp checks padding; tests/autograd checks
// equations and gradients.

#include <doctest/doctest.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/kernels/recurrent.hpp>

#include "support/naive.hpp"

namespace attune {
TEST_CASE("lstm: inputs and given gradients are not modified") {
  constexpr Index steps = 5, batch = 3, hidden = 2, gates = 4 * hidden;
  const Tensor xw = randn({steps, batch, gates}, DType::f64),
               w_h = randn({hidden, gates}, DType::f64, 2);
  RecurrenceOf<Tensor> in{.cell = Cell::lstm, .mask = mask_of(steps, {5, 2, 4})};
  in.h0 = randn({batch, hidden}, DType::f64, 3), in.c0 = randn({batch, hidden}, DType::f64, 4);
  const RecurrentActivations out = recurrent_forward(xw, w_h, in);
  const Tensor dh = randn(out.h.shape(), DType::f64, 9),
               dc = randn({batch, hidden}, DType::f64, 10);
  const Tensor dh_before = dh.clone(), dc_before = dc.clone(), c0_before = in.c0.clone();
  recurrent_backward(xw, w_h, in, out, dh, dc);
  CHECK(identical(dh, dh_before));
  CHECK(identical(dc, dc_before));
  CHECK(identical(in.c0, c0_before));
}

TEST_CASE("last_step: index of the final state in each direction") {
  CHECK(last_step(5, Direction::forward) == 4);
  CHECK(last_step(5, Direction::backward) == 0);
}

TEST_CASE("lstm and gru: an empty batch gives empty states") {
  for (const Cell cell : {Cell::lstm, Cell::gru, Cell::gru_reset_before}) {
    const Index width = gates_of(cell) * 3;
    const Tensor h = recurrent_forward(zeros({2, 0, width}), zeros({3, width}), {.cell = cell}).h;
    CHECK(h.shape() == Shape{2, 0, 3});
  }
}

}  // namespace attune
