// Every operation of support/op_cases.cpp: values compared with loops over elements or its
// definition, gradients compared with central differences. Then kinks, empty axes, and errors.

#include <limits>

#include <doctest/doctest.h>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/backward.hpp>
#include <attune/autograd/compositions.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/recurrent.hpp>

#include "support/capture.hpp"
#include "support/op_cases.hpp"
#include "support/threads_scope.hpp"

namespace attune {
namespace {

/// The gradient of f at x for a given dy.
template <class F>
Tensor gradient(F f, const Tensor& x, const Tensor& dy) {
  const Var v = variable(x);
  return backward(f(v), dy)[v];
}

/// f as a function of its differentiable inputs; masks and ids are fixed.
Function of(const OpCase& op, const Function& f) {
  return [&op, f](const std::vector<Var>& x) { return op.with_constants(f, x); };
}

std::vector<Tensor> scaled(const OpCase& op, double scale) {
  std::vector<Tensor> inputs;
  for (const Tensor& x : op.inputs) inputs.push_back(x * scale);
  return inputs;
}

template <class F>
void for_each_op(const std::vector<OpCase>& cases, F f) {
  for (const OpCase& op : cases) {
    INFO(op.group, ": ", op.name);
    f(op);
  }
}

}  // namespace

TEST_CASE("Ops: values equal loops over elements, or their definition with its gradients") {
  const auto check = [](const OpCase& op) {
    for (const double scale : {1.0, op.largest}) {
      const std::vector<Tensor> inputs = scaled(op, scale);
      const std::vector<Var> vars(inputs.begin(), inputs.end());
      CHECK(difference(op(vars).value(), op.with_constants(op.reference, vars).value()) <= 1e-12);
    }
    const Function f = of(op, op.f), reference = of(op, op.reference);
    std::vector<Var> variables;
    for (const Tensor& x : op.inputs) variables.push_back(variable(x));
    if (!reference(variables).requires_gradient()) return;  // loops over elements
    CHECK(function_difference(f, reference, op.inputs) <= 1e-12);
    if (op.inputs.size() == 1) return;
    for (std::size_t chosen = 0; chosen < op.inputs.size(); ++chosen) {  // the others are constants
      CAPTURE(chosen);
      const auto with = [&](const Function& g) -> Function {
        return [&, chosen](const std::vector<Var>& x) {
          std::vector<Var> mixed(op.inputs.begin(), op.inputs.end());
          mixed[chosen] = x[0];
          return g(mixed);
        };
      };
      CHECK(function_difference(with(f), with(reference), {op.inputs[chosen]}) <= 1e-12);
    }
  };
  for_each_op(op_cases(), check);
  for_each_op(large_op_cases(), check);
}

TEST_CASE("Ops: gradients of gradients equal central differences") {
  for_each_op(op_cases(), [](const OpCase& op) {
    GradcheckResult result = gradcheck(of(op, op.f), op.inputs, {.tolerance = 1e-5, .order = 2});
    if (result.rough)
      result = gradcheck(of(op, op.f), op.inputs, {.tolerance = 1e-5, .step = 1e-5, .order = 2});
    CHECK(result);
  });
}

TEST_CASE("Ops: gradients equal central differences, also at larger inputs") {
  for_each_op(op_cases(), [](const OpCase& op) {
    for (const double scale : {1.0, op.largest}) {
      GradcheckResult result = gradcheck(of(op, op.f), scaled(op, scale));
      if (result.rough) result = gradcheck(of(op, op.f), scaled(op, scale), {.step = 1e-5});
      CHECK(result);
    }
  });
}

TEST_CASE("Ops: f32 agrees with f64 up to its precision, and gradients are f32") {
  for_each_op(op_cases(), [](const OpCase& op) {
    std::vector<Var> single, twice;
    for (const Tensor& x : op.inputs) {
      const Tensor rounded = x.to(DType::f32);
      single.push_back(variable(rounded));
      twice.push_back(variable(rounded.to(DType::f64)));
    }
    const Var y = op(single), expected = op(twice);
    CHECK(y.dtype() == DType::f32);
    CHECK(difference(y.value().to(DType::f64), expected.value()) <= 1e-5);
    const Tensor dy = randn(y.shape(), DType::f32, 3);
    const Gradients gradients = backward(y, dy);
    const Gradients expected_gradients = backward(expected, dy.to(DType::f64));
    for (std::size_t i = 0; i < single.size(); ++i) {
      CHECK(difference(gradients[single[i]].to(DType::f64), expected_gradients[twice[i]]) <= 1e-4);
    }
  });
}

TEST_CASE("Ops: values and gradients are the same bits with one and two threads") {
  for_each_op(large_op_cases(), [](const OpCase& op) {
    const auto run = [&](int threads) {
      const test::ThreadsScope scope(threads);
      return value_and_gradients(of(op, op.f), op.inputs);
    };
    CHECK(std::ranges::equal(run(1), run(2), identical));
  });
}

TEST_CASE("Ops: NaN at padding reaches neither values nor gradients") {
  /// f with all elements of input i at mask 0 set to `padding`.
  const auto padded = [](const Function& f, std::size_t i, const Tensor& mask, double padding) {
    return [=](std::vector<Var> v) {
      const Tensor used = mask.reshape({mask.dim(0), mask.dim(1), 1});
      v[i] = v[i] * 0.0 + where(used, v[i].value(), scalar(padding, DType::f64));
      return f(v);
    };
  };
  const auto check = [&](const Function& f, std::size_t i, const Tensor& mask,
                         const std::vector<Tensor>& inputs) {
    CHECK(function_difference(padded(f, i, mask, nan), padded(f, i, mask, 0), inputs) == 0);
  };
  for_each_op(op_cases(), [&](const OpCase& op) {
    if (op.group == "recurrences" && !op.constants.empty())
      check(of(op, op.f), 0, op.constants[0], op.inputs);
  });
  const Tensor mask = mask_of(4, {4, 2, 3});
  const Function additive = [&](const std::vector<Var>& v) {
    const Var weights = softmax(additive_scores(v[0], v[1], v[2]), 0, mask);
    return joined({weights, weighted_sum(weights, v[1])});
  };
  check(additive, 1, mask,
        {randn({3, 5}, DType::f64), randn({4, 3, 5}, DType::f64, 2), randn({5}, DType::f64, 3)});
  const Function fused = [&](const std::vector<Var>& v) {
    return attention(v[0], v[1], {.heads = 2, .mask = mask});
  };
  check(fused, 1, mask, {randn({2, 3, 4}, DType::f64), randn({4, 3, 8}, DType::f64, 2)});
}

TEST_CASE("Ops: of equal maxima or minima, the first gets the gradient") {
  const Var a = variable(reals({3}, {1, 2, 3})), b = variable(reals({3}, {2, 2, 2}));
  const Gradients larger = backward(maximum(a, b), reals({3}, {10, 20, 30})),
                  smaller = backward(minimum(a, b), reals({3}, {10, 20, 30}));
  CHECK(identical(larger[a], reals({3}, {0, 20, 30})));
  CHECK(identical(larger[b], reals({3}, {10, 0, 0})));
  CHECK(identical(smaller[a], reals({3}, {10, 20, 0})));
  CHECK(identical(smaller[b], reals({3}, {0, 0, 30})));
}

TEST_CASE("Ops: errors name the operation and both shapes, axes and dtypes") {
  const Var a = zeros({3, 2}), b = zeros({3, 4}), n = ints({3}, {1, 2, 3});
  CHECK_ERROR("add: shapes (3, 2) and (3, 4) do not broadcast", a + b);
  CHECK_ERROR("slice: indices -3 to 2 of axis 1 of (3, 2) do not exist", slice(a, 1, -3, 2));
  CHECK_ERROR("add: dtypes differ: f64 (3, 2) and f32 (3, 2)", Var(zeros({3, 2}, DType::f64)) + a);
  CHECK_ERROR("where: shapes (4) and (3, 2) do not broadcast", where(zeros({4}), a, a));
  CHECK_ERROR("add_matmul: shapes do not fit: (3, 2) x (3, 4)", add_matmul(a, a, b));
  CHECK_ERROR("add_matmul: (3, 2) cannot be added to the product (3, 5)",
              add_matmul(a, b, zeros({4, 5})));
  CHECK_ERROR("batched_matmul: shapes do not fit: (3, 2) x (3, 4)ᵀ",
              batched_matmul(a, b, {.b = true}));
  CHECK_ERROR("maxout: the last axis of (2, 3) does not divide into pairs", maxout(zeros({2, 3})));
  CHECK_ERROR("concat: there are no parts", concat(std::vector<Var>(), 0));
  CHECK_ERROR("split: the extent of axis 0 of (3, 2) is not 1 + 4", split(a, {1, 4}, 0));
  CHECK_ERROR("split: the extent of axis 0 of (3, 2) is not 4 + -1", split(a, {4, -1}, 0));
  CHECK_ERROR("split: there is no axis 2 in (3, 2)", split(a, {3, 3}, 2));
  CHECK_ERROR("log_sum_exp: there is no axis -3 in (3, 2)", log_sum_exp(a, -3));
  CHECK_ERROR("permute: there is no axis 2 in (3, 2)", permute(a, {0, 2}));
  CHECK_ERROR("permute: axes (1, -1) do not name each of (3, 2) once", permute(a, {1, -1}));
  CHECK_ERROR("transpose: there is no axis 2 in (3, 2)", transpose(a, 0, 2));
  CHECK_ERROR("window: shapes do not fit: windows (3, 2), positions (4, 2), sequence (5, 2)",
              unwindow(a, zeros({4, 2}, DType::i32), 5));
  for (const auto& one : {std::pair<const char*, Var (*)(const Var&)>{"tanh", tanh},
                          {"log", log},
                          {"softplus", softplus},
                          {"sin", sin}})
    CHECK_ERROR(std::string(one.first) + ": f32 or f64 was expected: i32 (3)", one.second(n));
  for (const Var& y : {max(n), min(n), prod(n)}) CHECK(y.dtype() == DType::i32);
}

TEST_CASE("Ops: softplus and sigmoid neither overflow nor underflow early") {
  const Tensor x = reals({4}, {-1000, -40, 40, 1000});
  CHECK(difference(softplus(Var(x)).value(), reals({4}, {0, std::exp(-40.0), 40, 1000})) == 0);
  const Tensor s = sigmoid(Var(x)).value();
  CHECK(s.to_vector<double>()[1] == doctest::Approx(std::exp(-40.0)).epsilon(1e-14));
  CHECK(s.to_vector<double>()[0] == 0);
  CHECK(s.to_vector<double>()[3] == 1);
}

TEST_CASE("Ops: abs, sqrt and power at zero") {
  const Tensor x = reals({3}, {-2, 0, 3}), dy = reals({3}, {10, 20, 30});
  CHECK(identical(gradient([](const Var& v) { return abs(v); }, x, dy), reals({3}, {-10, 0, 30})));
  CHECK(
      identical(gradient([](const Var& v) { return power(v, 0); }, x, dy), zeros({3}, DType::f64)));
  CHECK(identical(power(Var(x), 0).value(), ones({3}, DType::f64)));
  CHECK(identical(gradient([](const Var& v) { return power(v, 1); }, x, dy), dy));
  CHECK(identical(gradient([](const Var& v) { return power(v, 2); }, x, dy),
                  reals({3}, {-40, 0, 180})));
  CHECK(gradient([](const Var& v) { return sqrt(v); }, reals({1}, {0}), reals({1}, {1})).item() ==
        infinity);
  const auto of_zero = [](const Var& v) { return power(zeros({3}, DType::f64), v); };
  CHECK(identical(gradient(of_zero, reals({3}, {0, 2, -1}), dy), reals({3}, {0, 0, -infinity})));
}

TEST_CASE("Ops: an operand that where does not select has no effect and gradient 0") {
  const Var a = variable(reals({2}, {1, nan})), b = variable(reals({2}, {infinity, 4}));
  const Var y = where(reals({2}, {1, 0}), a, b);
  CHECK(identical(y.value(), reals({2}, {1, 4})));
  const Gradients gradients = backward(y, reals({2}, {10, 20}));
  CHECK(identical(gradients[a], reals({2}, {10, 0})));
  CHECK(identical(gradients[b], reals({2}, {0, 20})));
}

TEST_CASE("Ops: where keeps both signs of zero") {
  const Tensor minus = reals({2}, {-0.0, -0.0}), plus = reals({2}, {0.0, 0.0});
  CHECK(identical(where(reals({2}, {1, 0}), minus, plus), reals({2}, {-0.0, 0.0})));
}

TEST_CASE("Ops: of equal maxima, the first gets the gradient of max") {
  const Tensor x = reals({2, 3}, {1, 5, 5, 7, 7, 7});
  CHECK(identical(gradient([](const Var& v) { return max(v, 1); }, x, reals({2}, {10, 20})),
                  reals({2, 3}, {0, 10, 0, 20, 0, 0})));
  CHECK(identical(gradient([](const Var& v) { return max(v, 0); }, x, reals({3}, {1, 2, 3})),
                  reals({2, 3}, {0, 0, 0, 1, 2, 3})));
}

TEST_CASE("Ops: std has gradient 0 where all elements are equal") {
  const Tensor x = reals({2, 3}, {5, 5, 5, 0, 1, 2});
  const auto f = [](const Var& v) { return std(v, -1); };  // its gradient is (x - mean) / 2 std
  CHECK(identical(f(x).value(), reals({2}, {0, 1})));
  CHECK(difference(gradient(f, x, reals({2}, {10, 20})), reals({2, 3}, {0, 0, 0, -10, 0, 10})) <=
        1e-14);
}

TEST_CASE("Ops: std of elements whose squares overflow or underflow") {
  for (const double scale : {1e30, 1e-30}) {
    const Tensor x = Tensor::of<float>({3}, {-1, 0, 1}) * scale;
    CHECK(std(x).item() == doctest::Approx(scale));
    const Tensor dx = gradient([](const Var& v) { return std(v); }, x, ones({}));
    CHECK(difference(dx, Tensor::of<float>({3}, {-0.5F, 0, 0.5F})) <= 1e-6);
  }
}

TEST_CASE("Ops: norm has gradient 0 where the norm is 0") {
  const Tensor x = reals({2, 2}, {3, 4, 0, 0});
  CHECK(identical(gradient([](const Var& v) { return norm(v, -1); }, x, reals({2}, {10, 20})),
                  reals({2, 2}, {6, 8, 0, 0})));
}

TEST_CASE("where: elements that are not selected have gradient 0, whatever their derivative") {
  const struct {
    const char* name;
    Var (*f)(const Var& x);
  } functions[] = {{"x log x", [](const Var& x) { return x * log(x); }},
                   {"log", log},
                   {"sqrt", sqrt},
                   {"x^-0.5", [](const Var& x) { return power(x, -0.5); }},
                   {"1 / x", [](const Var& x) { return 1.0 / x; }},
                   {"x / x", [](const Var& x) { return x / x; }},
                   {"exp(1 / x)", [](const Var& x) { return exp(1.0 / x); }},
                   {"square(log x)", [](const Var& x) { return square(log(x)); }},
                   {"tanh(log x)", [](const Var& x) { return tanh(log(x)); }},
                   {"sigmoid(log x)", [](const Var& x) { return sigmoid(log(x)); }},
                   {"softplus(log x)", [](const Var& x) { return softplus(log(x)); }},
                   {"gelu(log x)", [](const Var& x) { return gelu(log(x)); }},
                   {"relu(log x)", [](const Var& x) { return relu(log(x)); }},
                   {"|log x|", [](const Var& x) { return abs(log(x)); }},
                   {"max(log x, x)", [](const Var& x) { return maximum(log(x), x); }},
                   {"norm(log x)", [](const Var& x) { return norm(log(x), -1); }},
                   {"log_softmax", [](const Var& x) { return log_softmax(x, -1); }},
                   {"log_sum_exp(x)", [](const Var& x) { return log_sum_exp(log(x), -1); }}};
  const Mask chosen = reals({8, 1}, {1, 0, 0, 0, 0, 0, 0, 1});
  const Tensor all = reals({8, 1}, {2, 0, -0.0, -1, infinity, -infinity, nan, 3});
  for (const auto& [name, f] : functions) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      CAPTURE_BINDING(name);
      const Tensor x = all.to(dtype), dy = ones({8, 1}, dtype);
      const auto masked = [&, f = f](const Var& v) {
        const Var y = f(v);
        return where(chosen, reshape(y, {8, 1}), 0.0);
      };
      const Tensor right = gradient(masked, where(chosen, x, 2.0), dy);
      CHECK(difference(gradient(masked, x, dy), right) == 0);
    }
  }
}

