#include <cmath>

#include <doctest/doctest.h>

#include <attune/tensor/elementwise.hpp>

#include "support/naive.hpp"

namespace attune {
namespace {

/// A non-commutative function with a different value for each pair.
double mixed(double a, double b) { return a + 1000 * b; }

}  // namespace

TEST_CASE("Elementwise: every kind of broadcasting agrees with index arithmetic") {
  const std::pair<Shape, Shape> pairs[] = {{{3, 2, 5}, {3, 2, 5}},
                                           {{3, 2, 5}, {5}},
                                           {{3, 2, 5}, {2, 1}},
                                           {{3, 2, 5}, {3, 1, 1}},
                                           {{3, 1, 5}, {1, 2, 1}},
                                           {{3, 1, 5}, {2, 1}},
                                           {{}, {3, 2}},
                                           {{}, {}},
                                           {{1}, {1, 1, 1}},
                                           {{1, 1}, {4}},
                                           {{4, 1}, {1, 7}},
                                           {{2, 1, 3, 1}, {1, 4, 1, 5}},
                                           {{2, 3, 1, 1}, {4, 5}},
                                           {{1, 3, 1}, {2, 3, 4}},
                                           {{2, 1, 3, 1, 2, 3}, {3, 1, 1, 3}},
                                           {{3, 0, 2}, {2}},
                                           {{3, 0}, {3, 1}},
                                           {{0}, {1}},
                                           {{0, 1}, {1, 4}}};
  for (const auto& pair : pairs) {
    const auto& [a, b] = pair;
    CAPTURE(to_string(pair.first));
    CAPTURE(to_string(pair.second));
    for (DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = randn(a, dtype), y = randn(b, dtype, 2);
      const auto f = [](auto p, auto q) { return p + 1000 * q; };
      const double tolerance = dtype == DType::f32 ? 1e-6 : 1e-15;
      CHECK(difference(zip("mixed", x, y, f), naive::zip(x, y, mixed)) <= tolerance);
      CHECK(difference(zip("mixed", y, x, f), naive::zip(y, x, mixed)) <= tolerance);
    }
  }
}

TEST_CASE("Elementwise: more elements than one tile, with and without broadcasting") {
  const std::pair<Shape, Shape> pairs[] = {
      {{3, 16400}, {3, 16400}},     {{5, 10001}, {10001}},
      {{20000, 3}, {20000, 1}},     {{40000}, {1}},
      {{170, 1, 11}, {13, 1}},      {{16384}, {16384}},
      {{70, 16, 4}, {70, 1, 4}},    {{37, 16, 1}, {16, 4}},
      {{1, 1031, 2}, {3, 1031, 1}}, {{3, 1, 41, 1, 5}, {7, 1, 2, 1}}};
  for (const auto& pair : pairs) {
    const auto& [a, b] = pair;
    CAPTURE(to_string(pair.first));
    const Tensor x = randn(a, DType::f64), y = randn(b, DType::f64, 2);
    const Tensor both = naive::zip(x, y, [](double p, double q) { return p - q; });
    CHECK(difference(x - y, both) == 0);
    CHECK(difference(broadcast_to(x, both.shape()), both + y) <= 1e-15);
  }
}

TEST_CASE("Elementwise: infinities and NaN follow IEEE arithmetic") {
  const Tensor x = reals({5}, {infinity, -infinity, nan, 0, -0.0});
  CHECK(identical(x + x, reals({5}, {infinity, -infinity, nan, 0, -0.0})));
  CHECK(identical(x - x, reals({5}, {nan, nan, nan, 0, 0})));
  CHECK(identical(x * 0.0, reals({5}, {nan, nan, nan, 0, -0.0})));
  CHECK(identical(1.0 / x, reals({5}, {0, -0.0, nan, infinity, -infinity})));
}

TEST_CASE("Elementwise: functions at infinities and at zero") {
  const Tensor x = reals({4}, {infinity, -infinity, nan, 0});
  CHECK(identical(exp(x), reals({4}, {infinity, 0, nan, 1})));
  CHECK(identical(tanh(x), reals({4}, {1, -1, nan, 0})));
  CHECK(identical(sigmoid(x), reals({4}, {1, 0, nan, 0.5})));
  CHECK(identical(log(x), reals({4}, {infinity, nan, nan, -infinity})));
  CHECK(identical(sqrt(x), reals({4}, {infinity, nan, nan, 0})));
  CHECK(difference(softplus(reals({4}, {infinity, -infinity, 0, 800})),
                   reals({4}, {infinity, 0, std::log(2), 800})) <= 1e-15);
  CHECK(std::isnan(softplus(scalar(nan, DType::f64)).item()));
}

TEST_CASE("Elementwise: maximum and minimum propagate NaN; abs and power at special values") {
  CHECK(identical(maximum(reals({2}, {nan, 1}), reals({2}, {1, nan})), reals({2}, {nan, nan})));
  CHECK(identical(abs(reals({3}, {-2, -0.0, nan})), reals({3}, {2, 0, nan})));
  CHECK(identical(power(reals({4}, {-2, 0, 4, nan}), 2), reals({4}, {4, 0, 16, nan})));
  CHECK(identical(power(reals({3}, {-2, 0, 4}), 0.5), reals({3}, {nan, 0, 2})));
  CHECK(identical(minimum(reals({3}, {1, nan, 3}), reals({3}, {2, 2, nan})),
                  reals({3}, {1, nan, nan})));
}

TEST_CASE("comparisons: 1 where true, 0 where false, in the operands' dtype") {
  const Tensor a = reals({4}, {1, 2, 3, nan}), b = reals({4}, {2, 2, 2, nan});
  CHECK(identical(equal(a, b), reals({4}, {0, 1, 0, 0})));
  CHECK(identical(less(a, b), reals({4}, {1, 0, 0, 0})));
  CHECK(identical(less_equal(a, b), reals({4}, {1, 1, 0, 0})));
  CHECK(identical(greater(a, b), reals({4}, {0, 0, 1, 0})));
  CHECK(identical(greater_equal(a, b), reals({4}, {0, 1, 1, 0})));
  CHECK(identical(equal(a, 2), reals({4}, {0, 1, 0, 0})));
  CHECK(identical(less(a, 2), reals({4}, {1, 0, 0, 0})));
  CHECK(identical(less_equal(a, 2), reals({4}, {1, 1, 0, 0})));
  CHECK(identical(greater(a, 2), reals({4}, {0, 0, 1, 0})));
  CHECK(identical(greater_equal(a, 2), reals({4}, {0, 1, 1, 0})));
  CHECK(identical(2 < a, greater(a, 2)));
  CHECK(identical(2 <= a, greater_equal(a, 2)));
  CHECK(identical(2 == a, equal(a, 2)));
  CHECK(identical(0.5 > ints({3}, {0, 1, -1}), ints({3}, {1, 0, 1})));
}

TEST_CASE("comparisons: i32 is compared exactly; operands broadcast") {
  const Tensor n = ints({3}, {16777216, 16777217, -2147483647});
  CHECK(identical(equal(n, 16777217), ints({3}, {0, 1, 0})));
  CHECK(identical(less(n, 0.5), ints({3}, {0, 0, 1})));
  CHECK(identical(greater_equal(arange(3).reshape({3, 1}), arange(2)),
                  ints({3, 2}, {1, 0, 1, 1, 1, 1})));
  CHECK_ERROR("less: dtypes differ: f32 (2) and i32 (2)", less(zeros({2}), ints({2}, {1, 2})));
}

TEST_CASE("where: accepts numbers as operands and masks of any dtype") {
  const Tensor x = reals({3}, {1, 2, 3});
  CHECK(identical(where(ints({3}, {1, 0, 1}), x, -infinity), reals({3}, {1, -infinity, 3})));
  CHECK_ERROR("mask: (3) must be 1 (takes part) or 0, but element (1) is 2", where(x, x, 0));
}

TEST_CASE("Elementwise: inputs are not modified") {
  const Tensor a = randn({3, 2}, DType::f64), b = randn({2}, DType::f64, 2);
  const Tensor before = a.clone();
  (void)(exp(a) + a * b - maximum(a, b) / 2.0);
  CHECK(identical(a, before));
}

TEST_CASE("Elementwise: errors name dtypes that differ and shapes that do not broadcast") {
  CHECK_ERROR("multiply: dtypes differ: f32 (3, 2) and f64 (2)",
              zeros({3, 2}) * zeros({2}, DType::f64));
  CHECK_ERROR("subtract: shapes (3, 2) and (3) do not broadcast", zeros({3, 2}) - zeros({3}));
  CHECK_ERROR("multiply: 0.5 does not fit in i32, at element (0)", ints({2}, {1, 2}) * 0.5);
  CHECK_ERROR("exp: f32 or f64 was expected: i32 (2)", exp(ints({2}, {1, 2})));
  CHECK_ERROR("maximum: dtypes differ: f32 (2) and undefined", maximum(zeros({2}), Tensor()));
}

TEST_CASE("add_in_place, scale_in_place: change the tensor itself, each element once") {
  Tensor a = reals({2}, {1, 2});
  const Tensor same = a;
  add_in_place(a, reals({2}, {10, 20}));
  scale_in_place(a, 2);
  CHECK(identical(same, reals({2}, {22, 44})));
  add_in_place(a, a);
  CHECK(identical(same, reals({2}, {44, 88})));
  CHECK_ERROR("add_in_place: shapes do not fit: (2) += (1)", add_in_place(a, reals({1}, {1})));
  CHECK_ERROR("add_in_place: dtypes differ: f64 (2) and f32 (2)", add_in_place(a, zeros({2})));
  for (const DType dtype : {DType::f32, DType::f64}) {
    Tensor a = full({40'037}, 3, dtype);
    scale_in_place(a, 0.5);
    CHECK(identical(a, full({40'037}, 1.5, dtype)));
  }
}

TEST_CASE("map: applies a user's function, in f32 and f64") {
  const auto cube = [](auto v) { return v * v * v; };
  CHECK(identical(map(reals({3}, {1, 2, -3}), cube), reals({3}, {1, 8, -27})));
  CHECK(map(zeros({2, 0}), cube).shape() == Shape{2, 0});
  CHECK(map(ones({2}), cube).dtype() == DType::f32);
}

TEST_CASE("broadcast_to: repeats along missing axes and axes of extent 1") {
  const Tensor x = randn({3, 1, 5}, DType::f64);
  const Tensor zero = zeros({2, 3, 4, 5}, DType::f64);
  CHECK(identical(broadcast_to(x, {2, 3, 4, 5}), naive::zip(x, zero, std::plus<double>())));
  CHECK(identical(broadcast_to(scalar(3), {2, 2}), full({2, 2}, 3)));
  CHECK(broadcast_to(x, x.shape()).shares_buffer_with(x));
  CHECK(broadcast_to(ones({1, 3}), {0, 3}).shape() == Shape{0, 3});
  CHECK(broadcast_to(ones({3, 1}), {3, 0}).shape() == Shape{3, 0});
  CHECK_ERROR("broadcast_to: (3, 1, 5) does not broadcast to (3, 5)", broadcast_to(x, {3, 5}));
  CHECK_ERROR("broadcast_to: shapes (3, 1, 5) and (3, 2, 4) do not broadcast",
              broadcast_to(x, {3, 2, 4}));
  CHECK_ERROR("broadcast_to: (2, 3) does not broadcast to (1, 3)",
              broadcast_to(ones({2, 3}), {1, 3}));
}

TEST_CASE("where: broadcasts all three operands, over more than one tile") {
  const Tensor mask = reals({2, 1}, {1, 0}), a = reals({3}, {1, 2, 3}), b = scalar(9, DType::f64);
  CHECK(identical(where(mask, a, b), reals({2, 3}, {1, 2, 3, 9, 9, 9})));
  const Tensor large = where(mask, ones({2, 30'000}, DType::f64), scalar(-1, DType::f64));
  CHECK(identical(large[0], ones({30'000}, DType::f64)));
  CHECK(identical(large[1], full({30'000}, -1, DType::f64)));
  CHECK(where(zeros({0, 1}), ones({3}), ones({3})).shape() == Shape{0, 3});
}

}  // namespace attune
