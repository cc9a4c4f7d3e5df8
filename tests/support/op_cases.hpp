// Every differentiable operation once: what to call it with, and what it should give. The value
// tests, the gradient tests and the op benchmark run this one list, so an operation added here is
// checked and timed.
#pragma once

#include <functional>
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

inline Tensor normal(const Shape& shape, std::uint64_t seed) { return randn(shape, seed); }

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
  const Tensor x = randn({3, 2, 5}, 4);
  add_unary(cases, group, "exp", x, exp, [](double v) { return std::exp(v); });
  add_unary(cases, group, "log", positive({3, 2, 5}, 5), log, [](double v) { return std::log(v); });
  add_unary(cases, group, "tanh", x, tanh, [](double v) { return std::tanh(v); });
  add_unary(cases, group, "sigmoid", x, sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); });
  add_unary(cases, group, "softplus", x, softplus,
            [](double v) { return v > 30 ? v : std::log1p(std::exp(v)); });
  add_unary(cases, group, "exp of a scalar", randn({}, 6), exp,
            [](double v) { return std::exp(v); });
  cases.push_back({group,
                   "maxout",
                   {randn({3, 2, 8}, 7)},
                   [](const Vars& v) { return maxout(v[0]); },
                   [](const Tensors& v) {
                     naive::Array y(Shape{3, 2, 4}), from(v[0]);
                     naive::for_each_index(y.shape(), [&](const naive::At& at) {
                       y[at] = std::max(from[at], from[{at[0], at[1], at[2] + 4}]);
                     });
                     return y.tensor();
                   }});
}

inline void add_products(Cases& cases) {
  const auto add = [&](const std::string& name, const Shape& a, const Shape& b,
                       Transpose transpose = {}) {
    cases.push_back({"products",
                     "matmul " + name,
                     {randn(a, 21), randn(b, 22)},
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
                   {randn({4, 4}, 23)},
                   [](const Vars& v) { return matmul(v[0], v[0], {.b = true}); },
                   [](const Tensors& v) { return naive::matmul(v[0], naive::transpose(v[0])); }});
  cases.push_back({"products",
                   "matmul of a weight with two inputs",
                   {randn({4, 5}, 24), randn({3, 4}, 25), randn({2, 4}, 26)},
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
                     {randn(shape, 31)},
                     [=](const Vars& v) { return sum(v[0], axes, keep); },
                     [=](const Tensors& v) { return naive::sum(v[0], positive_axes, kept); }});
    cases.push_back({"reductions",
                     "mean " + name,
                     {randn(shape, 32)},
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

inline void add_normalisations(Cases& cases) {
  const char* group = "normalisations";
  for (int axis : {0, 1, 2}) {
    const std::string over = " over axis " + std::to_string(axis);
    cases.push_back({group,
                     "softmax" + over,
                     {randn({3, 4, 5}, 41)},
                     [axis](const Vars& v) { return softmax(v[0], axis); },
                     [axis](const Tensors& v) { return naive::softmax(v[0], axis); }});
    // log y, which at these sizes does not underflow
    cases.push_back({group,
                     "log_softmax" + over,
                     {randn({3, 4, 5}, 42)},
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
                     {randn(shape, 43)},
                     [=](const Vars& v) { return softmax(v[0], axis, mask); },
                     [=](const Tensors& v) { return naive::softmax(v[0], from_start, mask); }});
  };
  add_masked("with a mask", {5, 3}, 0, mask_of(5, {2, 5, 4}));
  add_masked("with a mask shared by heads", {2, 5, 3}, 1, mask_of(5, {2, 5, 4}));
  add_masked("with a mask that is all 0 in a column", {5, 3}, 0, mask_of(5, {2, 0, 4}));
  add_masked("with a mask along the last axis", {3, 4}, -1,
             reals({3, 4}, {1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 1}));
}

inline void add_arrangements(Cases& cases) {
  const auto add = [&](const std::string& name, std::vector<Tensor> inputs,
                       std::function<Var(const Vars&)> f,
                       std::function<Tensor(const Tensors&)> reference) {
    cases.push_back({"arrangements", name, std::move(inputs), std::move(f), std::move(reference)});
  };
  const Tensor x = randn({3, 4, 5}, 51);
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
    Shape a{2, 3, 4}, b = a.with(axis, 1), c = a.with(axis, 5);
    add(
        "concat along axis " + std::to_string(axis), {randn(a, 52), randn(b, 53), randn(c, 54)},
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
      "stack", {randn({3, 2}, 55), randn({3, 2}, 56)},
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
  const Tensor ids = ints({2, 3}, {4, 0, 4, 1, 4, 2});
  add(
      "gather with repeated ids", {randn({6, 5}, 57)},
      [ids](const Vars& v) { return gather(v[0], ids); },
      [ids](const Tensors& v) {
        naive::Array y(Shape{2, 3, 5}), table(v[0]), id(ids);
        naive::for_each_index(y.shape(), [&](const naive::At& at) {
          y[at] = table[{static_cast<Index>(id[{at[0], at[1]}]), at[2]}];
        });
        return y.tensor();
      });
  add(
      "gather of matrices by one id", {randn({4, 2, 3}, 58)},
      [](const Vars& v) { return gather(v[0], ints({}, {3})); },
      [](const Tensors& v) { return naive::sum(naive::slice(v[0], 0, 3, 4), {0}); });
}

}  // namespace op_cases_detail

/// All operations of autograd/ops.hpp.
inline std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  op_cases_detail::add_arithmetic(cases);
  op_cases_detail::add_functions(cases);
  op_cases_detail::add_products(cases);
  op_cases_detail::add_reductions(cases);
  op_cases_detail::add_normalisations(cases);
  op_cases_detail::add_arrangements(cases);
  return cases;
}

}  // namespace attune
