#include <limits>

#include <doctest/doctest.h>

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/normalize.hpp>
#include <attune/tensor/reduce.hpp>

#include "support/naive.hpp"

namespace attune {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("layer_norm_forward: it is what its definition gives, in f64 and f32") {
  for (const Shape& shape : {Shape{3, 2, 5}, Shape{130, 17}, Shape{2, 1000}, Shape{1, 16}}) {
    const Tensor x = randn(shape, DType::f64), g = randn({shape[-1]}, DType::f64, 2),
                 b = randn({shape[-1]}, DType::f64, 3);
    const Tensor expected = naive::layer_norm(x, g, b, 1e-5);
    CHECK(difference(layer_norm_forward(x, g, b, 1e-5).y, expected) <= 1e-13);
    const Tensor single =
        layer_norm_forward(x.to(DType::f32), g.to(DType::f32), b.to(DType::f32), 1e-5).y;
    CHECK(difference(single.to(DType::f64), expected) <= 1e-5);
  }
}

TEST_CASE("layer_norm_forward: a row gives the same alone and among others") {
  const Tensor x = randn({70, 33}, DType::f64, 4), g = randn({33}, DType::f64, 5),
               b = randn({33}, DType::f64, 6);
  const Tensor y = layer_norm_forward(x, g, b, 1e-5).y;
  for (Index row : {0, 1, 64, 69}) {
    CHECK(identical(layer_norm_forward(x[row], g, b, 1e-5).y, y[row]));
  }
}

TEST_CASE("layer_norm_forward: a row of equal elements gives the bias") {
  const Tensor b = reals({3}, {1, -2, 0.5});
  CHECK(identical(layer_norm_forward(full({3}, 7, DType::f64), randn({3}, DType::f64), b, 1e-5).y,
                  b));
  CHECK(identical(
      layer_norm_forward(reals({2, 1}, {5, -5}), reals({1}, {3}), reals({1}, {4}), 1e-5).y,
      reals({2, 1}, {4, 4})));
}

TEST_CASE("layer_norm: without elements results are empty, gradients of gain and bias zero") {
  for (const Shape& shape : {Shape{0, 3}, Shape{2, 0}}) {
    const Tensor x = zeros(shape), g = ones({shape[-1]}), b = zeros({shape[-1]});
    const LayerNormForward forward = layer_norm_forward(x, g, b, 1e-5);
    CHECK(forward.y.shape() == shape);
    const auto [dx, dgain, dbias] = layer_norm_backward(x, g, forward, forward.y);
    CHECK(dx.shape() == shape);
    CHECK(identical(dgain, zeros({shape[-1]})));
    CHECK(identical(dbias, zeros({shape[-1]})));
  }
}

TEST_CASE("layer_norm_forward: what does not fit is an error with shapes and letters") {
  const Tensor x = zeros({2, 3}), three = zeros({3}), four = zeros({4});
  CHECK_ERROR("layer_norm: gain (N) is (4), but N = 3 in x",
              layer_norm_forward(x, four, three, 1e-5));
  CHECK_ERROR("layer_norm: bias (N) is (4), but N = 3 in x",
              layer_norm_forward(x, three, four, 1e-5));
  CHECK_ERROR("layer_norm: x (..., N) is (), but at least 1 axes were expected",
              layer_norm_forward(scalar(1), three, three, 1e-5));
  CHECK_ERROR("layer_norm: dtypes differ: f32 (2, 3) and f64 (3)",
              layer_norm_forward(x, three, zeros({3}, DType::f64), 1e-5));
}

TEST_CASE("sparsemax: along every axis it is what sorting gives") {
  for (double scale : {0.1, 1.0, 10.0}) {
    const Tensor x = randn({3, 40, 5}, DType::f64, 7) * scale;
    for (int axis : {0, 1, 2}) {
      const Tensor expected = naive::sparsemax(x, axis);
      CHECK(difference(sparsemax(x, axis), expected) <= 1e-15);
      CHECK(difference(sparsemax(x, axis - 3), expected) <= 1e-15);
      CHECK(difference(sparsemax(x.to(DType::f32), axis).to(DType::f64), expected) <= 1e-6 * scale);
    }
  }
}

TEST_CASE("sparsemax: more columns than one block, and longer than one tile") {
  for (const Shape& shape : {Shape{5, 150}, Shape{3, 20000}, Shape{300, 3}}) {
    const Tensor x = randn(shape, DType::f64, 8);
    for (int axis : {0, 1}) {
      const Tensor y = sparsemax(x, axis);
      CHECK(difference(sum(y, {axis}), ones(shape.without(axis), DType::f64)) <= 1e-12);
      const std::vector<double> values = y.to_vector<double>();
      CHECK(std::ranges::all_of(values, [](double v) { return v >= 0; }));
      if (shape[axis] > 100) CHECK(std::ranges::count(values, 0.0) > y.size() / 2);
    }
  }
}

TEST_CASE("sparsemax: a point of the simplex stays, ties share, a far winner takes all") {
  const Tensor point = reals({4}, {0.5, 0.25, 0, 0.25});
  CHECK(difference(sparsemax(point, 0), point) <= 1e-16);
  CHECK(identical(sparsemax(reals({4}, {3, 3, 3, 3}), 0), full({4}, 0.25, DType::f64)));
  CHECK(identical(sparsemax(reals({3}, {2, 1, -5}), 0), reals({3}, {1, 0, 0})));
  CHECK(identical(sparsemax(reals({3}, {1e300, 0, -1e300}), 0), reals({3}, {1, 0, 0})));
  CHECK(identical(sparsemax(reals({2}, {0, -infinity}), 0), reals({2}, {1, 0})));
  CHECK(identical(sparsemax(reals({1}, {-7}), 0), reals({1}, {1})));
  // Far from zero differences count: 1000.25 and 1000 share as 0.25 and 0 do.
  CHECK(identical(sparsemax(reals({2}, {1000.25, 1000}), 0), reals({2}, {0.625, 0.375})));
}

TEST_CASE("sparsemax: masked positions get exactly 0, whatever stands there") {
  const Tensor clean = randn({5, 3}, DType::f64, 9), mask = mask_of(5, {2, 5, 0});
  const Tensor y = sparsemax(clean, 0, mask);
  CHECK(difference(y, naive::sparsemax(clean, 0, mask)) <= 1e-15);
  CHECK(difference(sum(y, {0}), reals({3}, {1, 1, 0})) <= 1e-15);
  const naive::Array used(mask);
  for (double padding : {nan, infinity, -infinity, 1e308}) {
    CAPTURE(padding);
    naive::Array dirty(clean);
    naive::for_each_index(clean.shape(), [&](const naive::At& at) {
      if (used[at] == 0) dirty[at] = padding;
    });
    CHECK(identical(sparsemax(dirty.tensor(), 0, mask), y));
  }
  const Tensor heads = randn({2, 5, 3}, DType::f64, 10);
  CHECK(difference(sparsemax(heads, 1, mask), naive::sparsemax(heads, 1, mask)) <= 1e-15);
}

TEST_CASE("sparsemax: not a number in a column stays in that column") {
  const naive::Array y(sparsemax(reals({3, 2}, {1, nan, 2, 3, 0, 4}), 0));
  for (Index i = 0; i < 3; ++i) {
    CHECK(std::isnan(y[{i, 1}]));
    CHECK_FALSE(std::isnan(y[{i, 0}]));
  }
  CHECK(std::isnan(sparsemax(reals({2}, {3, nan}), 0).to_vector<double>()[0]));
}

TEST_CASE("sparsemax_backward: it takes the mean over the support from the support") {
  const Tensor y = reals({4, 2}, {0.5, 1, 0.5, 0, 0, 0, 0, 0});
  const Tensor dy = reals({4, 2}, {1, 5, 4, 6, 7, 7, 8, 8});
  CHECK(identical(sparsemax_backward(y, dy, 0), reals({4, 2}, {-1.5, 0, 1.5, 0, 0, 0, 0, 0})));
}

TEST_CASE("sparsemax: an empty axis gives an empty result, a wrong one an error") {
  CHECK(sparsemax(zeros({0, 3}), 0).shape() == Shape{0, 3});
  CHECK(sparsemax(zeros({3, 0}), 0).shape() == Shape{3, 0});
  CHECK_ERROR("sparsemax: there is no axis 2 in (5, 3)", sparsemax(zeros({5, 3}), 2));
  CHECK_ERROR("sparsemax: the mask (3, 5) does not broadcast to x (5, 3)",
              sparsemax(zeros({5, 3}), 0, zeros({3, 5})));
}

}  // namespace attune
