// What support/op_cases.hpp does not ask of layer_norm and sparsemax.

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/ops.hpp>

#include "support/naive.hpp"

namespace attune {

TEST_CASE("layer_norm: only what is asked for gets a gradient") {
  const Tensor x = randn({3, 4}, DType::f64), gain = randn({4}, DType::f64, 2),
               bias = randn({4}, DType::f64, 3);
  CHECK(gradcheck([&](const Var& v) { return layer_norm(v, gain, bias); }, x));
  CHECK(gradcheck([&](const Var& v) { return layer_norm(x, v, bias); }, gain));
  CHECK(gradcheck([&](const Var& v) { return layer_norm(x, gain, v); }, bias));
  CHECK_FALSE(layer_norm(x, gain, bias).requires_gradient());
}

TEST_CASE("layer_norm: one element in a row, or none") {
  const Var one = variable(reals({2, 1}, {5, -5})), gain = variable(reals({1}, {3})),
            bias = variable(reals({1}, {4}));
  const Gradients gradients = backward(layer_norm(one, gain, bias), reals({2, 1}, {1, 2}));
  CHECK(identical(gradients[one], zeros({2, 1}, DType::f64)));
  CHECK(gradients[gain].item() == 0);
  CHECK(gradients[bias].item() == 3);
  const Var none = variable(zeros({2, 0}));
  CHECK(backward(layer_norm(none, zeros({0}), zeros({0})), zeros({2, 0}))[none].size() == 0);
}

TEST_CASE("sparsemax: masked positions and empty columns get gradient 0") {
  const Var x = variable(reals({3, 2}, {0.1, 1, 0.2, 2, 9, 3}));
  const Tensor mask = reals({3, 2}, {1, 0, 1, 0, 0, 0});
  const Var y = sparsemax(x, 0, mask);
  CHECK(difference(y.value(), reals({3, 2}, {0.45, 0, 0.55, 0, 0, 0})) <= 1e-15);
  const Gradients gradients = backward(y, reals({3, 2}, {1, 7, 4, 8, 5, 9}));
  CHECK(identical(gradients[x], reals({3, 2}, {-1.5, 0, 1.5, 0, 0, 0})));
}

}  // namespace attune
