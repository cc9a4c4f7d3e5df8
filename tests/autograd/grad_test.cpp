// Gradients of gradients, and recomputed histories.

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/compositions.hpp>
#include <attune/autograd/grad.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/record.hpp>

#include "support/errors.hpp"
#include "support/op_cases.hpp"
#include "support/randn.hpp"

namespace attune {
namespace {

Tensor f64(const std::vector<double>& values) {
  return Tensor::of<double>({std::ssize(values)}, values);
}

}  // namespace

TEST_CASE("grad: derivatives of x⁴ of each order, and histories that stay usable") {
  const Var x = variable(f64({2, -1, 0}));
  const Var y = sum(square(square(x)));
  const Var first = grad(y, x), second = grad(sum(first), x), third = grad(sum(second), x);
  CHECK(difference(first.value(), f64({32, -4, 0})) == 0);
  CHECK(difference(second.value(), f64({48, 12, 0})) == 0);
  CHECK(difference(third.value(), f64({48, -24, 0})) == 0);
  CHECK(difference(backward(sum(third) + y)[x], f64({56, 20, 24})) == 0);
}

TEST_CASE("grad: equals backward for every operation") {
  for (const OpCase& op : op_cases()) {
    INFO(op.group, ": ", op.name);
    std::vector<Var> x;
    for (const Tensor& input : op.inputs) x.push_back(variable(input));
    const Var y = op(x);
    const Tensor dy = randn(y.shape(), y.dtype(), 3);
    const auto recorded = grad(y, x, dy);
    const Gradients gradients = backward(y, dy);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (const Tensor* g = gradients.find(x[i]))
        CHECK(difference(recorded[i].value(), *g) <= 1e-13);
  }
}

TEST_CASE("grad: slices that overlap, leave gaps, and are of several axes") {
  const Var x = variable(randn({5, 4}, DType::f64));
  const Var y = sum(square(x[1])) + sum(x[1] * x[-2]) + sum(square(slice(x, 0, 0, 3))) +
                sum(power(slice(x, 1, 1, 3), 3)) + sum(x[4]) + sum(slice(x, 0, 2, 2));
  const Var recorded = grad(y, x);
  CHECK(difference(recorded.value(), backward(y)[x]) < 1e-14);
  CHECK(gradcheck([](const Var& v) { return square(v[0]) + v[0] * v[2] * slice(v, 1, 0, 2)[1]; },
                  randn({3, 2}, DType::f64), {.order = 2}));
}

TEST_CASE("grad: f32 is as exact as backward, for large elements and long sequences") {
  const auto error = [](const auto& f, const Tensor& x) {
    const Var v = variable(x);
    const Tensor expected = backward(f(v))[v];
    const double size = max(abs(expected)).item();
    return max(abs(grad(f(v), v).value() - expected)).item() / size;
  };
  const Tensor rows = randn({3, 8}, DType::f32);
  const auto normalized = [](const Var& v) {
    return sum(randn({3, 8}, DType::f32, 2) * layer_norm(v, ones({8}), zeros({8})));
  };
  for (const double mean : {1e4, 1e6}) CHECK(error(normalized, rows + mean) < 1e-5);
  CHECK(error(normalized, rows * 1e20) < 1e-5);
  const auto product = [](const Var& v) { return prod(v); };
  CHECK(error(product, Tensor::of<float>({4}, {1e30f, 1e30f, 1e-30f, 1e-30f})) < 1e-6);
  CHECK(error(product, Tensor::of<float>({4}, {2, 0, 3, -4})) < 1e-6);
  const Tensor labels = full({60, 1}, 1, DType::i32), frames = ones({1000, 1});
  CHECK(error(
            [&](const Var& v) {
              return ctc_loss(v, frames, labels, ones({60, 1}));
            },
            randn({1000, 1, 5}, DType::f32)) < 2e-5);
}

TEST_CASE("grad: rows that where discards, extents of 0, results that use no input") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor rows = Tensor::of<double>({2, 1}, {1, inf});
  const Var w = variable(f64({2, 3}).reshape({1, 2}));
  const Var kept = where(Tensor::of<double>({2, 1}, {1, 0}), matmul(rows, w), 0.0);
  CHECK(difference(grad(sum(kept), w).value(), ones({1, 2}, DType::f64)) == 0);

  const Var memory = f64({1, 2, inf, inf}).reshape({1, 2, 2});  // (S, B, D): b = 1 is discarded
  const Var weights = variable(ones({1, 2}, DType::f64));
  const Var read = where(f64({1, 0}).reshape({2, 1}), weighted_sum(weights, memory), 0.0);
  CHECK(difference(grad(sum(read), weights).value(), f64({3, 0}).reshape({1, 2})) == 0);
  const Var own = variable(ones({1, 2, 2}, DType::f64)), lost = f64({1, inf}).reshape({1, 2});
  const Var sums = where(f64({1, 0}).reshape({2, 1}), weighted_sum(lost, own), 0.0);
  CHECK(difference(grad(sum(sums), own).value(), f64({1, 1, 0, 0}).reshape({1, 2, 2})) == 0);
  const Var queries = f64({1, 2, inf, inf}).reshape({2, 2});
  const Var scores = where(f64({1, 0}).reshape({1, 2}), dot_scores(queries, own), 0.0);
  CHECK(difference(grad(sum(scores), own).value(), f64({1, 2, 0, 0}).reshape({1, 2, 2})) == 0);

