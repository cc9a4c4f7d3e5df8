#include <limits>

#include <doctest/doctest.h>

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/normalize.hpp>

#include "support/naive.hpp"

namespace attune {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("softmax: along every axis it is what its definition gives") {
  const Tensor x = randn({3, 4, 5}, DType::f64) * 3.0;
  for (int axis : {0, 1, 2}) {
    CHECK(difference(softmax(x, axis), naive::softmax(x, axis)) <= 1e-15);
    CHECK(difference(softmax(x, axis - 3), naive::softmax(x, axis)) <= 1e-15);
    CHECK(difference(softmax(x.to(DType::f32), axis), naive::softmax(x.to(DType::f32), axis)) <=
          1e-6);
  }
}

TEST_CASE("softmax: more columns than one block, and longer than one tile") {
  for (const Shape& shape : {Shape{5, 150}, Shape{2, 7, 130}, Shape{3, 20000}, Shape{1000, 3}}) {
    const Tensor x = randn(shape, DType::f64, 2);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const Tensor y = softmax(x, axis);
      CHECK(difference(sum(y, {axis}), ones(shape.without(axis), DType::f64)) <= 1e-13);
      // Ratios are e^(difference), whatever the normalisation.
      const Tensor log_ratio =
          log(y) - x - (log(naive::slice(y, axis, 0, 1)) - naive::slice(x, axis, 0, 1));
      CHECK(difference(log_ratio, zeros(shape, DType::f64)) <= 1e-13);
    }
  }
}

TEST_CASE("softmax: logits of a thousand, and one that is infinitely small") {
  CHECK(difference(softmax(reals({3}, {1000, 1000, -1000}), 0), reals({3}, {0.5, 0.5, 0})) == 0);
  CHECK(difference(softmax(reals({2}, {-1000, -1000}), 0), reals({2}, {0.5, 0.5})) == 0);
  CHECK(difference(softmax(reals({2}, {0, -infinity}), 0), reals({2}, {1, 0})) == 0);
  CHECK(difference(softmax(reals({2, 1}, {0, -infinity}), 0), reals({2, 1}, {1, 0})) == 0);
}

TEST_CASE("softmax: masked positions get exactly 0, and the others what they get alone") {
  const Tensor x = randn({5, 3}, DType::f64, 3), mask = mask_of(5, {2, 5, 1});
  const Tensor y = softmax(x, 0, mask);
  CHECK(difference(y, naive::softmax(x, 0, mask)) <= 1e-15);
  const naive::Array weights(y), used(mask);
  naive::for_each_index(y.shape(), [&](const naive::At& at) {
    if (used[at] == 0) CHECK(weights[at] == 0);
  });
  // The first column's two words, as a batch of their own.
  const naive::Array from(x);
  const Tensor alone = softmax(reals({2}, {from[{0, 0}], from[{1, 0}]}), 0);
  CHECK(std::abs(weights[{1, 0}] - alone.to_vector<double>()[1]) <= 1e-16);
  CHECK(weights[{0, 2}] == 1);
}

TEST_CASE("softmax: where no position takes part all weights are 0") {
  const Tensor y = softmax(randn({4, 3}, DType::f64, 4), 0, mask_of(4, {2, 0, 4}));
  const naive::Array weights(y);
  for (Index s = 0; s < 4; ++s) CHECK(weights[{s, 1}] == 0);
  CHECK(difference(sum(y, {0}), reals({3}, {1, 0, 1})) <= 1e-15);
}

TEST_CASE("softmax: what stands under the mask does not matter, were it not a number") {
  const Tensor mask = mask_of(3, {2, 0, 3});
  const Tensor clean = randn({3, 3}, DType::f64, 5);
  for (double padding : {nan, infinity, -infinity, 1e308}) {
    CAPTURE(padding);
    naive::Array dirty(clean);
    const naive::Array used(mask);
    naive::for_each_index(clean.shape(), [&](const naive::At& at) {
      if (used[at] == 0) dirty[at] = padding;
    });
    CHECK(identical(softmax(dirty.tensor(), 0, mask), softmax(clean, 0, mask)));
  }
}

