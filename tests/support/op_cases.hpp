// Every differentiable operation once: what to call it with, and what it should give. The value
// tests, the gradient tests and the op benchmark run this one list, so an operation added here is
// checked and timed.
#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <attune/autograd/ops.hpp>

#include "support/naive.hpp"

namespace attune {

struct OpCase {
  std::string group;
  std::string name;
  std::vector<Tensor> inputs;  // f64, off kinks, ten times as large too
  std::function<Var(const std::vector<Var>&)> f;
  std::function<Tensor(const std::vector<Tensor>&)> reference;  // by loops over elements
};

namespace op_cases_detail {

using Vars = std::vector<Var>;
using Tensors = std::vector<Tensor>;
using Cases = std::vector<OpCase>;

inline Tensor normal(const Shape& shape, std::uint64_t seed) {
  return randn(shape, DType::f64, seed);
}

/// A binary operation with every kind of broadcasting.
inline void add_binary(Cases& cases, const std::string& name, Var (*f)(const Var&, const Var&),
                       double (*reference)(double, double),
                       Tensor (*second)(const Shape&, std::uint64_t) = normal) {
  const std::pair<Shape, Shape> shapes[] = {{{3, 2, 5}, {3, 2, 5}}, {{3, 2, 5}, {5}},
                                            {{2, 5}, {3, 2, 5}},    {{3, 1, 5}, {2, 1}},
                                            {{}, {3, 2}},           {{2, 3}, {1, 1}}};
  std::uint64_t seed = 400;
  for (const auto& [a, b] : shapes) {
    cases.push_back({"arithmetic",
                     name + " " + to_string(a) + " " + to_string(b),
                     {normal(a, ++seed), second(b, ++seed)},
                     [f](const Vars& x) { return f(x[0], x[1]); },
                     [reference](const Tensors& x) { return naive::zip(x[0], x[1], reference); }});
  }
}

inline void add_unary(Cases& cases, const char* group, const std::string& name, const Tensor& x,
                      Var (*f)(const Var&), double (*reference)(double)) {
  cases.push_back({group,
                   name,
                   {x},
                   [f](const Vars& v) { return f(v[0]); },
                   [reference](const Tensors& v) { return naive::map(v[0], reference); }});
}

/// Every second element of the mask is 1, in each kind of broadcasting of three shapes.
inline void add_where(Cases& cases) {
  const std::array<Shape, 3> shapes[] = {{Shape{3, 2, 5}, Shape{3, 2, 5}, Shape{3, 2, 5}},
                                         {Shape{5}, Shape{3, 2, 5}, Shape{2, 1}},
                                         {Shape{3, 1, 1}, Shape{2, 5}, Shape{}},
                                         {Shape{4, 3}, Shape{1, 3}, Shape{4, 1}}};
  for (const auto& [m, a, b] : shapes) {
    naive::Array ones_and_zeros(m);
    double next = 0;
    naive::for_each_index(m, [&](const naive::At& at) { ones_and_zeros[at] = next = 1 - next; });
    const Tensor mask = ones_and_zeros.tensor();
    cases.push_back({"arithmetic",
                     "where " + to_string(m) + " " + to_string(a) + " " + to_string(b),
                     {normal(a, 431), normal(b, 432)},
                     [mask](const Vars& x) { return where(mask, x[0], x[1]); },
                     [mask](const Tensors& x) {
                       const auto keep = [](double m, double v) { return m != 0 ? v : 0; };
                       const auto drop = [](double m, double v) { return m != 0 ? 0 : v; };
                       return naive::zip(naive::zip(mask, x[0], keep), naive::zip(mask, x[1], drop),
                                         [](double p, double q) { return p + q; });
                     }});
  }
}

inline void add_arithmetic(Cases& cases) {
  using V = const Var&;
  add_binary(
      cases, "add", [](V a, V b) { return a + b; }, [](double a, double b) { return a + b; });
  add_binary(
      cases, "subtract", [](V a, V b) { return a - b; }, [](double a, double b) { return a - b; });
  add_binary(
      cases, "multiply", [](V a, V b) { return a * b; }, [](double a, double b) { return a * b; });
  add_binary(
      cases, "divide", [](V a, V b) { return a / b; }, [](double a, double b) { return a / b; },
      away_from_zero);
  add_binary(cases, "maximum", maximum, [](double a, double b) { return a > b ? a : b; });
  add_binary(cases, "minimum", minimum, [](double a, double b) { return a < b ? a : b; });
  add_where(cases);

  const char* group = "arithmetic";
  const Tensor x = away_from_zero({3, 2}, 3);
  add_unary(
      cases, group, "x + 1.5", x, [](V v) { return v + 1.5; }, [](double v) { return v + 1.5; });
  add_unary(
      cases, group, "x - 1.5", x, [](V v) { return v - 1.5; }, [](double v) { return v - 1.5; });
  add_unary(
      cases, group, "x * 1.5", x, [](V v) { return v * 1.5; }, [](double v) { return v * 1.5; });
  add_unary(
      cases, group, "x / 1.5", x, [](V v) { return v / 1.5; }, [](double v) { return v / 1.5; });
  add_unary(
      cases, group, "1.5 + x", x, [](V v) { return 1.5 + v; }, [](double v) { return 1.5 + v; });
  add_unary(
      cases, group, "1.5 - x", x, [](V v) { return 1.5 - v; }, [](double v) { return 1.5 - v; });
  add_unary(
      cases, group, "1.5 * x", x, [](V v) { return 1.5 * v; }, [](double v) { return 1.5 * v; });
  add_unary(
      cases, group, "1.5 / x", x, [](V v) { return 1.5 / v; }, [](double v) { return 1.5 / v; });
  add_unary(
      cases, group, "-x", x, [](V v) { return -v; }, [](double v) { return -v; });
  add_unary(
      cases, group, "x + x", x, [](V v) { return v + v; }, [](double v) { return 2 * v; });
  add_unary(
      cases, group, "x * x", x, [](V v) { return v * v; }, [](double v) { return v * v; });
  add_unary(
      cases, group, "x / x * x", x, [](V v) { return v / v * v; }, [](double v) { return v; });
}

inline void add_functions(Cases& cases) {
  const char* group = "functions";
  const Tensor x = randn({3, 2, 5}, DType::f64, 4);
  add_unary(cases, group, "exp", x, exp, [](double v) { return std::exp(v); });
  add_unary(cases, group, "log", positive({3, 2, 5}, 5), log, [](double v) { return std::log(v); });
  add_unary(cases, group, "tanh", x, tanh, [](double v) { return std::tanh(v); });
  add_unary(cases, group, "sigmoid", x, sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); });
  add_unary(cases, group, "softplus", x, softplus,
            [](double v) { return v > 30 ? v : std::log1p(std::exp(v)); });
  add_unary(cases, group, "gelu", x, gelu, [](double v) {
    return v / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
  });
  add_unary(cases, group, "relu", x, relu, [](double v) { return v > 0 ? v : 0; });
  add_unary(cases, group, "exp of a scalar", randn({}, DType::f64, 6), exp,
            [](double v) { return std::exp(v); });
  cases.push_back({group,
                   "maxout",
                   {randn({3, 2, 8}, DType::f64, 7)},
                   [](const Vars& v) { return maxout(v[0]); },
                   [](const Tensors& v) {
                     naive::Array y(Shape{3, 2, 4}), from(v[0]);
                     naive::for_each_index(y.shape(), [&](const naive::At& at) {
                       y[at] = std::max(from[at], from[{at[0], at[1], at[2] + 4}]);
                     });
                     return y.tensor();
                   }});
}

