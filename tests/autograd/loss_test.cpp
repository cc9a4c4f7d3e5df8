#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/reference.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/normalize.hpp>
#include <attune/tensor/random.hpp>

#include "support/same_function.hpp"

namespace attune {
namespace {

const Tensor targets = ints({3, 2}, {4, 0, 2, 2, 1, 3});
const Tensor mask = reals({3, 2}, {1, 1, 1, 0, 1, 0});
const std::vector<CrossEntropyOptions> variants = {{.reduction = Reduction::mean},
                                                   {.reduction = Reduction::sum},
                                                   {.smoothing = 0.3},
                                                   {.reduction = Reduction::sum, .smoothing = 0.1}};

template <class F>
Function loss(F f, const Tensor& mask, const CrossEntropyOptions& options) {
  return [=](const std::vector<Var>& v) { return f(v[0], targets, mask, options); };
}

}  // namespace

TEST_CASE("cross_entropy: fractional weights weigh, in the loss and in its gradient") {
  const Tensor x = randn({3, 4}, DType::f64);
  const Tensor targets = Tensor::of<std::int32_t>({3}, {1, 0, 3});
  const Tensor weights = Tensor::of<double>({3}, {0.5, 0, 0.25});
  const Tensor each = -log_softmax(x, 1);
  const double* loss = each.data<double>();
  const double expected = (0.5 * loss[1] + 0.25 * loss[8 + 3]) / 0.75;
  CHECK(cross_entropy(x, targets, weights).item() == doctest::Approx(expected).epsilon(1e-14));
  CHECK(gradcheck([&](const Var& v) { return cross_entropy(v, targets, weights); }, x));
}

TEST_CASE("cross_entropy: for equal logits it is the logarithm of the vocabulary's size") {
  const Var logits = full({3, 2, 5}, 7, DType::f64);
  CHECK(cross_entropy(logits, targets).item() == doctest::Approx(std::log(5)).epsilon(1e-14));
  CHECK(cross_entropy(logits, targets, {}, {.reduction = Reduction::sum}).item() ==
        doctest::Approx(6 * std::log(5)).epsilon(1e-14));
  CHECK(cross_entropy(logits, targets, mask, {.reduction = Reduction::sum}).item() ==
        doctest::Approx(4 * std::log(5)).epsilon(1e-14));
}

TEST_CASE("cross_entropy: gradients are central differences") {
  for (const CrossEntropyOptions& options : variants) {
    for (const Tensor& m : {Tensor(), mask}) {
      CHECK(gradcheck(loss(cross_entropy, m, options), {randn({3, 2, 5}, DType::f64)}));
      CHECK(gradcheck(loss(cross_entropy, m, options), {randn({3, 2, 5}, DType::f64) * 10.0}));
    }
  }
}

TEST_CASE("cross_entropy: it is its reference in values and gradients") {
  for (const CrossEntropyOptions& options : variants) {
    for (const Tensor& m : {Tensor(), mask}) {
      CHECK(function_difference(loss(cross_entropy, m, options),
                                loss(reference::cross_entropy, m, options),
                                {randn({3, 2, 5}, DType::f64, 2) * 3.0}) <= 1e-12);
    }
  }
}

TEST_CASE("cross_entropy: a vocabulary longer than one block of the sum is no different") {
  const Tensor far = ints({2}, {1200, 511});
  const auto with = [&](auto f) -> Function {
    return
        [f, far](const std::vector<Var>& v) { return f(v[0], far, Tensor(), {.smoothing = 0.2}); };
  };
  CHECK(function_difference(with(cross_entropy), with(reference::cross_entropy),
                            {randn({2, 1203}, DType::f64, 3)}) <= 1e-12);
}

TEST_CASE("cross_entropy: smoothing mixes the target's loss with the mean over the vocabulary") {
  const Var logits = reals({1, 3}, {std::log(0.5), std::log(0.2), std::log(0.3)});
  const double mean = -(std::log(0.5) + std::log(0.2) + std::log(0.3)) / 3;
  CHECK(cross_entropy(logits, ints({1}, {1}), {}, {.smoothing = 0.25}).item() ==
        doctest::Approx(-0.75 * std::log(0.2) + 0.25 * mean).epsilon(1e-14));
}

TEST_CASE(
    "cross_entropy: a smoothed loss is least where the probabilities are the smoothed target") {
  const Var logits =
      variable(reals({1, 4}, {std::log(0.05), std::log(0.85), std::log(0.05), std::log(0.05)}));
  const Var loss = cross_entropy(logits, ints({1}, {1}), {}, {.smoothing = 0.2});
  CHECK(difference(backward(loss)[logits], zeros({1, 4}, DType::f64)) <= 1e-15);
}

TEST_CASE("cross_entropy: logits of a thousand neither overflow nor lose the loss") {
  const Var logits = variable(reals({2, 3}, {1000, 0, -1000, -1000, 1000, 998}));
  const Var total = cross_entropy(logits, ints({2}, {1, 2}), {}, {.reduction = Reduction::sum});
  // 1000 - 0, and log(e^2 + 1)
  const double second = std::log(std::exp(2.0) + 1);
  CHECK(total.item() == doctest::Approx(1000 + second).epsilon(1e-14));
  const Tensor gradient = backward(total)[logits];
  const double p = 1 / (1 + std::exp(-2.0));
  CHECK(difference(gradient, reals({2, 3}, {1, -1, 0, 0, p, -p})) <= 1e-12);
}

TEST_CASE("cross_entropy: what logits hold at masked positions does not matter") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
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
  CHECK_ERROR("cross_entropy: shapes do not fit: logits (3, 2, 5), targets (3), mask ()",
              cross_entropy(logits, ints({3}, {0, 0, 0})));
  CHECK_ERROR("cross_entropy: target 5 at 3 is not in 0 to 4",
              cross_entropy(logits, ints({3, 2}, {0, 0, 0, 5, 0, 0})));
  CHECK_ERROR("cross_entropy: target -1 at 4 is not in 0 to 4",
              cross_entropy(logits, ints({3, 2}, {0, 0, 0, 0, -1, 0}), mask));
  CHECK_ERROR("cross_entropy: there is no position with mask 1",
              cross_entropy(logits, targets, zeros({3, 2}, DType::f64)));
  CHECK_ERROR("cross_entropy: the mask must be 1 (counts) or 0, but has -1000000000",
              cross_entropy(logits, targets, full({3, 2}, -1e9)));
  for (const auto& [smoothing, text] : {std::pair(1.0, "1"), {-0.5, "-0.5"}, {NAN, "nan"}}) {
    const CrossEntropyOptions options{.smoothing = smoothing};
    CHECK_ERROR(fmt::format("cross_entropy: the smoothing {} is not in [0, 1)", text),
                cross_entropy(logits, targets, mask, options));
  }
}