TEST_CASE("where: discarded rows have gradient 0 and add nothing to a parameter's gradient") {
  const auto heads = [](const Var& x, Index n) { return reshape(x, {1, 4, n}); };
  const struct {
    const char* name;
    std::function<Var(const Var& x, const Var& w)> f;  // x (4, 8), w (8, 8) -> (4, ...)
  } functions[] = {
      {"softmax", [](auto& x, auto&) { return softmax(x, -1); }},
      {"softmax of columns",
       [](auto& x, auto&) { return transpose(softmax(transpose(x, 0, 1), 0), 0, 1); }},
      {"sparsemax", [](auto& x, auto&) { return sparsemax(x, -1); }},
      {"layer_norm", [](auto& x, auto& w) { return layer_norm(x, w[0], w[1]); }},
      {"prod", [](auto& x, auto&) { return prod(x, -1, KeepAxes::yes); }},
      {"std", [](auto& x, auto&) { return std(x, -1, KeepAxes::yes); }},
      {"broadcast product", [](auto& x, auto& w) { return x * w[0] / w[1]; }},
      {"matmul", [](auto& x, auto& w) { return matmul(x, w); }},
      {"matmul, Wᵀ", [](auto& x, auto& w) { return matmul(x, w, {.b = true}); }},
      {"batched_matmul",
       [](auto& x, auto& w) {
         const Var rows = reshape(x, {4, 1, 8}), columns = reshape(x, {4, 8, 1});
         return reshape(batched_matmul(rows, columns) + batched_matmul(rows, matmul(w, columns[0])),
                        {4, 1});
       }},
      {"einsum",
       [](auto& x, auto& w) {
         return reshape(einsum("ij,ik,jk->i", x, x, w), {4, 1});
       }},
      {"lstm",
       [](auto& x, auto& w) {
         return recurrent(x, slice(w, 0, 0, 2),
                          {.cell = Cell::lstm, .h0 = slice(x, 1, 0, 2), .c0 = slice(x, 1, 2, 4)})
             .h;
       }},
      {"gru",
       [](auto& x, auto& w) {
         return recurrent(slice(x, 1, 0, 6), slice(slice(w, 0, 0, 2), 1, 0, 6),
                          {.cell = Cell::gru_reset_before, .h0 = slice(x, 1, 0, 2)})
             .h;
       }},
      {"additive_scores",
       [&](auto& x, auto& w) { return transpose(additive_scores(x, heads(x, 8), w[0]), 0, 1); }},
      {"dot_scores", [&](auto& x, auto&) { return transpose(dot_scores(x, heads(x, 8)), 0, 1); }},
      {"weighted_sum",
       [&](auto& x, auto&) {
         return weighted_sum(transpose(slice(x, 1, 0, 1), 0, 1), heads(x, 8));
       }},
      {"attention", [&](auto& x, auto&) {
         return reshape(attention(heads(x, 8), heads(concat({x, x}, 1), 16), {.heads = 2}), {4, 8});
       }}};
  const Mask chosen = reals({4, 1}, {1, 0, 1, 0});
  for (const auto& [name, f] : functions) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const double largest = dtype == DType::f32 ? std::numeric_limits<float>::max()
                                                 : std::numeric_limits<double>::max();
      for (const double bad : {nan, -nan, infinity, -infinity, largest, -largest}) {
        CAPTURE_BINDING(name);
        CAPTURE(bad);
        const auto gradients = [&, f = f](double discarded) {
          const Tensor rows = where(chosen, randn({4, 8}, DType::f64), discarded).to(dtype);
          const Var x = variable(rows), w = variable(randn({8, 8}, dtype, 2)), y = f(x, w);
          const Gradients all =
              backward(where(broadcast_to(chosen, y.shape()), y, 0.0), randn(y.shape(), dtype, 3));
          return std::pair(all[x], all.find(w) ? *all.find(w) : zeros({1}));
        };
        const auto [dx, dw] = gradients(bad);
        const auto [right_dx, right_dw] = gradients(2);
        CHECK(difference(dx, right_dx) == 0);
        CHECK(difference(dw, right_dw) == 0);
      }
    }
  }
}

