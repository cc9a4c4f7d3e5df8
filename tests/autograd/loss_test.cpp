#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/reference.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/kernels/normalize.hpp>

#include "support/same_function.hpp"

namespace attune {
namespace {

const Tensor targets = ints({3, 2}, {4, 0, 2, 2, 1, 3});
const Tensor mask = reals({3, 2}, {1, 1, 1, 0, 1, 0});
}  // namespace

TEST_CASE("cross_entropy: fractional masks are weights, in the loss and its gradient") {
  const Tensor x = randn({3, 4}, DType::f64);
  const Tensor targets = Tensor::of<std::int32_t>({3}, {1, 0, 3});
  const Tensor weights = Tensor::of<double>({3}, {0.5, 0, 0.25});
  const Tensor each = -log_softmax(x, 1);
  const double* loss = each.data<double>();
  const double expected = (0.5 * loss[1] + 0.25 * loss[8 + 3]) / 0.75;
  CHECK(cross_entropy(x, targets, weights).item() == doctest::Approx(expected).epsilon(1e-14));
  CHECK(gradcheck([&](const Var& v) { return cross_entropy(v, targets, weights); }, x));
}

TEST_CASE("cross_entropy: logits at masked positions have no effect") {
  const Var logits = variable(reals({2, 3}, {1, 2, 3, nan, nan, nan}));
  const Var mean = cross_entropy(logits, ints({2}, {0, 0}), reals({2}, {1, 0}), {.smoothing = 0.5});
  const double norm = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0));
  CHECK(mean.item() == doctest::Approx(norm - 0.5 * 1 - 0.5 * 2).epsilon(1e-14));
  const Tensor gradient = backward(mean)[logits];
  CHECK(identical(gradient.slice(1, 2), zeros({1, 3}, DType::f64)));
  CHECK(std::isfinite(gradient.to_vector<double>()[0]));
}

TEST_CASE("cross_entropy: errors name what is wrong") {
  const Var logits = variable(zeros({3, 2, 5}, DType::f64));
  CHECK_ERROR("cross_entropy: shapes do not fit: logits (3, 2, 5), targets i32 (3), mask undefined",
              cross_entropy(logits, ints({3}, {0, 0, 0})));
  CHECK_ERROR("cross_entropy: target 5 at 3 is not in 0 to 4",
              cross_entropy(logits, ints({3, 2}, {0, 0, 0, 5, 0, 0})));
  CHECK_ERROR("cross_entropy: target -1 at 4 is not in 0 to 4",
              cross_entropy(logits, ints({3, 2}, {0, 0, 0, 0, -1, 0}), mask));
  CHECK_ERROR("cross_entropy: there is no position with mask 1",
              cross_entropy(logits, targets, zeros({3, 2}, DType::f64)));
  CHECK_ERROR("cross_entropy: the mask must be 1 (takes part) or 0, but has -1000000000",
              cross_entropy(logits, targets, full({3, 2}, -1e9)));
  for (const auto& [smoothing, text] : {std::pair(1.0, "1"), {-0.5, "-0.5"}, {NAN, "nan"}}) {
    const CrossEntropyOptions options{.smoothing = smoothing};
    CHECK_ERROR(fmt::format("cross_entropy: the smoothing {} is not in [0, 1)", text),
                cross_entropy(logits, targets, mask, options));
  }
}

TEST_CASE("cross_entropy: a token with probability 0 in the target may have the logit -inf") {
  const Var logits = variable(Tensor::of<double>({1, 3}, {1, 1, -INFINITY}));
  const Var loss = cross_entropy(logits, Tensor::of<double>({1, 3}, {0.5, 0.5, 0}));
  CHECK(loss.item() == doctest::Approx(std::log(2)));
  CHECK(backward(loss)[logits].to_vector<double>() == std::vector<double>{0, 0, 0});
}

TEST_CASE("mse_loss, binary_cross_entropy_with_logits: other shapes are errors, not broadcast") {
  CHECK_ERROR("mse_loss: (3, 1) and the target (3) differ", mse_loss(zeros({3, 1}), zeros({3})));
  CHECK_ERROR("binary_cross_entropy_with_logits: (3, 1) and the target (3) differ",
              binary_cross_entropy_with_logits(zeros({3, 1}), zeros({3})));
}

