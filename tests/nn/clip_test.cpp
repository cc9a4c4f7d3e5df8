#include <limits>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/nn/clip.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"

namespace {

using namespace attune;
using test::difference;
using test::identical;

/// Gradients (3, 0, -4) and ((12)), whose norm is 13.
struct Thirteen {
  Var a = variable(zeros({3}, DType::f64)), b = variable(zeros({1, 1}, DType::f64));
  Tensor of_a = Tensor::of({3}, {3., 0., -4.}), of_b = Tensor::of({1, 1}, {12.});
  Gradients gradients = backward(test::weighted(a, of_a) + test::weighted(b, of_b));
};

TEST_CASE("clip_by_global_norm: all gradients are scaled alike, to the norm asked for") {
  Thirteen t;
  CHECK(nn::clip_by_global_norm(t.gradients, 6.5) == doctest::Approx(13).epsilon(1e-15));
  CHECK(difference(t.gradients[t.a], Tensor::of({3}, {1.5, 0., -2.})) < 1e-15);
  CHECK(difference(t.gradients[t.b], Tensor::of({1, 1}, {6.})) < 1e-15);
  CHECK(t.gradients.global_norm() == doctest::Approx(6.5).epsilon(1e-14));
}

TEST_CASE("clip_by_global_norm: gradients within the limit are not touched") {
  Thirteen t;
  const Tensor a = t.gradients[t.a], b = t.gradients[t.b];
  CHECK(nn::clip_by_global_norm(t.gradients, 13.5) == doctest::Approx(13).epsilon(1e-15));
  CHECK(nn::clip_by_global_norm(t.gradients, std::numeric_limits<double>::infinity()) > 12.9);
  CHECK(identical(t.gradients[t.a], t.of_a));
  CHECK(identical(t.gradients[t.b], t.of_b));
  CHECK(t.gradients[t.a].shares_buffer_with(a));
  CHECK(t.gradients[t.b].shares_buffer_with(b));
}

TEST_CASE("clip_by_global_norm: what others hold of the gradients is not changed") {
  Thirteen t;
  const Gradients held = t.gradients;
  nn::clip_by_global_norm(t.gradients, 1);
  CHECK(identical(held[t.a], t.of_a));
  CHECK(identical(held[t.b], t.of_b));
}

TEST_CASE("clip_by_global_norm: a norm that is not finite is an error, and nothing is scaled") {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const Var a = variable(zeros({2}, DType::f64)), b = variable(zeros({1}, DType::f64));
    Gradients gradients = backward(test::weighted(a, Tensor::of({2}, {1., bad})) +
                                   test::weighted(b, Tensor::of({1}, {8.})));
    CHECK_THROWS_WITH_AS(nn::clip_by_global_norm(gradients, 1),
                         fmt::format("clip_by_global_norm: the norm of the gradients is {}: "
                                     "gradient of a variable (2), element (1) is {}",
                                     bad, bad)
                             .c_str(),
                         Error);
    CHECK(gradients[b].item() == 8);
  }
}

TEST_CASE("clip_by_global_norm: f32 gradients whose squares overflow f32 have a norm") {
  const Var a = variable(zeros({2}));
  Gradients gradients = backward(test::weighted(a, Tensor::of({2}, {3e30f, -4e30f})));
  CHECK(nn::clip_by_global_norm(gradients, 5) == doctest::Approx(5e30));
  CHECK(difference(gradients[a], Tensor::of({2}, {3.f, -4.f})) < 1e-6);
}

TEST_CASE("clip_by_global_norm: f64 gradients whose squares overflow have a norm") {
  const Var a = variable(zeros({2}, DType::f64)), b = variable(zeros({1}, DType::f64));
  Gradients gradients = backward(test::weighted(a, Tensor::of({2}, {3e200, 0.})) +
                                 test::weighted(b, Tensor::of({1}, {-4e200})));
  CHECK(nn::clip_by_global_norm(gradients, 5) == doctest::Approx(5e200).epsilon(1e-14));
  CHECK(difference(gradients[a], Tensor::of({2}, {3., 0.})) < 1e-14);
  CHECK(difference(gradients[b], Tensor::of({1}, {-4.})) < 1e-14);
}

TEST_CASE("clip_by_global_norm: a limit that is not positive is an error") {
  Thirteen t;
  CHECK_THROWS_WITH_AS(nn::clip_by_global_norm(t.gradients, 0),
                       "clip_by_global_norm: the largest norm 0 is not positive", Error);
  CHECK_THROWS_AS(nn::clip_by_global_norm(t.gradients, -1), Error);
  CHECK_THROWS_AS(nn::clip_by_global_norm(t.gradients, std::numeric_limits<double>::quiet_NaN()),
                  Error);
}

TEST_CASE("first_not_finite: the first parameter and its first element") {
  const double infinity = std::numeric_limits<double>::infinity();
  nn::Parameters parameters(1, DType::f64);
  const Var a = parameters.add("a", {2}, nn::init::zeros());
  const Var b = parameters.add("b.W", {2, 3}, nn::init::zeros());
  const Var other = variable(zeros({1}, DType::f64));
  const auto found = [&](double in_b, double in_other) {
    Tensor of_b = Tensor::of({2, 3}, {1., 2., 3., 4., in_b, in_b});
    return nn::first_not_finite(parameters,
                                backward(test::weighted(b, of_b) + sum(a) +
                                         test::weighted(other, scalar(in_other, DType::f64))));
  };
  CHECK(found(5, 6) == "");
  CHECK(found(1e300, 6) == "");
  CHECK(found(5, infinity) == "");  // no parameter
  CHECK(found(-infinity, infinity) == "the gradient of 'b.W' (2, 3), element (1, 1) is -inf");
}

}  // namespace