inline void add_powers(Cases& cases) {
  const char* group = "functions";
  const Tensor x = away_from_zero({3, 2, 5}, 8), above_zero = positive({3, 2, 5}, 9);
  add_unary(cases, group, "abs", x, abs, [](double v) { return v < 0 ? -v : v; });
  add_unary(cases, group, "square", x, square, [](double v) { return v * v; });
  add_unary(cases, group, "sqrt", above_zero, sqrt, [](double v) { return std::sqrt(v); });
  add_unary(
      cases, group, "power 3", x, [](const Var& v) { return power(v, 3); },
      [](double v) { return v * v * v; });
  add_unary(
      cases, group, "power 1", x, [](const Var& v) { return power(v, 1); },
      [](double v) { return v; });
  add_unary(
      cases, group, "power -2", x, [](const Var& v) { return power(v, -2); },
      [](double v) { return 1 / (v * v); });
  add_unary(
      cases, group, "power 2.5", above_zero, [](const Var& v) { return power(v, 2.5); },
      [](double v) { return v * v * std::sqrt(v); });
}

inline void add_products_with_sums(Cases& cases) {
  const auto add = [&](const std::string& name, const Shape& y, const Shape& a) {
    cases.push_back(
        {"products",
         "add_matmul " + name,
         {randn(y, DType::f64, 23), randn(a, DType::f64, 24), randn({4, 5}, DType::f64, 25)},
         [](const Vars& v) { return add_matmul(v[0], v[1], v[2]); },
         [](const Tensors& v) {
           return naive::zip(v[0], naive::matmul(v[1], v[2]), std::plus<double>());
         }});
  };
  add("to every row", {5}, {3, 4});
  add("to rows of rows", {5}, {2, 3, 4});
  add("to each of its own", {2, 3, 5}, {2, 3, 4});
  add("to one", {5}, {4});
}