TEST_CASE("cross_entropy: the sum over no position is 0, and so is its gradient") {
  const Var logits = variable(randn({3, 2, 5}, DType::f64));
  const Var total =
      cross_entropy(logits, targets, zeros({3, 2}, DType::f64), {.reduction = Reduction::sum});
  CHECK(total.item() == 0);
  CHECK(identical(backward(total)[logits], zeros({3, 2, 5}, DType::f64)));
}

namespace {

/// Of x, W and b; without b when there are two.
Function affine_loss(bool transposed, const Tensor& m, const CrossEntropyOptions& options) {
  return [=](const std::vector<Var>& v) {
    return affine_cross_entropy(v[0], {v[1], v.size() > 2 ? v[2] : Var(), transposed}, targets, m,
                                options);
  };
}

/// The same, from logits that all exist.
Function composed_loss(bool transposed, const Tensor& m, const CrossEntropyOptions& options,
                       const Tensor& of = targets) {
  return [=](const std::vector<Var>& v) {
    const Var xW = matmul(v[0], v[1], {.b = transposed});
    return cross_entropy(v.size() > 2 ? xW + v[2] : xW, of, m, options);
  };
}

}  // namespace

TEST_CASE("affine_cross_entropy: gradients are central differences, and those of the composition") {
  const Tensor x = randn({3, 2, 4}, DType::f64), W = randn({4, 5}, DType::f64, 2),
               Wt = randn({5, 4}, DType::f64, 3), b = randn({5}, DType::f64, 4);
  for (const CrossEntropyOptions& options : variants) {
    for (const Tensor& m : {Tensor(), mask}) {
      for (bool transposed : {false, true}) {
        for (double size : {1.0, 10.0}) {
          for (std::vector<Tensor> inputs : {std::vector{x, (transposed ? Wt : W) * size, b},
                                             {x, (transposed ? Wt : W) * size}}) {
            CHECK(gradcheck(affine_loss(transposed, m, options), inputs));
            CHECK(function_difference(affine_loss(transposed, m, options),
                                      composed_loss(transposed, m, options), inputs) <= 1e-12);
          }
        }
      }
    }
  }
}