TEST_CASE("matmul: an infinite weight affects only gradients of results that have one") {
  Tensor dy = randn({5, 4}, DType::f64, 3);
  for (const Index row : {0, 1, 2, 4}) dy.mutable_at<double>({row, 2}) = 0;
  for (const bool transposed : {false, true}) {
    const auto dx = [&](double element) {
      Tensor w = randn({3, 4}, DType::f64, 2);
      w.mutable_at<double>({1, 2}) = element;
      return gradient([&](const Var& x) { return matmul(x, w, {.a = transposed}); },
                      transposed ? zeros({3, 5}, DType::f64) : zeros({5, 3}, DType::f64), dy);
    };
    Tensor expected = dx(0);
    expected.mutable_at<double>({transposed ? 1 : 3, transposed ? 3 : 1}) =
        dy.at<double>({3, 2}) * infinity;
    CHECK(identical(dx(infinity), expected));
  }
}

TEST_CASE("backward: dy = 0 gives gradients of 0, also for inputs that are not finite") {
  for_each_op(op_cases(), [](const OpCase& op) {
    for (const double bad : {nan, infinity, -infinity}) {
      std::vector<Var> inputs;
      for (const Tensor& x : op.inputs) inputs.push_back(variable(full(x.shape(), bad, x.dtype())));
      const Var y = op(inputs);
      const Gradients gradients = backward(y, zeros(y.shape(), y.dtype()));
      for (const Var& x : inputs) {
        if (gradients.find(x)) CHECK(any(gradients[x] != 0).item() == 0);
      }
    }
  });
}