TEST_CASE("softmax: a mask of the last axes is shared by the leading ones") {
  const Tensor x = randn({2, 5, 3}, DType::f64, 6), mask = mask_of(5, {2, 5, 4});
  CHECK(difference(softmax(x, 1, mask), naive::softmax(x, 1, mask)) <= 1e-15);
  CHECK(difference(softmax(x, 0, mask), naive::softmax(x, 0, mask)) <= 1e-15);
  const Tensor last = reals({3}, {1, 0, 1});
  CHECK(difference(softmax(x, -1, last), naive::softmax(x, 2, last)) <= 1e-15);
}

TEST_CASE("softmax: a mask broadcasts, and may have any dtype") {
  const Tensor x = randn({2, 3, 4}, DType::f64, 7);
  const Tensor row = ints({1, 4}, {1, 0, 1, 1}), column = reals({3, 1}, {1, 1, 0});
  for (const int axis : {0, 1, 2}) {
    CHECK(identical(softmax(x, axis, row.to(DType::f32)), softmax(x, axis, row)));
    for (const Tensor& mask : {row, column}) {
      const Tensor whole = broadcast_to(mask.to(DType::f64), x.shape());
      CHECK(identical(softmax(x, axis, mask), softmax(x, axis, whole)));
    }
  }
}

TEST_CASE(
    "softmax: a mask that does not fit is an error, and so is one that is meant to be added") {
  CHECK_ERROR("softmax: the mask (3, 5) does not broadcast to x (5, 3)",
              softmax(zeros({5, 3}), 0, zeros({3, 5})));
  CHECK_ERROR("softmax: the mask (2, 5, 3) does not broadcast to x (5, 3)",
              softmax(zeros({5, 3}), 0, zeros({2, 5, 3})));
  CHECK_ERROR("softmax: the mask (3) must be 1 (takes part) or 0, but its element 2 is -inf",
              softmax(zeros({5, 3}), 0, reals({3}, {0, 0, -infinity})));
  CHECK_THROWS_AS(softmax(zeros({5, 3}), 2), Error);
}

TEST_CASE("softmax: not a number in a column stays in that column") {
  const naive::Array y(softmax(reals({2, 2}, {1, nan, 2, 3}), 0));
  CHECK(y[{0, 0}] + y[{1, 0}] == doctest::Approx(1));
  CHECK(std::isnan(y[{0, 1}]));
  CHECK(std::isnan(y[{1, 1}]));
  CHECK(std::isnan(softmax(reals({2}, {nan, 3}), 0).to_vector<double>()[1]));
}

TEST_CASE("softmax: an empty axis gives an empty result") {
  CHECK(softmax(zeros({0, 3}), 0).shape() == Shape{0, 3});
  CHECK(softmax(zeros({3, 0}), 0).shape() == Shape{3, 0});
}

TEST_CASE("softmax_backward: it is y ⊙ (dy - Σ dy y)") {
  const Tensor y = softmax(randn({3, 4, 150}, DType::f64, 7), 1),
               dy = randn({3, 4, 150}, DType::f64, 8);
  const Tensor expected = y * (dy - sum(dy * y, {1}, KeepAxes::yes));
  CHECK(difference(softmax_backward(y, dy, 1), expected) <= 1e-14);
}

TEST_CASE("log_softmax: it is the logarithm of softmax, far out too") {
  const Tensor x = randn({3, 4, 5}, DType::f64, 9);
  for (int axis : {0, 1, 2}) {
    CHECK(difference(log_softmax(x, axis), log(naive::softmax(x, axis))) <= 1e-14);
  }
  CHECK(difference(log_softmax(reals({3}, {1000, 0, -1000}), 0), reals({3}, {0, -1000, -2000})) ==
        0);
}

TEST_CASE("cross_entropy_forward: each row's loss is minus the logarithm of its probability") {
  const Tensor logits = randn({19, 530}, DType::f64, 11) * 2.0;
  naive::Array targets(Shape{19});
  for (Index n = 0; n < 19; ++n) targets[{n}] = static_cast<double>(n * 29 % 530);
  const CrossEntropy result = cross_entropy_forward(logits, targets.tensor(DType::i32));
  const naive::Array p(naive::softmax(logits, 1)), x(logits);
  const naive::Array loss(result.loss), norm(result.log_sum_exp);
  for (Index n = 0; n < 19; ++n) {
    const auto target = static_cast<Index>(targets[{n}]);
    CHECK(loss[{n}] == doctest::Approx(-std::log(p[{n, target}])).epsilon(1e-13));
    CHECK(norm[{n}] == doctest::Approx(x[{n, 0}] - std::log(p[{n, 0}])).epsilon(1e-13));
  }
}

