#include <doctest/doctest.h>

#include <attune/nn/linear.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"

namespace {

using namespace attune;
using test::identical;

TEST_CASE("Linear: y = x W + b") {
  nn::Parameters params(1, DType::f64);
  const nn::Linear linear(params, 2, 3);
  test::set(params, "W", Tensor::of({2, 3}, {1., 2., 3., 4., 5., 6.}));
  test::set(params, "b", Tensor::of({3}, {10., 20., 30.}));
  const Var y = linear(Tensor::of({2, 2}, {1., 2., -1., 0.5}));
  // (1, 2) W = (9, 12, 15) and (-1, 0.5) W = (1, 0.5, 0)
  CHECK(identical(y.value(), Tensor::of({2, 3}, {19., 32., 45., 11., 20.5, 30.})));
}

TEST_CASE("Linear: without bias there is no parameter b, and zero stays zero") {
  nn::Parameters params(1, DType::f64);
  const nn::Linear linear(nn::Scope(params) / "out", 2, 3, {.bias = false});
  CHECK(params.contains("out.W"));
  CHECK(params.all().size() == 1);
  test::set(params, "out.W", Tensor::of({2, 3}, {1., 2., 3., 4., 5., 6.}));
  CHECK(identical(linear(zeros({4, 2}, DType::f64)).value(), zeros({4, 3}, DType::f64)));
  CHECK(
      identical(linear(Tensor::of({1, 2}, {1., 2.})).value(), Tensor::of({1, 3}, {9., 12., 15.})));
}

TEST_CASE("Linear: leading axes are rows") {
  nn::Parameters params(1, DType::f64);
  const nn::Linear linear(params, 4, 5, {.bias_init = nn::init::normal(1)});
  const Tensor x = randn({2, 3, 4}, DType::f64);
  const Var y = linear(x);
  REQUIRE(y.shape() == Shape{2, 3, 5});
  for (Index i = 0; i < 2; ++i) {
    for (Index j = 0; j < 3; ++j) {
      CHECK(test::difference(y.value()[i][j].reshape({1, 5}),
                             linear(x[i][j].reshape({1, 4})).value()) < 1e-14);
    }
  }
}

TEST_CASE("Linear: initial values are those of the options, a bias of zero by default") {
  nn::Parameters params;
  const nn::Linear plain(nn::Scope(params) / "plain", 3, 2);
  CHECK(identical(params["plain.b"].value(), zeros({2})));
  const nn::Linear other(
      nn::Scope(params) / "other", 3, 2,
      {.weight_init = nn::init::constant(0.25), .bias_init = nn::init::constant(-2)});
  CHECK(identical(params["other.W"].value(), full({3, 2}, 0.25)));
  CHECK(identical(params["other.b"].value(), full({2}, -2)));
}

TEST_CASE("Linear: gradients of weight, bias and input agree with differences") {
  nn::Parameters params(1, DType::f64);
  const nn::Linear linear(params, 4, 5);
  const Var x = params.add("x", {2, 3, 4}, nn::init::normal(1));
  CHECK(gradcheck(params, [&] { return linear(x); }));
}

TEST_CASE("Linear: an input of another size is an error that shows the shapes") {
  nn::Parameters params;
  const nn::Linear linear(params, 4, 5);
  CHECK_THROWS_WITH_AS(linear(zeros({2, 3})), doctest::Contains("(2, 3)"), Error);
  CHECK_THROWS_WITH_AS(linear(zeros({2, 3})), doctest::Contains("(4, 5)"), Error);
}

}  // namespace
