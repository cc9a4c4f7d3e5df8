// Sequences of real numbers: scaling.
#include "support/frames.hpp"

#include <cmath>

#include <doctest/doctest.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"
#include "support/naive.hpp"

namespace attune::frames {
namespace {

TEST_CASE("Moments: mean and deviation of all that was added, at any level") {
  const Tensor x = randn({50, 2}, DType::f64) * Tensor::of<double>({2}, {3, 0.5}) +
                   Tensor::of<double>({2}, {1e6, -2});
  Moments moments;
  moments.add(x.slice(0, 20));
  moments.add(x.slice(20, 50).reshape({10, 3, 2}));
  const Scaling scaling = moments.scaling();
  const Tensor y = scaled(x, scaling);
  for (const double mean : mean(y, {0}).to_vector<double>())
    CHECK(std::abs(mean) < 0.02);  // f32 near 1e6
  for (const double square : mean(y * y, {0}).to_vector<double>())
    CHECK(square == doctest::Approx(1).epsilon(1e-3));
  CHECK(test::difference(unscaled(y, scaling), x) < 1e-6);
  CHECK(error_of([&] { moments.add(randn({3}, DType::f64)); }) ==
        "Moments: (3) has not the 2 features of before");
  CHECK(error_of([] { Moments().scaling(); }) == "Moments: there is nothing to scale by");
}

}  // namespace
}  // namespace attune::frames