inline void add_batched_products(Cases& cases) {
  const auto add = [&](const std::string& name, const Shape& a, const Shape& b,
                       Transpose transpose = {}) {
    cases.push_back({"products",
                     "batched_matmul " + name,
                     {randn(a, DType::f64, 27), randn(b, DType::f64, 28)},
                     [transpose](const Vars& v) { return batched_matmul(v[0], v[1], transpose); },
                     [transpose](const Tensors& v) {
                       return naive::batched_matmul(v[0], v[1], transpose.a, transpose.b);
                     }});
  };
  add("AB", {2, 3, 4}, {2, 4, 5});
  add("AᵀB", {2, 4, 3}, {2, 4, 5}, {.a = true});
  add("ABᵀ", {2, 3, 4}, {2, 5, 4}, {.b = true});
  add("AᵀBᵀ", {2, 4, 3}, {2, 5, 4}, {.a = true, .b = true});
  add("of one", {1, 3, 4}, {1, 4, 5});
  add("of a row", {3, 1, 4}, {3, 4, 5});
  add("with K = 1", {3, 2, 1}, {3, 1, 5});
  add("with two leading axes", {2, 3, 4, 5}, {2, 3, 5, 1});
  add("without leading axes", {3, 4}, {4, 5});
}

inline void add_products(Cases& cases) {
  const auto add = [&](const std::string& name, const Shape& a, const Shape& b,
                       Transpose transpose = {}) {
    cases.push_back({"products",
                     "matmul " + name,
                     {randn(a, DType::f64, 21), randn(b, DType::f64, 22)},
                     [transpose](const Vars& v) { return matmul(v[0], v[1], transpose); },
                     [transpose](const Tensors& v) {
                       return naive::matmul(transpose.a ? naive::transpose(v[0]) : v[0],
                                            transpose.b ? naive::transpose(v[1]) : v[1]);
                     }});
  };
  add("AB", {3, 4}, {4, 5});
  add("AᵀB", {4, 3}, {4, 5}, {.a = true});
  add("ABᵀ", {3, 4}, {5, 4}, {.b = true});
  add("AᵀBᵀ", {4, 3}, {5, 4}, {.a = true, .b = true});
  add("with folded axes", {2, 3, 4}, {4, 5});
  add("with folded axes and Bᵀ", {2, 3, 4}, {5, 4}, {.b = true});
  add("of a vector", {4}, {4, 5});
  add("of a vector and Bᵀ", {4}, {5, 4}, {.b = true});
  add("of one row", {1, 4}, {4, 5});
  add("with one column", {3, 4}, {4, 1});
  add("with K = 1", {3, 1}, {1, 5});
  cases.push_back({"products",
                   "matmul of x with itself",
                   {randn({4, 4}, DType::f64, 23)},
                   [](const Vars& v) { return matmul(v[0], v[0], {.b = true}); },
                   [](const Tensors& v) { return naive::matmul(v[0], naive::transpose(v[0])); }});
  cases.push_back({"products",
                   "matmul of a weight with two inputs",
                   {randn({4, 5}, DType::f64, 24), randn({3, 4}, DType::f64, 25),
                    randn({2, 4}, DType::f64, 26)},
                   [](const Vars& v) {
                     return concat({matmul(v[1], v[0]), matmul(v[2], v[0])}, 0);
                   },
                   [](const Tensors& v) {
                     naive::Array both(Shape{5, 4}), first(v[1]), second(v[2]);
                     naive::for_each_index(both.shape(), [&](const naive::At& at) {
                       both[at] = at[0] < 3 ? first[at] : second[{at[0] - 3, at[1]}];
                     });
                     return naive::matmul(both.tensor(), v[0]);
                   }});
}