TEST_CASE("binary_cross_entropy_with_logits: a small loss is precise in f32") {
  for (const float t : {0.0f, 1.0f}) {
    const Tensor x = full({1}, t == 1 ? 17 : -17), target = full({1}, t);
    CHECK(binary_cross_entropy_with_logits(x, target).item() ==
          doctest::Approx(std::log1p(std::exp(-17))));
  }
}

TEST_CASE("cross_entropy: the sum over no positions and its gradient are 0") {
  const Var logits = variable(randn({3, 2, 5}, DType::f64));
  const Var total =
      cross_entropy(logits, targets, zeros({3, 2}, DType::f64), {.reduction = Reduction::sum});
  CHECK(total.item() == 0);
  CHECK(identical(backward(total)[logits], zeros({3, 2, 5}, DType::f64)));
}

TEST_CASE("affine_cross_entropy: rows with mask 0 have no effect, even if NaN") {
  Tensor x = randn({3, 2, 4}, DType::f64);
  std::fill_n(x.mutable_data<double>() + 3 * 4, 4, std::numeric_limits<double>::quiet_NaN());
  const Var W = variable(randn({4, 5}, DType::f64, 2)), v = variable(x);
  const Var loss = affine_cross_entropy(v, {W, {}}, targets, mask);
  CHECK(std::isfinite(loss.item()));
  const Gradients gradients = backward(loss);
  CHECK(identical(gradients[v][1][1], zeros({4}, DType::f64)));
  for (double d : gradients[W].to_vector<double>()) CHECK(std::isfinite(d));
  const Tensor none = zeros({3, 2}, DType::f64);
  const Var sum = affine_cross_entropy(v, {W, {}}, targets, none, {.reduction = Reduction::sum});
  CHECK(sum.item() == 0);
  CHECK(identical(backward(sum)[W], zeros({4, 5}, DType::f64)));
}

TEST_CASE("affine_cross_entropy: errors name what is wrong") {
  const Var x = variable(randn({3, 2, 4}, DType::f64)), W = variable(randn({4, 5}, DType::f64));
  CHECK_ERROR("affine_cross_entropy: W (V, R) is (4, 5), but R = 4 in x",
              affine_cross_entropy(x, {W, {}, true}, targets));
  CHECK_ERROR("affine_cross_entropy: b (V) is (6), but V = 5 in W",
              affine_cross_entropy(x, {W, randn({6}, DType::f64)}, targets));
  CHECK_THROWS_AS(affine_cross_entropy(x, {W, randn({5}, DType::f32)}, targets,
                                       zeros(targets.shape(), DType::f64)),
                  Error);
  CHECK_ERROR(
      "affine_cross_entropy: shapes do not fit: x (3, 2, 4), targets i32 (3), mask undefined",
      affine_cross_entropy(x, {W, {}}, ints({3}, {0, 0, 0})));
  CHECK_ERROR("affine_cross_entropy: target 5 at 5 is not in 0 to 4",
              affine_cross_entropy(x, {W, {}}, ints({3, 2}, {0, 0, 0, 0, 0, 5}), mask));
  CHECK_ERROR("affine_cross_entropy: there is no position with mask 1",
              affine_cross_entropy(x, {W, {}}, targets, zeros({3, 2}, DType::f64)));
}

TEST_CASE("losses: a discarded loss has gradient 0, also if the logits are NaN") {
  const Mask none = zeros({}, DType::f64);
  const Tensor ids = ints({2}, {0, 1});
  const auto check = [&](auto loss) {
    const Var x = variable(full({2, 3}, nan, DType::f64)), W = variable(ones({3, 3}, DType::f64));
    const Gradients gradients = backward(where(none, loss(x, W), 0.0));
    CHECK(identical(gradients[x], zeros({2, 3}, DType::f64)));
    if (gradients.find(W)) CHECK(identical(gradients[W], zeros({3, 3}, DType::f64)));
  };
  check([&](auto& x, auto&) { return cross_entropy(x, ids); });
  check([&](auto& x, auto&) { return cross_entropy(x, ids, {}, {.smoothing = 0.1}); });
  check([&](auto& x, auto& W) { return affine_cross_entropy(x, {W, {}}, ids); });
  check([&](auto& x, auto&) {
    return ctc_loss(reshape(x, {2, 1, 3}), ones({2, 1}), ints({1, 1}, {1}), ones({1, 1}));
  });
}

}  // namespace attune
