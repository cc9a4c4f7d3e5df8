#include <limits>
#include <tuple>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/nn/layers.hpp>
#include <attune/tensor/errors.hpp>

#include "nn/tools.hpp"
#include "support/process.hpp"

namespace {

using namespace attune;

TEST_CASE("Dropout: outside of training mode it is the identity") {
  const Tensor x = randn({3, 4}, DType::f64);
  CHECK(identical(nn::Dropout(0.9)(x).value(), x));
}

TEST_CASE("Dropout: in training an element is dropped, or scaled so that the mean stays") {
  const Index n = 20000;
  const double rate = 0.3;
  Random random(5);
  const nn::Training training(random);
  const Tensor y = nn::Dropout(rate)(ones({n}, DType::f64)).value();
  double dropped = 0, mean = 0;
  bool only_these_two = true;
  for (double v : y.to_vector<double>()) {
    dropped += v == 0;
    mean += v / static_cast<double>(n);
    only_these_two &= v == 0 || std::abs(v - 1 / 0.7) < 1e-15;
  }
  CHECK(only_these_two);
  const double deviation = std::sqrt(rate * (1 - rate) / static_cast<double>(n));
  CHECK(std::abs(dropped / static_cast<double>(n) - rate) < 5 * deviation);
  CHECK(std::abs(mean - 1) < 5 * deviation / 0.7);
}

TEST_CASE("Dropout: the gradient is masked and scaled as the value is") {
  Random random(5);
  const nn::Training training(random);
  const Var x = variable(ones({5, 7}, DType::f64));
  const Tensor g = randn({5, 7}, DType::f64, 2);
  const Var y = nn::Dropout(0.4)(x);  // of ones: the mask itself
  const Tensor mask = y.value();
  CHECK(identical(backward(test::weighted(y, g))[x], g * mask));
}

TEST_CASE("Dropout: f32 and f64 draw the same mask") {
  const auto mask = [](DType dtype) {
    Random random(3);
    const nn::Training training(random);
    return nn::Dropout(0.25)(ones({6, 9}, dtype)).value();
  };
  CHECK(identical(mask(DType::f64).to(DType::f32), mask(DType::f32)));
}

TEST_CASE("Dropout: a mask does not depend on the number of threads") {
  Random random(3), same(3);
  const nn::Training training(random);
  const Tensor mask = nn::Dropout(0.5)(ones({50'000})).value();
  Index different = 0;
  for (float m : mask.to_vector<float>()) different += (m == 0) != (same.bits() < 0x80000000);
  CHECK(different == 0);
  CHECK(random.state() == same.state());
}

TEST_CASE("Dropout: child process of the next test" * doctest::skip()) {
  for (int i = 0; i < 3; ++i)
    std::ignore = backward(sum(nn::Dropout(0.5)(variable(randn({2, 3}, DType::f64)))));
}

TEST_CASE("Dropout: backward of a loss computed outside of training warns once") {
  const test::ProcessResult result = test::run_test_case("Dropout: child process of*");
  CHECK(result.status == 0);
  CHECK(result.err ==
        "attune: warning: backward of a loss that was computed outside of nn::Training: dropout "
        "had no effect\n");
}

TEST_CASE("Dropout: a rate of 0 changes nothing and draws nothing") {
  Random random(3), untouched(3);
  const nn::Training training(random);
  const Tensor x = randn({3, 4}, DType::f64);
  CHECK(identical(nn::Dropout(0)(x).value(), x));
  CHECK(random.state() == untouched.state());
}

TEST_CASE("Dropout: a rate outside of [0, 1) is an error") {
  CHECK_ERROR("dropout: the rate 1 is not in [0, 1)", nn::Dropout(1));
  CHECK_ERROR("dropout: the rate -0.5 is not in [0, 1)", nn::Dropout(-0.5));
  CHECK_THROWS_AS(nn::Dropout{std::numeric_limits<double>::quiet_NaN()}, Error);
  CHECK_NOTHROW(nn::Dropout(0));
}

TEST_CASE("Training: guards nest, and each ends with its block") {
  CHECK(nn::Training::random() == nullptr);
  Random outer(1), inner(2);
  {
    const nn::Training training(outer);
    CHECK(nn::Training::random() == &outer);
    {
      const nn::Training nested(inner);
      CHECK(nn::Training::random() == &inner);
    }
    CHECK(nn::Training::random() == &outer);
  }
  CHECK(nn::Training::random() == nullptr);
}

}  // namespace