inline void add_reductions(Cases& cases) {
  const auto add = [&](const Shape& shape, const std::vector<int>& axes,
                       const std::vector<int>& positive_axes, KeepAxes keep) {
    std::string name = to_string(shape) + " over";
    for (int axis : axes) name.append(" ").append(std::to_string(axis));
    if (axes.empty()) name += " all";
    if (keep == KeepAxes::yes) name += ", kept";
    double n = 1;
    for (int axis : positive_axes) n *= static_cast<double>(shape[axis]);
    const bool kept = keep == KeepAxes::yes;
    cases.push_back({"reductions",
                     "sum " + name,
                     {randn(shape, DType::f64, 31)},
                     [=](const Vars& v) { return sum(v[0], axes, keep); },
                     [=](const Tensors& v) { return naive::sum(v[0], positive_axes, kept); }});
    cases.push_back({"reductions",
                     "mean " + name,
                     {randn(shape, DType::f64, 32)},
                     [=](const Vars& v) { return mean(v[0], axes, keep); },
                     [=](const Tensors& v) {
                       return naive::map(naive::sum(v[0], positive_axes, kept),
                                         [n](double total) { return total / n; });
                     }});
  };
  for (KeepAxes keep : {KeepAxes::no, KeepAxes::yes}) {
    add({3, 2, 5}, {}, {0, 1, 2}, keep);
    add({3, 2, 5}, {0}, {0}, keep);
    add({3, 2, 5}, {1}, {1}, keep);
    add({3, 2, 5}, {-1}, {2}, keep);
    add({3, 2, 5}, {0, 2}, {0, 2}, keep);
    add({3, 2, 5}, {-2, 0}, {0, 1}, keep);
    add({3, 1, 5}, {1}, {1}, keep);
    add({2, 3, 1, 4}, {3, 1}, {1, 3}, keep);
  }
  add({}, {}, {}, KeepAxes::no);
}

/// Reductions along one axis, from the front and from the end, with and without keeping it.
inline void add_axis_reductions(Cases& cases) {
  const auto add = [&](const std::string& name, auto f, auto reference) {
    for (const auto& [axis, keep] :
         {std::pair{0, KeepAxes::no}, std::pair{1, KeepAxes::yes}, std::pair{2, KeepAxes::no},
          std::pair{-2, KeepAxes::no}, std::pair{-1, KeepAxes::yes}}) {
      const Tensor x = randn({3, 4, 5}, DType::f64, 33);
      const int along = axis < 0 ? axis + 3 : axis;
      const bool kept = keep == KeepAxes::yes;
      cases.push_back(
          {"reductions",
           name + " over " + std::to_string(axis) + (kept ? ", kept" : ""),
           {x},
           [f, axis = axis, keep = keep](const Vars& v) { return f(v[0], axis, keep); },
           [=](const Tensors& v) { return naive::along_axis(v[0], along, kept, reference); }});
    }
  };
  add(
      "max", [](const Var& x, int axis, KeepAxes keep) { return max(x, axis, keep); },
      [](const std::vector<double>& v) { return *std::ranges::max_element(v); });
  add(
      "norm", [](const Var& x, int axis, KeepAxes keep) { return norm(x, axis, keep); },
      [](const std::vector<double>& v) {
        return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0L));
      });
  add(
      "log_sum_exp",
      [](const Var& x, int axis, KeepAxes keep) { return log_sum_exp(x, axis, keep); },
      [](const std::vector<double>& v) {
        long double total = 0;
        for (double e : v) total += std::exp(static_cast<long double>(e));
        return static_cast<double>(std::log(total));
      });
}