  // A key that no query attends to: (S, B, 2 D), keys and values of one element.
  const Var q = variable(ones({1, 1, 1}, DType::f64));
  const Var kv = Tensor::of<double>({2, 1, 2}, {1, 2, inf, inf});
  const Var y = attention(q, kv, {.attention_mask = f64({1, 0}).reshape({1, 1, 1, 2})});
  CHECK(grad(sum(y), q).item() == 0);

  // At the optimum dy is 0, but the gradient still depends on dy; the other row is discarded.
  const Var x = variable(Tensor::of<double>({2, 2}, {0, 0, inf, inf}));
  const Var first = where(f64({1, 0}).reshape({2, 1}), softmax(x), 0.0) - 0.5;
  const Tensor second = backward(sum(grad(sum(square(first)), x) * f64({1, -1})))[x];
  CHECK(difference(second.slice(0, 1), Tensor::of<double>({1, 2}, {0.5, -0.5})) < 1e-15);

  const Var none = variable(zeros({0, 3}, DType::f64));
  CHECK(grad(matmul(none, zeros({3, 0}, DType::f64)), none, zeros({0, 0}, DType::f64)).shape() ==
        Shape{0, 3});
  const Var empty = variable(zeros({2, 0}, DType::f64));
  CHECK(grad(sum(prod(empty, 1)), empty).shape() == Shape{2, 0});

  const Var base = variable(scalar(2, DType::f64)), exponent = variable(scalar(0, DType::f64));
  const Var slope = grad(power(base, exponent), base);  // b aᵇ⁻¹
  CHECK(backward(slope)[exponent].item() == doctest::Approx(0.5));
  const Var odd = variable(f64({0, 1e-310, inf, -inf, std::nan("")}));
  CHECK(sum(backward(sum(power(odd, zeros({5}, DType::f64))))[odd] == 0).item() == 5);
}

TEST_CASE("grad: of values that are not variables, of several uses, and of none") {
  const Var x = variable(f64({1, 2})), unused = variable(f64({5}));
  const Var h = x * x, y = sum(h * h * x);
  const auto g = grad(y, {h, x, unused});
  CHECK(difference(g[0].value(), f64({2, 16})) == 0);  // 2 h x
  CHECK(difference(g[1].value(), f64({5, 80})) == 0);  // 5 x⁴
  CHECK(difference(g[2].value(), f64({0})) == 0);
  CHECK(error_of([&] { return grad(y, unused); }) ==
        "grad: the result depends on none of the 1 inputs, or was computed under NoGrad");
  CHECK(error_of([&] { return grad(y, f64({1})); }) == "grad: x number 0 is a constant: f64 (1)");
  CHECK(error_of([&] { return grad(h, x); }) == "grad: a scalar, or dy, was expected: f64 (2)");
}

TEST_CASE(
    "grad: constant gradients have gradient 0, and older histories that backward freed do not "
    "matter") {
  const Var old = variable(f64({3})), earlier = old * old;
  static_cast<void>(backward(sum(earlier)));
  const Var x = variable(f64({1, 2}));
  const Var dy = grad(sum(relu(x) * earlier), x);
  CHECK(difference(dy.value(), f64({9, 9})) == 0);
  CHECK(difference(grad(sum(grad(sum(relu(x)), x)), x).value(), f64({0, 0})) == 0);
  CHECK(difference(backward(sum(grad(sum(relu(x)), x)))[x], f64({0, 0})) == 0);
  const std::vector<NamedVariable> named{{"x", x}};
  CHECK(difference(grad(sum(square(x)), named)[0].value(), f64({2, 4})) == 0);
  CHECK(difference(grad(sum(square(x)), {x})[0].value(), f64({2, 4})) == 0);
}

TEST_CASE("grad: a pullback on Tensors is named, one on Vars is recorded") {
  const Var x = variable(f64({0.5, -2}));
  const auto first_order = [](const Var& of) -> Var {
    return record("cube", of.value() * of.value() * of.value())
        .wrt(of, [v = of.value()](const Tensor& dy) { return 3 * dy * v * v; });
  };
  const auto any_order = [](const Var& of) -> Var {
    return record("cube", of.value() * of.value() * of.value()).wrt(of, [of](const Var& dy) {
      return 3 * dy * of * of;
    });
  };
  CHECK(error_of([&] { return grad(sum(first_order(x)), x); }) ==
        "grad: the pullback of cube takes only Tensors, so it has no second order");
  CHECK(difference(backward(sum(any_order(x)))[x], backward(sum(first_order(x)))[x]) == 0);
  CHECK(gradcheck([&](const Var& v) { return any_order(v); }, x.value(), {.order = 3}));
}

TEST_CASE("recompute: the same gradients, of inputs, captured values and their variables") {
  const Var w = variable(randn({3, 3}, DType::f64, 1)), x = variable(randn({2, 3}, DType::f64, 2));
  const auto loss = [&](bool again) {
    const Var shared = tanh(w);  // with a history outside of f
    const auto f = [=](const Var& in) { return tanh(matmul(tanh(matmul(in, w)), shared)) * in; };
    return sum(square(again ? recompute(f, x) : f(x)));
  };
  const Gradients plain = backward(loss(false)), checkpointed = backward(loss(true));
  for (const Var& of : {w, x}) CHECK(difference(plain[of], checkpointed[of]) == 0);
  CHECK(gradcheck(
      std::vector<NamedVariable>{{"w", w}, {"x", x}},
      [&] { return sum(square(recompute([&](const Var& in) { return tanh(matmul(in, w)); }, x))); },
      {.tolerance = 1e-5, .order = 2}));
}

}  // namespace attune
