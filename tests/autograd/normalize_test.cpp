// What support/op_cases.hpp does not ask of the operations in autograd/normalize.hpp.

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/normalize.hpp>
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

TEST_CASE("cosine_similarity: of a zero vector it is 0 and so is the gradient") {
  const Var a = variable(zeros({3}, DType::f64)), b = variable(reals({3}, {1, 2, 2}));
  const Var y = cosine_similarity(a, b);
  CHECK(y.item() == 0);
  const Gradients gradients = backward(y);
  CHECK(identical(gradients[b], zeros({3}, DType::f64)));
  CHECK(difference(gradients[a], reals({3}, {1e8, 2e8, 2e8})) <= 1e-15);  // b / ε
}

TEST_CASE("cosine_similarity: of a vector with itself it is 1, with its opposite -1") {
  const Var a = randn({2, 3}, DType::f64);
  CHECK(difference(cosine_similarity(a, a * 4.0).value(), ones({2}, DType::f64)) <= 1e-15);
  CHECK(difference(cosine_similarity(a, -a).value(), full({2}, -1, DType::f64)) <= 1e-15);
  CHECK(cosine_similarity(a, a, 0).shape() == Shape{3});
  CHECK(cosine_similarity(zeros({2, 0}), zeros({2, 0})).shape() == Shape{2});
}

TEST_CASE("cosine_similarity: what does not fit is an error with both shapes") {
  CHECK(error_of([] {
          cosine_similarity(zeros({2, 3}), zeros({2, 4}));
        }) == "cosine_similarity: shapes (2, 3) and (2, 4) do not broadcast");
  CHECK(error_of([] {
          cosine_similarity(zeros({2, 3}), zeros({2, 1}));
        }) == "cosine_similarity: axis -1 must have the same extent in (2, 3) and (2, 1)");
  CHECK(error_of([] {
          cosine_similarity(zeros({2, 3}), zeros({3}), 0);
        }) == "cosine_similarity: axis 0 must have the same extent in (2, 3) and (3)");
  CHECK_THROWS_AS(cosine_similarity(zeros({2, 3}), zeros({2, 3}), 2), Error);
}

}  // namespace attune