inline void add_layer_norms(Cases& cases) {
  for (const Shape& shape : {Shape{3, 2, 5}, Shape{4, 19}, Shape{6}, Shape{130, 2}}) {
    const Index n = shape[-1];
    cases.push_back(
        {"normalisations",
         "layer_norm " + to_string(shape),
         {randn(shape, DType::f64, 44), randn({n}, DType::f64, 45), randn({n}, DType::f64, 46)},
         [](const Vars& v) { return layer_norm(v[0], v[1], v[2], 0.25); },
         [](const Tensors& v) { return naive::layer_norm(v[0], v[1], v[2], 0.25); }});
  }
}

/// Small numbers, so that supports have several elements; at ten times their size, few.
inline void add_sparsemaxes(Cases& cases) {
  const auto add = [&](const std::string& name, const Shape& shape, int axis,
                       const Tensor& mask = {}) {
    const int from_start = axis < 0 ? axis + shape.rank() : axis;
    const auto in = [mask](DType dtype) { return mask.defined() ? mask.to(dtype) : mask; };
    cases.push_back({"normalisations",
                     "sparsemax " + name,
                     {naive::map(randn(shape, DType::f64, 47), [](double v) { return 0.3 * v; })},
                     [=](const Vars& v) { return sparsemax(v[0], axis, in(v[0].dtype())); },
                     [=](const Tensors& v) { return naive::sparsemax(v[0], from_start, mask); }});
  };
  for (int axis : {0, 1, 2, -1}) add("over axis " + std::to_string(axis), {3, 4, 5}, axis);
  add("with a mask", {5, 3}, 0, mask_of(5, {2, 5, 4}));
  add("with a mask shared by heads", {2, 5, 3}, 1, mask_of(5, {2, 5, 4}));
  add("with a mask that is all 0 in a column", {5, 3}, 0, mask_of(5, {2, 0, 4}));
}

inline void add_normalisations(Cases& cases) {
  const char* group = "normalisations";
  for (int axis : {0, 1, 2}) {
    const std::string over = " over axis " + std::to_string(axis);
    cases.push_back({group,
                     "softmax" + over,
                     {randn({3, 4, 5}, DType::f64, 41)},
                     [axis](const Vars& v) { return softmax(v[0], axis); },
                     [axis](const Tensors& v) { return naive::softmax(v[0], axis); }});
    // log y, which at these sizes does not underflow
    cases.push_back({group,
                     "log_softmax" + over,
                     {randn({3, 4, 5}, DType::f64, 42)},
                     [axis](const Vars& v) { return log_softmax(v[0], axis); },
                     [axis](const Tensors& v) {
                       return naive::map(naive::softmax(v[0], axis),
                                         [](double y) { return std::log(y); });
                     }});
  }
  const auto add_masked = [&](const std::string& name, const Shape& shape, int axis,
                              const Tensor& mask) {
    const int from_start = axis < 0 ? axis + shape.rank() : axis;
    cases.push_back({group,
                     "softmax " + name,
                     {randn(shape, DType::f64, 43)},
                     [=](const Vars& v) { return softmax(v[0], axis, mask); },
                     [=](const Tensors& v) { return naive::softmax(v[0], from_start, mask); }});
  };
  add_masked("with a mask", {5, 3}, 0, mask_of(5, {2, 5, 4}));
  add_masked("with a mask shared by heads", {2, 5, 3}, 1, mask_of(5, {2, 5, 4}));
  add_masked("with a mask that is all 0 in a column", {5, 3}, 0, mask_of(5, {2, 0, 4}));
  add_masked("with a mask along the last axis", {3, 4}, -1,
             reals({3, 4}, {1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1}));
}