TEST_CASE("affine_cross_entropy: several blocks of rows are no different from one") {
  const Index rows = 1500, vocabulary = 3001;  // 36 MB of logits
  std::vector<std::int32_t> ids;
  std::vector<double> used;
  for (Index i = 0; i < rows; ++i) {
    ids.push_back(static_cast<std::int32_t>(i * 7919 % vocabulary));
    used.push_back(i % 5 != 0);
  }
  const Tensor of = Tensor::of(Shape{rows}, std::span<const std::int32_t>(ids)),
               m = Tensor::of(Shape{rows}, std::span<const double>(used));
  const auto blocks = [&](const std::vector<Var>& v) {
    return affine_cross_entropy(v[0], {v[1], v[2]}, of, m, {.smoothing = 0.1});
  };
  CHECK(function_difference(blocks, composed_loss(false, m, {.smoothing = 0.1}, of),
                            {randn({rows, 3}, DType::f64), randn({3, vocabulary}, DType::f64, 2),
                             randn({vocabulary}, DType::f64, 3)}) <= 1e-12);
}

TEST_CASE("affine_cross_entropy: a constant input changes no bit of the other gradients") {
  const Tensor x = randn({6, 4}, DType::f64, 1), of = ints({6}, {0, 1, 2, 3, 4, 0});
  const std::vector<Var> v = {variable(x), variable(randn({4, 5}, DType::f64, 2)),
                              variable(randn({5}, DType::f64, 3))};
  const auto gradients = [&](std::vector<Var> inputs) {
    return backward(affine_cross_entropy(inputs[0], {inputs[1], inputs[2]}, of));
  };
  const Gradients all = gradients(v);
  for (std::size_t constant = 0; constant < 3; ++constant) {
    CAPTURE(constant);
    std::vector<Var> inputs = v;
    inputs[constant] = detach(v[constant]);
    const Gradients others = gradients(inputs);
    CHECK(others.all().size() == 2);
    for (std::size_t i = 0; i < 3; ++i)
      if (i != constant) CHECK(identical(others[v[i]], all[v[i]]));
  }
}

TEST_CASE("affine_cross_entropy: rows with mask 0 do not matter, whatever they hold") {
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
  CHECK_ERROR("affine_cross_entropy: shapes do not fit: x (3, 2, 4), targets (3), mask ()",
              affine_cross_entropy(x, {W, {}}, ints({3}, {0, 0, 0})));
  CHECK_ERROR("cross_entropy: target 5 at 5 is not in 0 to 4",
              affine_cross_entropy(x, {W, {}}, ints({3, 2}, {0, 0, 0, 0, 0, 5}), mask));
  CHECK_ERROR("affine_cross_entropy: there is no position with mask 1",
              affine_cross_entropy(x, {W, {}}, targets, zeros({3, 2}, DType::f64)));
}

}  // namespace attune
