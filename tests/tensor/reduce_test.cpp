#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/reduce.hpp>

#include "support/naive.hpp"

namespace attune {

TEST_CASE("sum: adds many f32 numbers without loss") {
  // A single f32 accumulator would not grow beyond 2^24.
  const Tensor total = sum(ones({20000000, 2}), {0});
  CHECK(total.to_vector<float>() == std::vector<float>{20000000.0f, 20000000.0f});
  CHECK(sum(full({1 << 20}, 0.1)).item() == doctest::Approx((1 << 20) * 0.1f).epsilon(1e-7));
}

TEST_CASE("sum: partial sums beyond the largest f32 do not overflow, in any layout") {
  const Tensor x = Tensor::of<float>({4}, {3e38f, 3e38f, -3e38f, -3e38f});
  CHECK(sum(x).item() == 0);
  CHECK(sum(x.reshape({4, 1}), 0).item() == 0);
  CHECK(identical(sum(stack({x, x}, 1), 0), zeros({2})));
  CHECK(identical(sum(stack({x, -x}, 1).reshape({2, 2, 2}), {0, 1}), zeros({2})));
  CHECK(identical(sum(transpose(x.reshape({2, 1, 2, 1}), 1, 2), {0, 2}), zeros({2, 1})));
  CHECK(identical(sum(x.reshape({2, 1, 2}), {0, 2}), zeros({1})));
  CHECK(identical(mean(x.reshape({4, 1}), 0), zeros({1})));
  CHECK(identical(sum_to(x.reshape({4, 1}), {1}), zeros({1})));
  CHECK(std::isinf(sum(x.slice(0, 3).reshape({3, 1}), 0).item()) == false);
  CHECK(sum(stack({x * infinity, x}, 0), 1).at<float>({1}) == 0);
}

TEST_CASE("sum: extents larger than one tile or block of columns") {
  for (const Shape& shape : {Shape{3, 700}, Shape{700, 3}, Shape{2, 300, 270}, Shape{40000},
                             Shape{5, 70, 23}, Shape{130, 129}}) {
    const Tensor x = randn(shape, DType::f64, 2);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      CHECK(difference(sum(x, {axis}), naive::sum(x, {axis})) <= 1e-12);
    }
  }
}

TEST_CASE("sum: 0 for no elements; a missing axis is an error") {
  CHECK(identical(sum(zeros({0}, DType::f64)), scalar(0, DType::f64)));
  CHECK(identical(sum(zeros({3, 0}, DType::f64), {1}), zeros({3}, DType::f64)));
  CHECK(identical(sum(zeros({0, 3}, DType::f64), {0}), zeros({3}, DType::f64)));
  CHECK(sum(zeros({0, 3}), {1}).shape() == Shape{0});
  CHECK_ERROR("sum: there is no axis 2 in (3, 2)", sum(zeros({3, 2}), {2}));
  CHECK_ERROR("sum: axis -2 of (3, 2) is named twice", sum(zeros({3, 2}), {0, -2}));
  CHECK(identical(sum(ints({2}, {1, 2})), ints({}, {3})));
}

TEST_CASE("mean: equals the sum divided by the number of elements") {
  const Tensor x = randn({3, 2, 5}, DType::f64, 3);
  CHECK(difference(mean(x, {0, 2}), sum(x, {0, 2}) / 15.0) <= 1e-15);
  CHECK(difference(mean(x), sum(x) / 30.0) <= 1e-15);
  CHECK(mean(x, {1}, KeepAxes::yes).shape() == Shape{3, 1, 5});
  CHECK_ERROR("mean: the mean over no elements: (3, 0)", mean(zeros({3, 0})));
  CHECK(reduced_size({3, 2, 5}, {0, -1}) == 15);
  CHECK(reduced_size({3, 2, 5}, {}) == 30);
}

TEST_CASE("sum_to: sums over broadcast axes") {
  const Tensor x = randn({3, 2, 5}, DType::f64, 4);
  CHECK(difference(sum_to(x, {2, 1}), naive::sum(x, {0, 2}).reshape({2, 1})) <= 1e-14);
  CHECK(identical(sum_to(x, {3, 2, 5}), x));
  CHECK(identical(sum_to(x.reshape({1, 3, 10}), {3, 10}), x.reshape({3, 10})));
  CHECK(error_of([&] { sum_to(x, {2}); }).starts_with("sum_to: "));
  CHECK_ERROR("sum_to: (4, 3, 2, 5) does not broadcast to (3, 2, 5)", sum_to(x, {4, 3, 2, 5}));
}