TEST_CASE("cross_entropy_forward: smoothed, it is what the definition gives") {
  const Tensor logits = randn({5, 530}, DType::f64, 11) * 2.0,
               targets = ints({5}, {0, 529, 17, 2, 300});
  const Tensor weights = reals({5}, {1, 0, 1, 0.5, 1});
  const naive::Array p(naive::softmax(logits, 1)), target(targets), weight(weights);
  const naive::Array loss(cross_entropy_forward(logits, targets, weights, 0.3).loss);
  for (Index n = 0; n < 5; ++n) {
    double expected = 0;
    for (Index v = 0; v < 530; ++v) {
      const double q = 0.3 / 530 + (static_cast<double>(v) == target[{n}] ? 0.7 : 0);
      expected -= weight[{n}] * q * std::log(p[{n, v}]);
    }
    CHECK(loss[{n}] == doctest::Approx(expected).epsilon(1e-13));
  }
}

TEST_CASE("cross_entropy_backward: it is the scaled difference of softmax and target") {
  const Tensor logits = randn({4, 37}, DType::f64, 12), targets = ints({4}, {5, 0, 2, 36});
  const Tensor mask = reals({4}, {1, 0, 1, 1});
  const CrossEntropy forward = cross_entropy_forward(logits, targets, mask);
  const naive::Array target(targets), used(mask);
  for (double smoothing : {0.0, 0.3}) {
    naive::Array expected(naive::softmax(logits, 1));
    naive::for_each_index(logits.shape(), [&](const naive::At& at) {
      if (static_cast<double>(at[1]) == target[{at[0]}]) expected[at] -= 1 - smoothing;
      expected[at] = 0.5 * used[{at[0]}] * (expected[at] - smoothing / 37);
    });
    CHECK(difference(
              cross_entropy_backward(logits, targets, mask, forward.log_sum_exp, 0.5, smoothing),
              expected.tensor()) <= 1e-14);
  }
}

TEST_CASE("cross_entropy_forward: masked rows have loss 0, and their logits do not matter") {
  const CrossEntropy result = cross_entropy_forward(reals({2, 3}, {nan, nan, infinity, 0, 0, 0}),
                                                    ints({2}, {1, 2}), reals({2}, {0, 1}));
  CHECK(difference(result.loss, reals({2}, {0, std::log(3)})) <= 1e-15);
}

TEST_CASE("cross_entropy_forward: a target out of range is an error that says where") {
  CHECK_ERROR("cross_entropy: target 5 at 1 is not in 0 to 4",
              cross_entropy_forward(zeros({2, 5}), ints({2}, {4, 5})));
  CHECK_ERROR("cross_entropy: targets (N) is (3), but N = 2 in logits",
              cross_entropy_forward(zeros({2, 5}), ints({3}, {0, 0, 0})));
  CHECK_THROWS_AS(cross_entropy_forward(zeros({2, 5}), zeros({2})), Error);
}

TEST_CASE("log_sum_exp: along every axis, kept or not, far out too") {
  const Tensor x = randn({3, 4, 150}, DType::f64, 13);
  for (int axis : {0, 1, 2}) {
    const Tensor expected = log(naive::sum(exp(x), {axis}));
    CHECK(difference(log_sum_exp(x, axis), expected) <= 1e-14);
    CHECK(difference(log_sum_exp(x, axis - 3, KeepAxes::yes).reshape(expected.shape()), expected) <=
          1e-14);
  }
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

TEST_CASE("softmax: an axis that is not there is an error of the operation asked for") {
  CHECK_ERROR("softmax: there is no axis 2 in (5, 3)", softmax(zeros({5, 3}), 2));
  CHECK_ERROR("log_softmax: there is no axis -3 in (5, 3)", log_softmax(zeros({5, 3}), -3));
}

}  // namespace attune
