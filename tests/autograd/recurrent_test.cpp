// Complements support/op_cases.cpp: single steps, gradients of only some results, and errors.
#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/recurrent.hpp>
#include <attune/autograd/reference.hpp>

#include "support/op_cases.hpp"

namespace attune {

TEST_CASE("recurrences: a single step equals a sequence of one step, values and gradients") {
  for (const OpCase& op : op_cases()) {
    if (op.group != "recurrences" || !op.constants.empty()) continue;  // masks need sequences
    INFO(op.name);
    std::vector<Tensor> inputs = op.inputs;
    inputs[0] = inputs[0][0];
    const Function step = [&](const std::vector<Var>& v) { return joined({op(v)}); };
    const Function sequence = [&](std::vector<Var> v) {
      v[0] = reshape(v[0], v[0].shape().inserted(0, 1));
      return joined({op(v)});
    };
    CHECK(function_difference(step, sequence, inputs) == 0);
  }
}

TEST_CASE("lstm: a gradient of only c_last or only one step flows back") {
  const std::vector<Tensor> inputs{randn({4, 3, 20}, DType::f64), randn({5, 20}, DType::f64, 2),
                                   randn({3, 5}, DType::f64, 3), randn({3, 5}, DType::f64, 4)};
  const Tensor mask = mask_of(4, {4, 2, 3});
  const auto part = [&](auto recurrent, Index step) -> Function {  // -1: c_last
    return [&mask, recurrent, step](const std::vector<Var>& v) {
      const auto [h, c_last] = recurrent(
          v[0], v[1], Recurrence{.cell = Cell::lstm, .h0 = v[2], .c0 = v[3], .mask = mask});
      return step < 0 ? c_last : h[step];
    };
  };
  for (const Index step : {-1, 0, 3}) {
    CAPTURE(step);
    CHECK(function_difference(part(recurrent, step), part(reference::recurrent, step), inputs) <=
          1e-12);
  }
  const Var xw = variable(inputs[0]), w_h = variable(inputs[1]);
  const Tensor later = backward(sum(recurrent(xw, w_h, {.cell = Cell::lstm}).h[0]))[xw].slice(1, 4);
  CHECK(difference(later, zeros(later.shape(), DType::f64)) == 0);
}

TEST_CASE("lstm: after one step from a zero state, the weight's gradient is zero, not missing") {
  const Var xw = variable(randn({1, 3, 20}, DType::f64)),
            w_h = variable(randn({5, 20}, DType::f64));
  const Gradients gradients = backward(sum(recurrent(xw, w_h, {.cell = Cell::lstm}).h));
  REQUIRE(gradients.find(w_h));
  CHECK(identical(gradients[w_h], zeros({5, 20}, DType::f64)));
}

TEST_CASE("gru: the recurrent weight may also be used elsewhere") {
  for (const Cell cell : {Cell::gru, Cell::gru_reset_before}) {
    CAPTURE(static_cast<int>(cell));
    const auto with_product = [&](auto recurrent) -> Function {
      return [cell, recurrent](const std::vector<Var>& v) {
        const Var h = recurrent(v[0], v[1], Recurrence{.cell = cell}).h;
        return joined({h, matmul(h[0], v[1])});
      };
    };
    CHECK(function_difference(with_product(recurrent), with_product(reference::recurrent),
                              {randn({4, 3, 15}, DType::f64), randn({5, 15}, DType::f64, 2)}) <=
          1e-12);
  }
}

TEST_CASE("recurrences: a shape error names the argument and the letter") {
  const auto of = [](const Shape& shape) { return zeros(shape, DType::f64); };
  const auto error = [&](const Tensor& xw, Index width, const Recurrence& options) {
    return error_of([&] { recurrent(xw, of({2, width}), options); });
  };
  const Tensor xw = of({4, 3, 8}), gru = of({4, 3, 6});
  const Cell lstm = Cell::lstm;
  CHECK(error(of({4, 3, 9}), 8, {lstm}) == "lstm: xw (T, B, 4H) is (4, 3, 9), but H = 2 in w_h");
  CHECK(error(xw, 8, {lstm, of({5, 2})}) == "lstm: h0 (B, H) is (5, 2), but B = 3 in xw");
  CHECK(error(of({0, 3, 8}), 8, {lstm}) == "lstm: the sequence has no steps");
  CHECK(error(xw, 8, {.cell = lstm, .b_hn = of({2})}) ==
        "lstm: b_hn is supported by Cell::gru only");
  CHECK(error(gru, 6, {.h0 = zeros({3, 2})}) == "gru: dtypes differ: f64 (4, 3, 6) and f32 (3, 2)");
  CHECK(error(gru, 6, {.c0 = of({3, 2})}) == "gru: c0 is supported by an LSTM only");
  CHECK(error(gru, 6, {.cell = Cell::gru_reset_before, .b_hn = of({2})}) ==
        "gru: b_hn is supported by Cell::gru only");
}

}  // namespace attune
