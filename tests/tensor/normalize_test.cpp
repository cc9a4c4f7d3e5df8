
#include <doctest/doctest.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/kernels/normalize.hpp>
#include <attune/tensor/reduce.hpp>

#include "support/capture.hpp"
#include "support/naive.hpp"

namespace attune {
/// Softmax and sparsemax with their definitions.
struct Kind {
  const char* name;
  Tensor (*f)(const Tensor& x, Integer axis, const Mask& mask);
  Tensor (*definition)(const Tensor& x, int axis, const Mask& mask);
};
const Kind kinds[] = {{"softmax", softmax, naive::softmax},
                      {"sparsemax", sparsemax, naive::sparsemax}};

TEST_CASE("softmax, sparsemax: masked positions get exactly 0, whatever their values") {
  const Tensor clean = randn({5, 3}, DType::f64, 9), mask = mask_of(5, {2, 5, 0});
  const naive::Array used(mask);
  for (const auto& [name, f, definition] : kinds) {
    CAPTURE_BINDING(name);
    const Tensor y = f(clean, 0, mask);
    CHECK(difference(y, definition(clean, 0, mask)) <= 1e-15);
    CHECK(difference(sum(y, {0}), reals({3}, {1, 1, 0})) <= 1e-15);
    CHECK(identical(y * mask, y));
    for (double padding : {nan, infinity, -infinity, 1e308}) {
      CAPTURE(padding);
      naive::Array dirty(clean);
      naive::for_each_index(clean.shape(), [&](const naive::At& at) {
        if (used[at] == 0) dirty[at] = padding;
      });
      CHECK(identical(f(dirty.tensor(), 0, mask), y));
    }
    // The two tokens of the first column, as a batch of their own.
    const Tensor alone = f(slice(slice(clean, 0, 0, 2), 1, 0, 1), 0, {});
    CHECK(difference(slice(slice(y, 0, 0, 2), 1, 0, 1), alone) <= 1e-15);
  }
}

TEST_CASE("softmax, sparsemax: a mask of the last axes broadcasts over the leading ones") {
  const Tensor x = randn({2, 5, 3}, DType::f64, 6), mask = mask_of(5, {2, 5, 4}),
               last = reals({3}, {1, 0, 1});
  for (const auto& [name, f, definition] : kinds) {
    CAPTURE_BINDING(name);
    for (int axis : {0, 1}) {
      CHECK(difference(f(x, axis, mask), definition(x, axis, mask)) <= 1e-15);
    }
    CHECK(difference(f(x, -1, last), definition(x, 2, last)) <= 1e-15);
    // One element along trailing axes of extent 1, after the axis of the sum.
    const Tensor rows = x.reshape({2, 15, 1});
    CHECK(difference(f(rows, 1, last.slice(0, 1)), f(rows, 1, {})) <= 1e-15);
    CHECK(identical(f(rows, 1, last.slice(1, 2)), zeros(rows.shape(), DType::f64)));
  }
}

TEST_CASE("softmax, sparsemax: a NaN affects only its own column") {
  for (const auto& [name, f, definition] : kinds) {
    CAPTURE_BINDING(name);
    const naive::Array y(f(reals({3, 2}, {1, nan, 2, 3, 0, 4}), 0, {}));
    CHECK(y[{0, 0}] + y[{1, 0}] + y[{2, 0}] == doctest::Approx(1));
    for (Index i = 0; i < 3; ++i) CHECK(std::isnan(y[{i, 1}]));
    CHECK(f(reals({3, 1}, {1, nan, 2}), 0, reals({3, 1}, {1, 1, 0})).at<double>({2, 0}) == 0);
    for (const Tensor& x : {reals({2}, {nan, 3}), reals({2}, {3, nan})}) {
      for (double v : f(x, 0, {}).to_vector<double>()) CHECK(std::isnan(v));
    }
  }
}

TEST_CASE(
    "softmax, sparsemax: an empty axis gives an empty result; mismatched shapes are an error") {
  for (const Kind& kind : kinds) {
    const std::string begin = std::string(kind.name) + ": ";
    const auto f = kind.f;
    CHECK(f(zeros({0, 3}), 0, {}).shape() == Shape{0, 3});
    CHECK(f(zeros({3, 0}), 0, {}).shape() == Shape{3, 0});
    const Tensor x = zeros({5, 3});
    CHECK_ERROR(begin + "there is no axis 2 in (5, 3)", f(x, 2, {}));
    CHECK_ERROR(begin + "the mask (3, 5) does not broadcast to x (5, 3)", f(x, 0, zeros({3, 5})));
    CHECK_ERROR(begin + "the mask (2, 5, 3) does not broadcast to x (5, 3)",
                f(x, 0, zeros({2, 5, 3})));
    CHECK_ERROR("mask: (3) must be 1 (takes part) or 0, but element (2) is -inf",
                f(x, 0, reals({3}, {0, 0, -infinity})));
  }
  CHECK_ERROR("log_softmax: there is no axis -3 in (5, 3)", log_softmax(zeros({5, 3}), -3));
}

TEST_CASE("softmax, sparsemax: more columns than one block, more elements than one tile") {
  for (const auto& [name, f, definition] : kinds) {
    CAPTURE_BINDING(name);
    for (const Shape& shape : {Shape{5, 150}, Shape{3, 20000}, Shape{1000, 3}}) {
      const Tensor x = randn(shape, DType::f64, 8);
      for (const int axis : {0, 1}) {
        const Tensor y = f(x, axis, {});
        CHECK(difference(sum(y, {axis}), ones(shape.without(axis), DType::f64)) <= 1e-12);
        const std::vector<double> values = y.to_vector<double>();
        CHECK(std::ranges::all_of(values, [](double v) { return v >= 0; }));
        if (definition == naive::sparsemax && shape[axis] > 100)
          CHECK(std::ranges::count(values, 0.0) > y.size() / 2);
      }
    }
  }
}

TEST_CASE("softmax: logits of 1000 and of -∞") {
  CHECK(difference(softmax(reals({3}, {1000, 1000, -1000}), 0), reals({3}, {0.5, 0.5, 0})) == 0);
  CHECK(difference(softmax(reals({2}, {-1000, -1000}), 0), reals({2}, {0.5, 0.5})) == 0);
  CHECK(difference(softmax(reals({2}, {0, -infinity}), 0), reals({2}, {1, 0})) == 0);
  CHECK(difference(softmax(reals({2, 1}, {0, -infinity}), 0), reals({2, 1}, {1, 0})) == 0);
}

TEST_CASE("softmax: a mask broadcasts and may have any dtype") {
  const Tensor x = randn({2, 3, 4}, DType::f64, 7);
  const Tensor row = ints({1, 4}, {1, 0, 1, 1}), column = reals({3, 1}, {1, 1, 0});
  for (const int axis : {0, 1, 2}) {
    CHECK(identical(softmax(x, axis, row.to(DType::f32)), softmax(x, axis, row)));
    for (const Tensor& mask : {row, column, ints({}, {1})}) {
      const Tensor whole = broadcast_to(mask.to(DType::f64), x.shape());
      CHECK(identical(softmax(x, axis, mask), softmax(x, axis, whole)));
    }
  }
}

TEST_CASE("cross_entropy_forward: a masked row has loss 0; a target out of range is an error") {
  const CrossEntropy result = cross_entropy_forward(reals({2, 3}, {nan, nan, infinity, 0, 0, 0}),
                                                    ints({2}, {1, 2}), reals({2}, {0, 1}));
  CHECK(difference(result.loss, reals({2}, {0, std::log(3)})) <= 1e-15);
  CHECK_ERROR("cross_entropy: target 5 at 1 is not in 0 to 4",
              cross_entropy_forward(zeros({2, 5}), ints({2}, {4, 5})));
  CHECK_ERROR("cross_entropy: targets (N) is (3), but N = 2 in logits",
              cross_entropy_forward(zeros({2, 5}), ints({3}, {0, 0, 0})));
  CHECK_THROWS_AS(cross_entropy_forward(zeros({2, 5}), zeros({2})), Error);
}

TEST_CASE("cross_entropy_forward: a column without a share of the smoothing may be -∞") {
  const std::vector<std::int32_t> column{1};
  const auto loss_of = [&](const Tensor& x) {
    return cross_entropy_forward(x, ints({1}, {0}), {}, {.epsilon = 0.5, .unsmoothed = column})
        .loss.item();
  };
  CHECK(std::abs(loss_of(reals({1, 3}, {0, -infinity, 0})) - std::log(2)) <= 1e-15);
  CHECK(loss_of(reals({1, 3}, {0, 0, -infinity})) == infinity);
  const std::vector<std::int32_t> twice{1, 1};
  CHECK_ERROR("cross_entropy: column 1 without smoothing is repeated",
              cross_entropy_forward(zeros({1, 4}), ints({1}, {0}), {},
                                    {.epsilon = 0.5, .unsmoothed = twice}));
  const std::vector<std::int32_t> both{0, 1};
  CHECK_ERROR("cross_entropy: all 2 columns are without smoothing",
              cross_entropy_forward(zeros({1, 2}), ints({1}, {0}), {},
                                    {.epsilon = 0.5, .unsmoothed = both}));
  const CrossEntropy plain = cross_entropy_forward(zeros({1, 2}), ints({1}, {0}), {}, {});
  CHECK(identical(cross_entropy_backward(zeros({1, 2}), ints({1}, {0}), {}, plain.norms, 1,
                                         {.epsilon = 0, .unsmoothed = both}),
                  Tensor::of<float>({1, 2}, {-0.5, 0.5})));
}

TEST_CASE("log_sum_exp: large, infinite and NaN elements at any position") {
  CHECK(log_sum_exp(reals({2}, {1000, 1000}), 0).item() == 1000 + std::log(2));
  CHECK(log_sum_exp(reals({2}, {-1000, -1000}), 0).item() == -1000 + std::log(2));
  CHECK(log_sum_exp(reals({2}, {-infinity, -infinity}), 0).item() == -infinity);
  CHECK(log_sum_exp(reals({2}, {-infinity, infinity}), 0).item() == infinity);
  CHECK(std::isnan(log_sum_exp(reals({2}, {-infinity, nan}), 0).item()));
  CHECK(std::isnan(log_sum_exp(reals({2}, {1, nan}), 0).item()));
  for (Index at : {0, 40, 99}) {
    Tensor x = zeros({100}, DType::f64);
    x.mutable_data<double>()[at] = infinity;
    CHECK(log_sum_exp(x, 0).item() == infinity);
    for (Index other : {1, 41, 98}) {
      Tensor y = x.clone();
      y.mutable_data<double>()[other] = nan;
      CHECK(std::isnan(log_sum_exp(y, 0).item()));
    }
  }
  CHECK(identical(log_sum_exp(zeros({2, 0}, DType::f64), 1), full({2}, -infinity, DType::f64)));
}

TEST_CASE("layer_norm_forward: a row gives the same bits alone; equal elements give the bias") {
  const Tensor x = randn({70, 33}, DType::f64, 4), g = randn({33}, DType::f64, 5),
               b = randn({33}, DType::f64, 6);
  const Tensor y = layer_norm_forward(x, g, b, 1e-5).y;
  for (Index row : {0, 1, 64, 69}) {
    CHECK(identical(layer_norm_forward(x[row], g, b, 1e-5).y, y[row]));
  }
  const Tensor shift = reals({3}, {1, -2, 0.5});
  CHECK(identical(
      layer_norm_forward(full({3}, 7, DType::f64), randn({3}, DType::f64), shift, 1e-5).y, shift));
  CHECK(identical(
      layer_norm_forward(reals({2, 1}, {5, -5}), reals({1}, {3}), reals({1}, {4}), 1e-5).y,
      reals({2, 1}, {4, 4})));
}

TEST_CASE("layer_norm: without elements results are empty, and gradients of gain and bias are 0") {
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

TEST_CASE("layer_norm_forward: shape errors name shapes and letters") {
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

TEST_CASE("sparsemax: a point of the simplex is unchanged, ties share, a far maximum gets 1") {
  const Tensor point = reals({4}, {0.5, 0.25, 0, 0.25});
  CHECK(difference(sparsemax(point, 0), point) <= 1e-16);
  CHECK(identical(sparsemax(reals({4}, {3, 3, 3, 3}), 0), full({4}, 0.25, DType::f64)));
  CHECK(identical(sparsemax(reals({3}, {2, 1, -5}), 0), reals({3}, {1, 0, 0})));
  CHECK(identical(sparsemax(reals({3}, {1e300, 0, -1e300}), 0), reals({3}, {1, 0, 0})));
  CHECK(identical(sparsemax(reals({2}, {0, -infinity}), 0), reals({2}, {1, 0})));
  CHECK(identical(sparsemax(reals({1}, {-7}), 0), reals({1}, {1})));
  // Only differences matter: 1000.25 and 1000 give the same as 0.25 and 0.
  CHECK(identical(sparsemax(reals({2}, {1000.25, 1000}), 0), reals({2}, {0.625, 0.375})));
}

TEST_CASE("layer_norm: the mean and the variance of a long row are as exact as sum") {
  const Index n = 3000001;
  Random random(1);
  const Tensor x = uniform({1, n}, random), one = ones({n}), zero = zeros({n});
  const Tensor y = layer_norm_forward(x, one, zero, 0).y;
  const Tensor right =
      layer_norm_forward(x.to(DType::f64), one.to(DType::f64), zero.to(DType::f64), 0).y;
  CHECK(difference(y.to(DType::f64), right) <= 5e-7);
}

}  // namespace attune