TEST_CASE("where: unselected divisions by 0 and infinite factors do not affect gradients") {
  const Mask none = zeros({2}, DType::f64);
  for (const auto f :
       {+[](const Var& x) { return x / 0.0; }, +[](const Var& x) { return x * infinity; }})
    CHECK(identical(gradient([&](const Var& x) { return where(none, f(x), x); }, reals({2}, {0, 1}),
                             ones({2}, DType::f64)),
                    ones({2}, DType::f64)));
}

TEST_CASE("log_sum_exp: elements of -∞ have gradient 0, also if there are no others") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = reals({2, 3}, {-infinity, 1, 1, -infinity, -infinity, -infinity}).to(dtype);
    const Tensor dx = gradient([](const Var& v) { return log_sum_exp(v, 1); }, x, ones({2}, dtype));
    CHECK(difference(dx.to(DType::f64), reals({2, 3}, {0, 0.5, 0.5, 0, 0, 0})) <= 1e-7);
  }
}

TEST_CASE("Ops: axes of extent 1 and 0") {
  const Var one = reals({2, 1}, {-3, 4});
  CHECK(identical(max(one, 1).value(), reals({2}, {-3, 4})));
  CHECK(identical(norm(one, 1).value(), reals({2}, {3, 4})));
  CHECK(identical(log_sum_exp(one, 1).value(), reals({2}, {-3, 4})));
  const Var empty = variable(zeros({2, 0}, DType::f64));
  CHECK(identical(norm(empty, 1).value(), zeros({2}, DType::f64)));
  CHECK(identical(log_sum_exp(empty, 1).value(), full({2}, -infinity, DType::f64)));
  CHECK(norm(empty, 0).shape() == Shape{0});
  CHECK(backward(norm(empty, 1), ones({2}, DType::f64))[empty].shape() == Shape{2, 0});
  CHECK(backward(log_sum_exp(empty, 1), ones({2}, DType::f64))[empty].shape() == Shape{2, 0});
  CHECK(max(Var(zeros({0, 3})), 1).shape() == Shape{0});
  CHECK_ERROR("max: axis 1 of (2, 0) is empty", max(empty, 1));
}