/// Axis i of the result is axis order[i] of the input.
inline void add_orders_of_axes(Cases& cases) {
  const auto add = [&](const std::string& name, const Shape& shape, const std::vector<int>& order,
                       std::function<Var(const Var&)> f) {
    cases.push_back({"arrangements",
                     name,
                     {randn(shape, DType::f64, 59)},
                     [f](const Vars& v) { return f(v[0]); },
                     [order](const Tensors& v) { return naive::permute(v[0], order); }});
  };
  for (const std::vector<int>& order :
       {std::vector{0, 1, 2}, std::vector{0, 2, 1}, std::vector{1, 0, 2}, std::vector{1, 2, 0},
        std::vector{2, 0, 1}, std::vector{2, 1, 0}}) {
    std::string name = "permute";
    for (int axis : order) name.append(" ").append(std::to_string(axis));
    add(name, {3, 4, 5}, order, [order](const Var& x) { return permute(x, order); });
  }
  add("permute with negative axes", {2, 3, 1, 4}, {3, 0, 2, 1}, [](const Var& x) {
    return permute(x, {-1, 0, -2, 1});
  });
  add("transpose", {3, 4}, {1, 0}, [](const Var& x) { return transpose(x, 0, 1); });
  add("transpose of axes 0 and -1", {3, 4, 5}, {2, 1, 0},
      [](const Var& x) { return transpose(x, 0, -1); });
  add("transpose of heads", {2, 3, 4, 5}, {0, 2, 1, 3},
      [](const Var& x) { return transpose(x, 2, 1); });
}

inline void add_splits(Cases& cases) {
  const Tensor x = randn({4, 6, 2}, DType::f64, 60);
  for (int axis : {0, 1, -2}) {
    const int along = axis < 0 ? axis + 3 : axis;
    cases.push_back({"arrangements",
                     "split of axis " + std::to_string(axis) + " in two",
                     {x},
                     [axis](const Vars& v) {
                       const Index half = v[0].dim(axis) / 2;
                       const std::vector<Var> parts = split(v[0], {half, half}, axis);
                       return parts[0] * parts[1];
                     },
                     [along](const Tensors& v) {
                       const Index half = v[0].dim(along) / 2;
                       return naive::zip(naive::slice(v[0], along, 0, half),
                                         naive::slice(v[0], along, half, 2 * half),
                                         std::multiplies<double>());
                     }});
  }
  cases.push_back({"arrangements",
                   "split into sizes, of which one is left out",
                   {x},
                   [](const Vars& v) {
                     const std::vector<Var> parts = split(v[0], {1, 3, 2}, 1);
                     return parts[0] - parts[2];
                   },
                   [](const Tensors& v) {
                     return naive::zip(naive::slice(v[0], 1, 0, 1), naive::slice(v[0], 1, 4, 6),
                                       std::minus<double>());
                   }});
}

/// Windows that overlap, that leave steps out, and that reach beyond both ends.
inline void add_unfolds(Cases& cases) {
  const auto add = [&](const Shape& shape, const UnfoldOptions& o) {
    cases.push_back({"arrangements",
                     "unfold " + to_string(shape) + " " + std::to_string(o.width) + " " +
                         std::to_string(o.stride) + " " + std::to_string(o.before) + " " +
                         std::to_string(o.after),
                     {randn(shape, DType::f64, 61)},
                     [o](const Vars& v) { return unfold(v[0], o); },
                     [o](const Tensors& v) {
                       const naive::Array x(v[0]);
                       const Index d = v[0].dim(2), steps = v[0].dim(0);
                       const Index windows = (steps + o.before + o.after - o.width) / o.stride + 1;
                       naive::Array y(Shape{windows, v[0].dim(1), o.width * d});
                       naive::for_each_index(y.shape(), [&](const naive::At& at) {
                         const Index t = at[0] * o.stride - o.before + at[2] / d;
                         y[at] = t < 0 || t >= steps ? 0 : x[{t, at[1], at[2] % d}];
                       });
                       return y.tensor();
                     }});
  };
  add({7, 2, 3}, {.width = 3});
  add({7, 2, 3}, {.width = 3, .stride = 2});
  add({7, 2, 3}, {.width = 2, .stride = 3});
  add({7, 2, 3}, {.width = 3, .stride = 2, .before = 2, .after = 1});
  add({2, 3, 4}, {.width = 5, .stride = 1, .before = 2, .after = 2});
  add({5, 3, 1}, {.width = 2, .stride = 2, .after = 1});
}