TEST_CASE("argmax: index of the largest element, the first of equals; an empty axis is an error") {
  CHECK(identical(argmax(reals({3, 4}, {1, 5, 2, 5, -1, -3, -2, -1, 7, 7, 7, 7})),
                  ints({3}, {1, 0, 0})));
  CHECK(identical(argmax(reals({2, 1, 2}, {1, 2, 4, 3})), ints({2, 1}, {1, 0})));
  CHECK(identical(argmax(reals({3}, {0, 9, 1})), ints({}, {1})));
  const Tensor x = randn({200, 301}, DType::f32, 5);
  const Tensor found = argmax(x);
  const naive::Array values(x), places(found);
  for (Index row = 0; row < 200; ++row) {
    const double best = values[{row, static_cast<Index>(places[{row}])}];
    for (Index i = 0; i < 301; ++i) REQUIRE(values[{row, i}] <= best);
  }
  CHECK_ERROR("argmax: axis -1 of (3, 0) is empty", argmax(zeros({3, 0})));
  CHECK_ERROR("argmin: axis -1 of (3, 0) is empty", argmin(zeros({3, 0})));
  CHECK_THROWS_AS(argmax(scalar(1)), Error);
  CHECK_ERROR("argmax: 4294967295 does not fit in i32", argmax(zeros({0, Index{1} << 32})));
  CHECK(argmax(zeros({0, 3})).shape() == Shape{0});
}

TEST_CASE("sum_of_squares: accumulates in double, over all tiles") {
  CHECK(sum_of_squares(reals({2, 2}, {1, -2, 3, 0.5})) == 14.25);
  CHECK(sum_of_squares(zeros({0})) == 0);
  for (const DType dtype : {DType::f32, DType::f64}) {  // 1 + 4 + 9 + ... = n (n + 1) (2n + 1) / 6
    Tensor n = zeros({37}, dtype);
    for (Index i = 0; i < 37; ++i) {
      Tensor at = n.slice(i, i + 1);
      fill(at, static_cast<double>(i + 1));
    }
    CHECK(sum_of_squares(n) == 37 * 38 * 75 / 6);
  }
  const Tensor x = full({50'003}, 0.1);
  CHECK(sum_of_squares(x) == doctest::Approx(50'003 * double(0.1f) * double(0.1f)).epsilon(1e-12));
  CHECK(sum_of_squares(full({3}, 1e30)) == doctest::Approx(3e60).epsilon(1e-6));
}

TEST_CASE("max_forward: values and indices along every axis, more columns than one block") {
  const Tensor x = randn({7, 3, 150}, DType::f64, 6);
  for (int axis : {0, 1, 2}) {
    const auto [values, places] = max_forward(x, axis);
    CHECK(identical(values, naive::along_axis(x, axis, true, [](const std::vector<double>& v) {
                      return *std::ranges::max_element(v);
                    })));
    CHECK(identical(places, naive::along_axis(x, axis, true, [](const std::vector<double>& v) {
                              return static_cast<double>(std::ranges::max_element(v) - v.begin());
                            }).to(DType::i32)));
    CHECK(identical(max_forward(x, axis - 3).indices, places));
  }
}

TEST_CASE("max_forward: NaN counts as largest") {
  const auto [values, places] = max_forward(reals({2, 4}, {1, nan, 9, nan, nan, 5, 6, 7}), 1);
  CHECK(identical(values, reals({2, 1}, {nan, nan})));
  CHECK(identical(places, ints({2, 1}, {1, 0})));
}

TEST_CASE("norm: along every axis, kept or not, from tiny to huge") {
  const Tensor x = randn({7, 3, 150}, DType::f64, 7);
  for (int axis : {0, 1, 2}) {
    const Tensor expected = sqrt(naive::sum(x * x, {axis}));
    CHECK(difference(norm(x, axis), expected) <= 1e-14);
    CHECK(difference(norm(x, axis - 3, KeepAxes::yes).reshape(expected.shape()), expected) <=
          1e-14);
  }
  CHECK(identical(norm(reals({3, 2}, {3e300, 4e300, 3e-300, 4e-300, 0, 0}), 1),
                  reals({3}, {5e300, 5e-300, 0})));
  CHECK(norm(full({2}, 3e38, DType::f32) * 0.5, 0).item() == doctest::Approx(2.1213203e38));
  CHECK(norm(reals({2}, {-infinity, 1}), 0).item() == infinity);
  CHECK(std::isnan(norm(reals({2}, {nan, 1}), 0).item()));
}

TEST_CASE("first_non_finite: the first element in row-major order, with its index") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = reals({2, 3}, {1, 2, 3, 4, -infinity, nan}).to(dtype);
    CHECK(first_non_finite(x) == "(2, 3), element (1, 1) is -inf");
    CHECK(first_non_finite(x[1].slice(2, 3)) == "(1), element (0) is nan");
    CHECK(first_non_finite(-x[1].slice(2, 3)) == "(1), element (0) is nan");
    CHECK(first_non_finite(x[1].slice(2, 3).reshape({})) == "(), element () is nan");
    CHECK(first_non_finite(x[0]) == "");
    Tensor large = zeros({100'003}, dtype);
    Tensor last = large.slice(100'002, 100'003);
    fill(last, infinity);
    CHECK(first_non_finite(large) == "(100003), element (100002) is inf");
  }
}

TEST_CASE("first_non_finite: empty for large numbers, i32, empty and undefined tensors") {
  CHECK(first_non_finite(full({3}, std::numeric_limits<float>::max())) == "");
  CHECK(first_non_finite(full({3}, std::numeric_limits<double>::max(), DType::f64)) == "");
  CHECK(first_non_finite(zeros({0, 3})) == "");
  CHECK(first_non_finite(ints({2}, {1, 2})) == "");
  CHECK(first_non_finite(Tensor()) == "");
}

}  // namespace attune
