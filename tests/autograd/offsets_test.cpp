// Operations on rows whose elements have a large common offset, in f32: results, and their
// accuracy, depend on the differences between elements only.

#include <functional>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/compositions.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/reference.hpp>
#include <attune/tensor/elementwise.hpp>

#include "support/naive.hpp"

namespace attune {
namespace {

constexpr Index rows = 5, n = 37;
const Tensor targets = ints({rows}, {4, 0, 36, 2, 2});

/// Small integers, exact in f32 after adding any of the offsets.
Tensor differences() {
  return naive::map(randn({rows, n}, DType::f64, 3), [](double v) { return std::round(2 * v); });
}

/// A mask of all elements but the last ones of each row; the first row has no masked elements.
Tensor some() {
  return naive::zip(arange(rows).reshape({rows, 1}).to(DType::f64), arange(n).to(DType::f64),
                    [](double row, double i) { return i < n - 7 * row ? 1 : 0; });
}

/// The row number of each element.
Tensor segments() { return repeat(arange(rows), n, 0); }

/// Three queries equal to 1, with columns of these scores as keys, and values independent of them.
template <class Attention>
Var attend(const Var& scores, const Attention& attention) {
  const Var v = randn({rows, n, 1}, DType::f32, 5).to(scores.dtype());
  return attention(ones({3, n, 1}, scores.dtype()), concat({reshape(scores, {rows, n, 1}), v}, -1));
}

Var ctc_of_rows(const Var& x) {
  const Mask all = ones({rows, 1}, x.dtype());
  return ctc_loss(reshape(x, {rows, 1, n}), all, ints({2, 1}, {3, 5}), all.slice(0, 2));
}

struct Case {
  const char* name;
  std::function<Var(const Var&)> f, definition;
  bool adds_offset = false;  // true if the value contains the offset
};

const Case cases[] = {
    {"softmax of rows", [](const Var& x) { return softmax(x, -1); },
     [](const Var& x) { return reference::softmax(x, -1); }},
    {"softmax of columns", [](const Var& x) { return softmax(x, 0); },
     [](const Var& x) { return reference::softmax(x, 0); }},
    {"softmax with a mask", [](const Var& x) { return softmax(x, -1, some()); },
     [](const Var& x) { return reference::softmax(x, -1, some()); }},
    {"sparsemax", [](const Var& x) { return sparsemax(x, -1); },
     [](const Var& x) { return reference::sparsemax(x, -1); }},
    {"log_softmax of rows", [](const Var& x) { return log_softmax(x, -1); },
     [](const Var& x) { return reference::log_softmax(x, -1); }},
    {"log_softmax of columns", [](const Var& x) { return log_softmax(x, 0); },
     [](const Var& x) { return reference::log_softmax(x, 0); }},
    {"log_sum_exp of rows", [](const Var& x) { return log_sum_exp(x, -1); },
     [](const Var& x) { return log_sum_exp(x, -1); }, true},
    {"log_sum_exp of columns", [](const Var& x) { return log_sum_exp(x, 0); },
     [](const Var& x) { return log(sum(exp(x), {0})); }, true},
    {"cross_entropy", [](const Var& x) { return cross_entropy(x, targets); },
     [](const Var& x) { return reference::cross_entropy(x, targets); }},
    {"cross_entropy with smoothing",
     [](const Var& x) { return cross_entropy(x, targets, {}, {.smoothing = 0.25}); },
     [](const Var& x) { return reference::cross_entropy(x, targets, {}, {.smoothing = 0.25}); }},
    {"affine_cross_entropy",
     [](const Var& x) {
       const Tensor identity = equal(arange(n).reshape({n, 1}), arange(n)).to(x.dtype());
       return affine_cross_entropy(x, {identity, {}}, targets);
     },
     [](const Var& x) { return reference::cross_entropy(x, targets); }},
    {"cross_entropy with distributions",
     [](const Var& x) {
       return cross_entropy(x, softmax(ones({rows, n}, x.dtype()), -1));
     },
     [](const Var& x) { return -mean(log_softmax(x, -1)); }},
    {"segment_softmax",
     [](const Var& x) { return segment_softmax(reshape(x, {-1}), segments(), rows); },
     [](const Var& x) { return reshape(reference::softmax(x, -1), {-1}); }},
    {"var", [](const Var& x) { return var(x, -1); }, [](const Var& x) { return var(x, -1); }},
    {"std",
     [](const Var& x) {
       return std(x, {0, 1});
     },
     [](const Var& x) {
       return std(x, {0, 1});
     }},
    {"ctc_loss", ctc_of_rows, ctc_of_rows},
    {"layer_norm",
     [](const Var& x) { return layer_norm(x, ones({n}, x.dtype()), zeros({n}, x.dtype())); },
     [](const Var& x) {
       return reference::layer_norm(x, ones({n}, x.dtype()), zeros({n}, x.dtype()));
     }},
    {"attention",
     [](const Var& x) { return attend(x, [](auto q, auto kv) { return attention(q, kv, {}); }); },
     [](const Var& x) {
       return attend(x, [](auto q, auto kv) { return reference::attention(q, kv); });
     }},
};

/// The value of f, and the gradient of a weighted sum of it.
std::pair<Tensor, Tensor> value_and_gradient(const std::function<Var(const Var&)>& f,
                                             const Tensor& at) {
  const Var x = variable(at), y = f(x);
  const Tensor weights = randn(y.shape(), DType::f32, 7).to(at.dtype());
  return {y.value(), backward(sum(y * weights))[x]};
}

}  // namespace

TEST_CASE("Operations on rows: accurate for the differences of elements, at any common offset") {
  const Tensor x = differences();
  for (const Case& c : cases) {
    const auto [expected, expected_gradient] = value_and_gradient(c.definition, x);
    for (const double offset : {0.0, 1e4, 1e7, -1e7}) {
      CAPTURE(std::string(c.name));
      CAPTURE(offset);
      const auto [y, dx] = value_and_gradient(c.f, (x + offset).to(DType::f32));
      const Tensor moved = c.adds_offset ? expected + offset : expected;
      CHECK(difference(y.to(DType::f64), moved) <= 2e-6);
      CHECK(difference(dx.to(DType::f64), expected_gradient) <= 2e-6);
    }
  }
}

TEST_CASE("Operations on rows: a row of only -∞ has gradient 0 and does not affect other rows") {
  const Tensor none = equal(arange(rows).reshape({rows, 1}), 2).to(DType::f64);
  for (const Case& c : cases) {
    const std::string_view name = c.name;
    if (name.ends_with("columns") || name == "layer_norm" || name == "affine_cross_entropy" ||
        name == "cross_entropy with distributions" || name == "var" || name == "std")
      continue;
    for (const DType dtype : {DType::f32, DType::f64}) {
      CAPTURE(std::string(c.name));
      const Tensor x = where(none, scalar(-infinity, DType::f64), differences()).to(dtype);
      const auto [y, dx] = value_and_gradient(c.f, x);
      for (const double v : y.to_vector<double>()) CHECK(!std::isnan(v));
      for (const double v : dx.to_vector<double>()) CHECK(std::isfinite(v));
      if (name != "log_softmax of rows" && name != "attention") CHECK(sum(abs(dx[2])).item() == 0);
    }
  }
}

TEST_CASE("layer_norm: squares of huge elements do not overflow") {
  const Tensor x = differences(), ones_n = ones({n}, DType::f64), none = zeros({n}, DType::f64);
  const auto f = [&](const Var& v) {
    return layer_norm(v, ones_n.to(v.dtype()), none.to(v.dtype()));
  };
  const auto definition = [&](const Var& v) { return reference::layer_norm(v, ones_n, none, 0); };
  const auto [expected, expected_gradient] = value_and_gradient(definition, x);
  for (const double factor : {1e20, 0x1p122}) {
    CAPTURE(factor);
    const auto [y, dx] = value_and_gradient(f, (x * factor).to(DType::f32));
    CHECK(difference(y.to(DType::f64), expected) <= 2e-6);
    CHECK(difference(dx.to(DType::f64) * factor, expected_gradient) <= 2e-6);
  }
  const auto [y, dx] = value_and_gradient(f, x * 1e200);
  CHECK(difference(y, expected) <= 1e-14);
  CHECK(difference(dx * 1e200, expected_gradient) <= 1e-14);
}

TEST_CASE("layer_norm: equal elements of any size give the bias") {
  for (const double value : {0.0, 1e20, 3e37, 3e38}) {
    CAPTURE(value);
    const Var x = variable(full({2, 5}, value));
    const Var y = layer_norm(x, ones({5}), zeros({5}));
    CHECK(identical(y.value(), zeros({2, 5})));
    const Tensor dx = backward(sum(y * arange(5, DType::f32)))[x];
    CHECK(difference(dx[1], (arange(5, DType::f32) - 2.0) / std::sqrt(layer_norm_epsilon)) <= 1e-6);
  }
}

TEST_CASE("log_sum_exp: a forward algorithm with an impossible transition") {
  const Tensor transitions = reals({2, 2}, {0, -infinity, 0, -infinity});
  const Var emissions = variable(reals({3, 2}, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}));
  Var alpha = emissions[0];
  for (const Index t : {1, 2})
    alpha = log_sum_exp(reshape(alpha, {2, 1}) + transitions, 0) + emissions[t];
  const double first = 1 / (1 + std::exp(0.1));
  CHECK(difference(backward(log_sum_exp(alpha, 0))[emissions],
                   reals({3, 2}, {first, 1 - first, 1, 0, 1, 0})) <= 1e-15);
}

}  // namespace attune