/// add(name, inputs, f, reference)
inline auto adder_of_arrangements(Cases& cases) {
  return [&](const std::string& name, std::vector<Tensor> inputs, std::function<Var(const Vars&)> f,
             std::function<Tensor(const Tensors&)> reference) {
    cases.push_back({"arrangements", name, std::move(inputs), std::move(f), std::move(reference)});
  };
}

inline void add_moves(Cases& cases) {
  const auto add = adder_of_arrangements(cases);
  const Tensor x = randn({3, 4, 5}, DType::f64, 51);
  add(
      "reshape", {x},
      [](const Vars& v) {
        return reshape(v[0], {5, 2, 6});
      },
      [](const Tensors& v) {
        return Tensor::of({5, 2, 6}, std::span<const double>(v[0].to_vector<double>()));
      });
  add(
      "reshape with -1", {x},
      [](const Vars& v) {
        return reshape(v[0], {-1, 5});
      },
      [](const Tensors& v) {
        return Tensor::of({12, 5}, std::span<const double>(v[0].to_vector<double>()));
      });
  for (int axis : {0, 1, 2, -1}) {
    add(
        "slice of axis " + std::to_string(axis), {x},
        [axis](const Vars& v) { return slice(v[0], axis, 1, 3); },
        [axis](const Tensors& v) { return naive::slice(v[0], axis < 0 ? 2 : axis, 1, 3); });
  }
  add(
      "row", {x}, [](const Vars& v) { return v[0][2]; },
      [](const Tensors& v) { return naive::sum(naive::slice(v[0], 0, 2, 3), {0}); });
  add(
      "overlapping slices", {x},
      [](const Vars& v) { return slice(v[0], 1, 0, 3) * slice(v[0], 1, 1, 4) + v[0][1][2]; },
      [](const Tensors& v) {
        naive::Array y(Shape{3, 3, 5}), from(v[0]);
        naive::for_each_index(y.shape(), [&](const naive::At& at) {
          y[at] = from[at] * from[{at[0], at[1] + 1, at[2]}] + from[{1, 2, at[2]}];
        });
        return y.tensor();
      });
  for (int axis : {0, 1, -1}) {
    const int along = axis < 0 ? 2 : axis;
    add(
        "pad of axis " + std::to_string(axis), {x},
        [axis](const Vars& v) { return pad(v[0], axis, 2, 1, 0.5); },
        [along](const Tensors& v) {
          const naive::Array from(v[0]);
          naive::Array y(v[0].shape().with(along, v[0].dim(along) + 3));
          naive::for_each_index(y.shape(), [&](const naive::At& at) {
            naive::At source = at;
            Index& place = source[static_cast<std::size_t>(along)];
            place -= 2;
            y[at] = place >= 0 && place < v[0].dim(along) ? from[source] : 0.5;
          });
          return y.tensor();
        });
  }
}

inline void add_joins(Cases& cases) {
  const auto add = adder_of_arrangements(cases);
  for (int axis : {0, 1, -1}) {
    Shape a{2, 3, 4}, b = a.with(axis, 1), c = a.with(axis, 5);
    add(
        "concat along axis " + std::to_string(axis),
        {randn(a, DType::f64, 52), randn(b, DType::f64, 53), randn(c, DType::f64, 54)},
        [axis](const Vars& v) {
          return concat({v[0], v[1], v[2], v[0]}, axis);
        },
        [axis](const Tensors& v) {
          const int along = axis < 0 ? 2 : axis;
          const Index ends[] = {v[0].dim(along), v[0].dim(along) + 1, v[0].dim(along) + 6,
                                2 * v[0].dim(along) + 6};
          naive::Array y(v[0].shape().with(along, ends[3]));
          naive::for_each_index(y.shape(), [&](const naive::At& at) {
            naive::At source = at;
            Index& place = source[static_cast<std::size_t>(along)];
            if (place < ends[0]) {
              y[at] = naive::Array(v[0])[source];
            } else if (place < ends[1]) {
              place -= ends[0];
              y[at] = naive::Array(v[1])[source];
            } else if (place < ends[2]) {
              place -= ends[1];
              y[at] = naive::Array(v[2])[source];
            } else {
              place -= ends[2];
              y[at] = naive::Array(v[0])[source];
            }
          });
          return y.tensor();
        });
  }
  add(
      "stack", {randn({3, 2}, DType::f64, 55), randn({3, 2}, DType::f64, 56)},
      [](const Vars& v) {
        return stack({v[0], v[1], v[0]});
      },
      [](const Tensors& v) {
        naive::Array y(Shape{3, 3, 2}), first(v[0]), second(v[1]);
        naive::for_each_index(y.shape(), [&](const naive::At& at) {
          y[at] = (at[0] == 1 ? second : first)[{at[1], at[2]}];
        });
        return y.tensor();
      });
}

