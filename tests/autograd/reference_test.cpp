// The definitions against central differences, and the fused ops against the definitions.

#include <doctest/doctest.h>

#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/reference.hpp>

#include "support/op_cases.hpp"
#include "support/same_function.hpp"

namespace attune {

TEST_CASE("reference: the definitions of the recurrences have right gradients") {
  for (Cell cell : {Cell::lstm, Cell::gru, Cell::gru_reset_before}) {
    const auto states = [cell](const std::vector<Var>& v) {
      const auto [h, c_last] = reference::recurrent(
          v[0], v[1], {.cell = cell, .h0 = v[2], .c0 = v.size() == 4 ? v[3] : Var()});
      return c_last.defined() ? joined({h, c_last}) : h;
    };
    const Index width = gates_of(cell) * 2;
    std::vector<Tensor> inputs = {randn({3, 2, width}, DType::f64),
                                  randn({2, width}, DType::f64, 2), randn({2, 2}, DType::f64, 3)};
    if (cell == Cell::lstm) inputs.push_back(randn({2, 2}, DType::f64, 4));
    CHECK(gradcheck(states, inputs));
  }
}

TEST_CASE("reference: softmax and sparsemax are what they mean") {
  using F = Var (*)(const Var& x, int axis, const Mask& mask);
  const auto of = [](F f, int axis, const Tensor& mask = {}) -> Function {
    return [=](const std::vector<Var>& v) { return f(v[0], axis, mask); };
  };
  const Tensor x = randn({7, 4, 9}, DType::f64), batch = randn({4, 5, 3}, DType::f64, 2);
  for (const auto& [fused, meant] : {std::pair<F, F>(softmax, reference::softmax),
                                     std::pair<F, F>(sparsemax, reference::sparsemax)}) {
    for (int axis : {0, 1, 2}) {
      CHECK(function_difference(of(fused, axis), of(meant, axis), {x}) <= 1e-12);
      CHECK(gradcheck(of(meant, axis), {randn({3, 4, 5}, DType::f64)}));
    }
    const Tensor mask = mask_of(5, {2, 5, 4});
    CHECK(function_difference(of(fused, 1, mask), of(meant, 1, mask), {batch}) <= 1e-12);
  }
  const Tensor mask = mask_of(5, {2, 5, 0});
  CHECK(function_difference(of(sparsemax, 1, mask), of(reference::sparsemax, 1, mask), {batch}) <=
        1e-12);
}

TEST_CASE("reference: log_softmax is what it means") {
  for (int axis : {0, 1, 2}) {
    const auto fused = [axis](const std::vector<Var>& v) { return log_softmax(v[0], axis); };
    const auto meant = [axis](const std::vector<Var>& v) {
      return reference::log_softmax(v[0], axis);
    };
    CHECK(function_difference(fused, meant, {randn({3, 4, 5}, DType::f64)}) <= 1e-12);
  }
}

TEST_CASE("reference: layer_norm is what it means") {
  const auto fused = [](const std::vector<Var>& v) { return layer_norm(v[0], v[1], v[2], 0.01); };
  const auto meant = [](const std::vector<Var>& v) {
    return reference::layer_norm(v[0], v[1], v[2], 0.01);
  };
  for (const Shape& shape : {Shape{3, 4, 5}, Shape{150, 37}, Shape{1, 3}}) {
    const std::vector<Tensor> inputs{randn(shape, DType::f64), randn({shape[-1]}, DType::f64, 2),
                                     randn({shape[-1]}, DType::f64, 3)};
    CHECK(function_difference(fused, meant, inputs) <= 1e-12);
  }
  CHECK(gradcheck(
      meant, {randn({3, 4}, DType::f64), randn({4}, DType::f64, 2), randn({4}, DType::f64, 3)}));
}

}  // namespace attune