TEST_CASE("Ops: split inverts concat") {
  const Var x = randn({6, 2}, DType::f64);
  const std::vector<Var> parts = split(x, std::vector<Index>{1, 0, 5}, 0);
  REQUIRE(parts.size() == 3);
  CHECK(parts[1].shape() == Shape{0, 2});
  CHECK(identical(concat(parts, 0).value(), x.value()));
  CHECK(split(x, {6}, 0).size() == 1);
  CHECK(split(x, {1, 1}, -1).size() == 2);
  CHECK(split(Var(zeros({0, 2})), {0, 0, 0, 0}, 0).size() == 4);
}

TEST_CASE("Ops: matrix products of empty batches, and with K = 0") {
  const Var none = variable(zeros({0, 2, 3})), b = variable(zeros({0, 3, 4}));
  const Gradients gradients = backward(batched_matmul(none, b), zeros({0, 2, 4}));
  CHECK(gradients[none].shape() == Shape{0, 2, 3});
  CHECK(gradients[b].shape() == Shape{0, 3, 4});
  CHECK(identical(batched_matmul(Var(zeros({2, 3, 0})), Var(zeros({2, 0, 4}))).value(),
                  zeros({2, 3, 4})));
}

TEST_CASE("layer_norm: rows of one element, and of none") {
  const Var one = variable(reals({2, 1}, {5, -5})), gain = variable(reals({1}, {3})),
            bias = variable(reals({1}, {4}));
  const Gradients gradients = backward(layer_norm(one, gain, bias), reals({2, 1}, {1, 2}));
  CHECK(identical(gradients[one], zeros({2, 1}, DType::f64)));
  CHECK(gradients[gain].item() == 0);
  CHECK(gradients[bias].item() == 3);
  const Var none = variable(zeros({2, 0}));
  CHECK(backward(layer_norm(none, zeros({0}), zeros({0})), zeros({2, 0}))[none].size() == 0);
  CHECK_ERROR("layer_norm: epsilon = -1 is not in [0, inf)", layer_norm(one, gain, bias, -1));
}

TEST_CASE("sparsemax: masked positions and empty columns have gradient 0") {
  const Var x = variable(reals({3, 2}, {0.1, 1, 0.2, 2, 9, 3}));
  const Tensor mask = reals({3, 2}, {1, 0, 1, 0, 0, 0});
  const Var y = sparsemax(x, 0, mask);
  CHECK(difference(y.value(), reals({3, 2}, {0.45, 0, 0.55, 0, 0, 0})) <= 1e-15);
  const Gradients gradients = backward(y, reals({3, 2}, {1, 7, 4, 8, 5, 9}));
  CHECK(identical(gradients[x], reals({3, 2}, {-1.5, 0, 1.5, 0, 0, 0})));
}

}  // namespace attune