inline void add_cumulative_sums(Cases& cases) {
  const auto add = adder_of_arrangements(cases);
  const Tensor x = randn({3, 4, 5}, DType::f64, 51);
  for (int axis : {0, 1, -1}) {
    const int along = axis < 0 ? 2 : axis;
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      const bool forward = direction == Direction::forward;
      add(
          std::string("cumsum ") + (forward ? "forward" : "backward") + " along axis " +
              std::to_string(axis),
          {x}, [=](const Vars& v) { return cumsum(v[0], axis, direction); },
          [along, forward](const Tensors& v) {
            const naive::Array from(v[0]);
            naive::Array y(v[0].shape());
            naive::for_each_index(y.shape(), [&](const naive::At& at) {
              const auto axis_of = static_cast<std::size_t>(along);
              const Index first = forward ? 0 : at[axis_of];
              const Index last = forward ? at[axis_of] : v[0].dim(along) - 1;
              naive::At source = at;
              for (Index i = first; i <= last; ++i) {
                source[axis_of] = i;
                y[at] += from[source];
              }
            });
            return y.tensor();
          });
    }
  }
}

inline void add_gathers(Cases& cases) {
  const auto add = adder_of_arrangements(cases);
  const Tensor ids = ints({2, 3}, {4, 0, 4, 1, 4, 2});
  add(
      "gather with repeated ids", {randn({6, 5}, DType::f64, 57)},
      [ids](const Vars& v) { return gather(v[0], ids); },
      [ids](const Tensors& v) {
        naive::Array y(Shape{2, 3, 5}), table(v[0]), id(ids);
        naive::for_each_index(y.shape(), [&](const naive::At& at) {
          y[at] = table[{static_cast<Index>(id[{at[0], at[1]}]), at[2]}];
        });
        return y.tensor();
      });
  add(
      "gather of matrices by one id", {randn({4, 2, 3}, DType::f64, 58)},
      [](const Vars& v) { return gather(v[0], ints({}, {3})); },
      [](const Tensors& v) { return naive::sum(naive::slice(v[0], 0, 3, 4), {0}); });
}

}  // namespace op_cases_detail

/// All operations of autograd/ops.hpp.
inline std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  op_cases_detail::add_arithmetic(cases);
  op_cases_detail::add_functions(cases);
  op_cases_detail::add_powers(cases);
  op_cases_detail::add_products(cases);
  op_cases_detail::add_products_with_sums(cases);
  op_cases_detail::add_batched_products(cases);
  op_cases_detail::add_reductions(cases);
  op_cases_detail::add_axis_reductions(cases);
  op_cases_detail::add_normalisations(cases);
  op_cases_detail::add_layer_norms(cases);
  op_cases_detail::add_sparsemaxes(cases);
  op_cases_detail::add_moves(cases);
  op_cases_detail::add_joins(cases);
  op_cases_detail::add_cumulative_sums(cases);
  op_cases_detail::add_gathers(cases);
  op_cases_detail::add_orders_of_axes(cases);
  op_cases_detail::add_splits(cases);
  op_cases_detail::add_unfolds(cases);
  return cases;
}

}  // namespace attune
