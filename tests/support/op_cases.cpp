#include "support/op_cases.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/autograd/reference.hpp>

namespace attune {

OpInput::OpInput(const std::string& text) {
  const std::map<std::string, Kind> kinds{
      {"~", Kind::away_from_zero}, {"+", Kind::positive}, {"mask", Kind::mask}};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word.starts_with("ids<")) {
      kind = Kind::ids, below = word.substr(4);
    } else if (const auto found = kinds.find(word); found != kinds.end()) {
      kind = found->second;
    } else {
      extents.push_back(word);
    }
  }
}

Tensor OpInput::draw(std::uint64_t seed) const {
  const auto letter = [](char c) {
    constexpr std::string_view letters = "ABCDHKMNSTUVW";  // distinct within an operation
    constexpr Index of[] = {3, 2, 5, 4, 3, 4, 3, 5, 5, 4, 2, 6, 3};
    return of[letters.find(c)];
  };
  if (kind == Kind::fixed) return value;
  const Shape size = shape(letter);
  if (kind == Kind::away_from_zero) return away_from_zero(size, seed);
  if (kind == Kind::positive) return positive(size, seed);
  const Tensor x = randn(size, DType::f64, seed);
  if (kind == Kind::mask) {  // at least one 1, and a 0 if it has a second element
    Tensor mask = naive::map(x, [](double v) { return v > -0.5; });
    for (Index i = 0; i < std::min<Index>(2, x.size()); ++i)
      mask.mutable_data<double>()[i] = i == 0 ? 1 : 0;
    return mask;
  }
  if (kind == Kind::normal) return x;
  const Index limit = extent(below, letter);
  const auto id = [&](double v) { return static_cast<Index>(std::abs(v) * 1e3) % limit; };
  return naive::map(x, id).to(DType::i32);
}

namespace {

using Vars = std::vector<Var>;
using V = const Var&;

/// A function of the inputs, v[i] or as a tensor t(i).
#define OF(...)                                                            \
  [=](const Vars& v) -> Var {                                              \
    const auto t = [&v](std::size_t i) -> Tensor { return v[i].value(); }; \
    static_cast<void>(t);                                                  \
    return __VA_ARGS__;                                                    \
  }

struct List {
  std::vector<OpCase> cases = {};
  std::string group = {};

  void add(const std::string& name, const std::vector<OpInput>& inputs, const Function& f,
           const Function& reference, double largest = 10) {
    OpCase& op = cases.emplace_back(OpCase{group, name, inputs, f, reference, largest});
    std::uint64_t seed = Random(3, name).bits();  // independent of the other cases
    for (const OpInput& input : inputs)
      (input.differentiable() ? op.inputs : op.constants).push_back(input.draw(++seed));
  }
};

void add_arithmetic(List& list) {
  list.group = "arithmetic";
  const struct {
    const char *name, *kind;  // of the second input
    Var (*f)(V, V);
    double (*reference)(double, double);
  } operations[] = {
      {"add", "", [](V a, V b) { return a + b; }, [](double a, double b) { return a + b; }},
      {"subtract", "", [](V a, V b) { return a - b; }, [](double a, double b) { return a - b; }},
      {"multiply", "", [](V a, V b) { return a * b; }, [](double a, double b) { return a * b; }},
      {"divide", "~ ", [](V a, V b) { return a / b; }, [](double a, double b) { return a / b; }},
      {"maximum", "", maximum, [](double a, double b) { return a > b ? a : b; }},
      {"minimum", "", minimum, [](double a, double b) { return a < b ? a : b; }}};
  for (const auto& [name, kind, f, reference] : operations) {
    for (const auto& [a, b] : {std::pair{"A B C", "A B C"},
                               {"A B C", "C"},
                               {"B C", "A B C"},
                               {"A 1 C", "B 1"},
                               {"", "A B"},
                               {"A B C", "1 1"}}) {
      list.add(
          fmt::format("{} ({}) ({})", name, a, b), {a, std::string(kind) + b},
          [f = f](const Vars& v) { return f(v[0], v[1]); },
          [g = reference](const Vars& v) { return naive::zip(v[0].value(), v[1].value(), g); });
    }
  }
  for (const auto& [a, b] : {std::pair{"+ A B C", "A B C"}, {"+ A 1 C", "B 1"}, {"+ C", "A B C"}})
    list.add(fmt::format("power ({}) ({})", a, b), {a, b}, OF(power(v[0], v[1])),
             OF(naive::zip(t(0), t(1), [](double x, double p) { return std::pow(x, p); })), 2);
  const char* masked[][3] = {{"A B C", "A B C", "A B C"},
                             {"C", "A B C", "B 1"},
                             {"A 1 1", "B C", ""},
                             {"D A", "1 A", "D 1"}};
  for (const auto& [mask, a, b] : masked) {
    list.add(fmt::format("where ({}) ({}) ({})", mask, a, b), {a, b, fmt::format("mask {}", mask)},
             OF(where(t(2), v[0], v[1])), OF(v[2] * v[0] + (1 - v[2]) * v[1]));
  }
}

/// Elementwise functions of one input.
void add_functions(List& list) {
  list.group = "functions";
  const struct {
    const char *name, *x;
    Var (*f)(V);
    double (*reference)(double);
  } functions[] = {
      {"x + 1.5", "A B", [](V x) { return x + 1.5; }, [](double x) { return x + 1.5; }},
      {"x - 1.5", "A B", [](V x) { return x - 1.5; }, [](double x) { return x - 1.5; }},
      {"x * 1.5", "A B", [](V x) { return x * 1.5; }, [](double x) { return x * 1.5; }},
      {"x / 1.5", "A B", [](V x) { return x / 1.5; }, [](double x) { return x / 1.5; }},
      {"1.5 + x", "A B", [](V x) { return 1.5 + x; }, [](double x) { return 1.5 + x; }},
      {"1.5 - x", "A B", [](V x) { return 1.5 - x; }, [](double x) { return 1.5 - x; }},
      {"1.5 * x", "A B", [](V x) { return 1.5 * x; }, [](double x) { return 1.5 * x; }},
      {"1.5 / x", "~ A B", [](V x) { return 1.5 / x; }, [](double x) { return 1.5 / x; }},
      {"-x", "A B", [](V x) { return -x; }, [](double x) { return -x; }},
      {"x + x", "A B", [](V x) { return x + x; }, [](double x) { return 2 * x; }},
      {"x * x", "A B", [](V x) { return x * x; }, [](double x) { return x * x; }},
      {"x / x * x", "~ A B", [](V x) { return x / x * x; }, [](double x) { return x; }},
      {"exp", "A B C", exp, [](double x) { return std::exp(x); }},
      {"exp of a scalar", "", exp, [](double x) { return std::exp(x); }},
      {"log", "+ A B C", log, [](double x) { return std::log(x); }},
      {"tanh", "A B C", tanh, [](double x) { return std::tanh(x); }},
      {"sigmoid", "A B C", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"softplus", "A B C", softplus, [](double x) { return std::log1p(std::exp(x)); }},
      {"expm1", "A B C", expm1, [](double x) { return std::exp(x) - 1; }},
      {"log1p", "+ A B C", log1p, [](double x) { return std::log(1 + x); }},
      {"sin", "A B C", sin, [](double x) { return std::sin(x); }},
      {"cos", "A B C", cos, [](double x) { return std::cos(x); }},
      {"atan", "A B C", atan, [](double x) { return std::atan(x); }},
      {"erf", "A B C", erf, [](double x) { return std::erf(x); }},
      {"silu", "A B C", silu, [](double x) { return x / (1 + std::exp(-x)); }},
      {"x sign(x)", "~ A B C", [](V x) { return x * sign(x); },
       [](double x) { return std::abs(x); }},
      {"leaky_relu", "~ A B C", [](V x) { return leaky_relu(x, 0.1); },
       [](double x) { return x > 0 ? x : 0.1 * x; }},
      {"clamp", "A B C", [](V x) { return clamp(x, -0.7, 1.1); },
       [](double x) { return std::clamp(x, -0.7, 1.1); }},
      {"maximum with a number", "~ A B C", [](V x) { return maximum(x, 0); },
       [](double x) { return std::max(x, 0.0); }},
      {"gelu", "A B C", gelu,
       [](double x) {
         return x / 2 *
                (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
       }},
      {"relu", "~ A B C", relu, [](double x) { return x > 0 ? x : 0; }},
      {"abs", "~ A B C", abs, [](double x) { return x < 0 ? -x : x; }},
      {"square", "A B C", square, [](double x) { return x * x; }},
      {"sqrt", "+ A B C", sqrt, [](double x) { return std::sqrt(x); }},
      {"maximum of a number", "~ A B C", [](V x) { return maximum(0.25, x) + minimum(0.5, x); },
       [](double x) { return std::max(0.25, x) + std::min(0.5, x); }},
      {"power of a number", "~ A B C", [](V x) { return power(2.0, x); },
       [](double x) { return std::exp2(x); }},
      {"power 3", "A B C", [](V x) { return power(x, 3); }, [](double x) { return x * x * x; }},
      {"power 1", "A B C", [](V x) { return power(x, 1); }, [](double x) { return x; }},
      {"power -2", "~ A B C", [](V x) { return power(x, -2); },
       [](double x) { return 1 / (x * x); }},
      {"power 2.5", "+ A B C", [](V x) { return power(x, 2.5); },
       [](double x) { return std::pow(x, 2.5); }},
  };
  for (const auto& [name, x, f, reference] : functions) {
    list.add(
        name, {x}, [f = f](const Vars& v) { return f(v[0]); },
        [g = reference](const Vars& v) { return naive::map(v[0].value(), g); });
  }
  list.add("maxout", {"A B 2D"}, OF(maxout(v[0])),
           OF(maximum(slice(v[0], -1, 0, 4), slice(v[0], -1, 4, 8))));
}

void add_products(List& list) {
  list.group = "products";
  const auto matrix = [&](const char* name, const char* a, const char* b, Transpose o = {}) {
    list.add(fmt::format("matmul {}", name), {a, b}, OF(matmul(v[0], v[1], o)),
             OF(naive::batched_matmul(t(0), t(1), o.a, o.b)));
  };
  matrix("AB", "M K", "K N");
  matrix("AᵀB", "K M", "K N", {.a = true});
  matrix("ABᵀ", "M K", "N K", {.b = true});
  matrix("AᵀBᵀ", "K M", "N K", {.a = true, .b = true});
  matrix("with folded axes", "B M K", "K N");
  matrix("with folded axes and Bᵀ", "B M K", "N K", {.b = true});
  matrix("of a vector", "K", "K N");
  matrix("of a vector and Bᵀ", "K", "N K", {.b = true});
  matrix("of one row", "1 K", "K N");
  matrix("with one column", "M K", "K 1");
  matrix("with K = 1", "M 1", "1 N");
  list.add("matmul of x with itself", {"K K"}, OF(matmul(v[0], v[0], {.b = true})),
           OF(naive::batched_matmul(t(0), t(0), false, true)));
  list.add("matmul of a weight with two inputs", {"K N", "M K", "B K"},
           OF(concat({matmul(v[1], v[0]), matmul(v[2], v[0])}, 0)),
           OF(matmul(concat({v[1], v[2]}, 0), v[0])));
  const auto add_to = [&](const char* name, const char* y, const char* a) {
    list.add(fmt::format("add_matmul {}", name), {y, a, "K N"}, OF(add_matmul(v[0], v[1], v[2])),
             OF(naive::zip(t(0), naive::matmul(t(1), t(2)), std::plus<double>())));
  };
  add_to("to every row", "N", "M K");
  add_to("to rows of rows", "N", "B M K");
  add_to("to each of its own", "B M N", "B M K");
  add_to("to one", "N", "K");
  const auto batched = [&](const char* name, const char* a, const char* b, Transpose o = {}) {
    list.add(fmt::format("batched_matmul {}", name), {a, b}, OF(batched_matmul(v[0], v[1], o)),
             OF(naive::batched_matmul(t(0), t(1), o.a, o.b)));
  };
  batched("AB", "B M K", "B K N");
  batched("AᵀB", "B K M", "B K N", {.a = true});
  batched("ABᵀ", "B M K", "B N K", {.b = true});
  batched("AᵀBᵀ", "B K M", "B N K", {.a = true, .b = true});
  batched("of one", "1 M K", "1 K N");
  batched("of a row", "B 1 K", "B K N");
  batched("with K = 1", "B M 1", "B 1 N");
  batched("with two leading axes", "B A D C", "B A C 1");
  batched("without leading axes", "M K", "K N");
  const Function sum_of_products =
      OF(sum(unsqueeze(v[0], -1) * unsqueeze(v[1], v[1].rank() - 2), -2));
  list.add("batched_matmul with broadcast axes", {"B 1 M K", "A K N"},
           OF(batched_matmul(v[0], v[1])), sum_of_products);
  list.add("batched_matmul with broadcast axes and transposes", {"K M", "B N K"},
           OF(batched_matmul(v[0], v[1], {.a = true, .b = true})),
           OF(sum_of_products({transpose(v[0], 0, 1), transpose(v[1], 1, 2)})));
}

void add_reductions(List& list) {
  list.group = "reductions";
  /// Reductions over axes; `positive` has the same axes, counted from the front.
  const auto over = [&](const char* x, const std::vector<int>& axes,
                        const std::vector<int>& positive) {
    for (const KeepAxes keep : {KeepAxes::no, KeepAxes::yes}) {
      const bool kept = keep == KeepAxes::yes;
      const std::string name = fmt::format("({}) over {}{}", x, axes, kept ? ", kept" : "");
      const Function total = OF(naive::sum(t(0), positive, kept));
      list.add("sum " + name, {x}, OF(sum(v[0], axes, keep)), total);
      list.add(
          "mean " + name, {x}, OF(mean(v[0], axes, keep)),
          OF(total(v) * (static_cast<double>(total(v).size()) / static_cast<double>(v[0].size()))));
    }
  };
  over("A B C", {}, {0, 1, 2});
  over("A B C", {0}, {0});
  over("A B C", {1}, {1});
  over("A B C", {-1}, {2});
  over("A B C", {0, 2}, {0, 2});
  over("A B C", {-2, 0}, {0, 1});
  over("A 1 C", {1}, {1});
  over("B A 1 D", {3, 1}, {1, 3});
  over("", {}, {});

  using Line = const std::vector<double>&;
  const auto over_two = [&](const char* name, Var (*f)(V, const Axes&, KeepAxes),
                            double (*reference)(Line)) {
    list.add(
        fmt::format("{} over two axes, kept", name), {"A D C"}, OF(f(v[0], {-1, 0}, KeepAxes::yes)),
        OF(naive::along_axis(naive::permute(t(0), {1, 0, 2}).reshape({4, 15}), 1, true, reference)
               .reshape({1, 4, 1})));
    list.add(fmt::format("{} over all axes", name), {"A D C"}, OF(f(v[0], {}, KeepAxes::no)),
             OF(naive::along_axis(t(0).reshape({60}), 0, false, reference)));
  };
  const auto along = [&](const char* name, const auto& f, double (*reference)(Line)) {
    for (const auto& [axis, keep] : {std::pair{0, KeepAxes::no},
                                     {1, KeepAxes::yes},
                                     {2, KeepAxes::no},
                                     {-2, KeepAxes::no},
                                     {-1, KeepAxes::yes}}) {
      const bool kept = keep == KeepAxes::yes;
      const int positive = axis < 0 ? axis + 3 : axis;
      list.add(
          fmt::format("{} over {}{}", name, axis, kept ? ", kept" : ""), {"A D C"},
          [f, axis = axis, keep = keep](const Vars& v) { return f(v[0], axis, keep); },
          OF(naive::along_axis(t(0), positive, kept, reference)));
    }
  };
  const auto extreme = [&](const char* name, Var (*f)(V, const Axes&, KeepAxes),
                           double (*reference)(Line)) {
    along(name, f, reference);
    over_two(name, f, reference);
  };
  extreme("max", max, [](Line x) { return *std::ranges::max_element(x); });
  extreme("min", min, [](Line x) { return *std::ranges::min_element(x); });
  extreme("prod", prod,
          [](Line x) { return std::accumulate(x.begin(), x.end(), 1.0, std::multiplies<>()); });
  using Spread = Var (*)(V, const Axes&, KeepAxes);
  const auto variance = [](Line x) {
    const auto n = static_cast<double>(x.size());
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
    double total = 0;
    for (const double e : x) total += (e - mean) * (e - mean);
    return total / (n - 1);
  };
  extreme("var", Spread([](V x, const Axes& axes, KeepAxes keep) { return var(x, axes, keep); }),
          variance);
  over_two("std", Spread([](V x, const Axes& axes, KeepAxes keep) { return std(x, axes, keep); }),
           [](Line x) {
             const auto n = static_cast<double>(x.size());
             double total = 0, squares = 0;
             for (const double e : x) total += e, squares += e * e;
             return std::sqrt((squares - total * total / n) / (n - 1));
           });
  extreme("norm", norm,
          [](Line x) { return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)); });
  extreme("log_sum_exp", log_sum_exp, [](Line x) {
    return std::log(std::accumulate(x.begin(), x.end(), 0.0,
                                    [](double total, double e) { return total + std::exp(e); }));
  });
}

void add_normalisations(List& list) {
  list.group = "normalisations";
  for (const int axis : {0, 1, 2}) {
    const std::string over = fmt::format(" over axis {}", axis);
    list.add("softmax" + over, {"A D C"}, OF(softmax(v[0], axis)),
             OF(reference::softmax(v[0], axis)));
    list.add("log_softmax" + over, {"A D C"}, OF(log_softmax(v[0], axis)),
             OF(reference::log_softmax(v[0], axis)));
    list.add("sparsemax" + over, {"A D C"}, OF(sparsemax(0.3 * v[0], axis)),
             OF(reference::sparsemax(0.3 * v[0], axis)), 3);
  }
  const auto masked = [&](const std::string& name, const char* x, int axis, const OpInput& mask) {
    const int positive = axis < 0 ? axis + 2 : axis;
    list.add("softmax " + name, {x, mask}, OF(softmax(v[0], axis, t(1))),
             OF(naive::softmax(t(0), positive, t(1))));
    list.add("sparsemax " + name, {x, mask}, OF(sparsemax(0.3 * v[0], axis, t(1))),
             OF(reference::sparsemax(0.3 * v[0], axis, t(1))), 3);
  };
  masked("with a mask", "S A", 0, "mask S A");
  masked("with a mask shared by heads", "B S A", 1, "mask S A");
  masked("with a mask that is all 0 in a column", "5 3", 0, mask_of(5, {2, 0, 4}));
  masked("with a mask along the last axis", "A V", -1, "mask A V");
  list.add("softmax with a mask, and its meaning", {"5 3", mask_of(5, {5, 2, 4})},
           OF(softmax(v[0], 1, t(1))), OF(reference::softmax(v[0], 1, t(1))));
  for (const auto& [x, n] : {std::pair{"A B C", "C"}, {"D 19", "19"}, {"6", "6"}, {"130 2", "2"}}) {
    list.add(fmt::format("layer_norm ({})", x), {x, n, n}, OF(layer_norm(v[0], v[1], v[2], 0.25)),
             OF(reference::layer_norm(v[0], v[1], v[2], 0.25)));
  }
  list.add("unit_vectors", {"A B C"}, OF(unit_vectors(v[0])),
           OF(v[0] / norm(v[0], -1, KeepAxes::yes)));
}

/// (ids, n): one-hot rows for the n rows of x; zeros if the id is -1.
Tensor one_hot(const Tensor& ids, V x) {
  return equal(ids.reshape(ids.shape().inserted(-1, 1)), arange(x.dim(0))).to(x.dtype());
}

/// Each reference is composed of other operations; tests/tensor checks the values of the kernels.
void add_arrangements(List& list) {
  list.group = "arrangements";
  const auto order = [&](const char* name, const char* x, const std::vector<int>& axes,
                         const Function& f) {
    list.add(fmt::format("{} {}", name, axes), {x}, f, OF(naive::permute(t(0), axes)));
  };
  for (std::vector<int> axes{0, 1, 2}; std::next_permutation(axes.begin(), axes.end());)
    order("permute", "A D C", axes, OF(permute(v[0], axes)));
  order("permute from the end", "B A 1 D", {3, 0, 2, 1}, OF(permute(v[0], {-1, 0, -2, 1})));
  order("transpose", "A D", {1, 0}, OF(transpose(v[0], 0, 1)));
  order("transpose from the end", "A D C", {2, 1, 0}, OF(transpose(v[0], 0, -1)));
  order("transpose of heads", "B A D C", {0, 2, 1, 3}, OF(transpose(v[0], 2, 1)));
  list.add("reshape", {"A D C"}, OF(reshape(v[0], {5, 2, 6})), OF(t(0).reshape({5, 2, 6})));
  list.add("reshape with -1", {"A D C"}, OF(reshape(v[0], {-1, 5})), OF(t(0).reshape({12, 5})));
  list.add("row", {"A D C"}, OF(v[0][2]), OF(sum(slice(v[0], 0, 2, 3), {0})));
  list.add("overlapping slices", {"A D C"},
           OF(slice(v[0], 1, 0, 3) * slice(v[0], 1, 1, 4) + v[0][1][2]),
           OF(naive::zip(naive::zip(naive::slice(t(0), 1, 0, 3), naive::slice(t(0), 1, 1, 4),
                                    std::multiplies<double>()),
                         naive::slice(naive::slice(t(0), 0, 1, 2), 1, 2, 3), std::plus<double>())));
  for (const int axis : {0, 1, -1}) {
    const std::string along = fmt::format(" along axis {}", axis);
    const int positive = axis < 0 ? 2 : axis;
    list.add("slice" + along, {"A D C"}, OF(slice(v[0], axis, 1, 3)),
             OF(naive::slice(t(0), positive, 1, 3)));
    list.add("pad" + along, {"A D C"}, OF(pad(v[0], axis, 2, 1, 0.5)),
             OF(concat({Var(full(t(0).shape().with(axis, 2), 0.5, v[0].dtype())), v[0],
                        full(t(0).shape().with(axis, 1), 0.5, v[0].dtype())},
                       axis)));
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      const bool forward = direction == Direction::forward;
      list.add(fmt::format("cumsum{}{}", along, forward ? "" : ", backward"), {"A D C"},
               OF(cumsum(v[0], axis, direction)), [=](const Vars& v) {
                 Vars sums;
                 for (Index i = 0, n = v[0].dim(axis); i < n; ++i)
                   sums.push_back(sum(slice(v[0], axis, forward ? 0 : i, forward ? i + 1 : n),
                                      {axis}, KeepAxes::yes));
                 return concat(sums, axis);
               });
    }
    list.add("cumprod" + along, {"A D C"}, OF(cumprod(v[0], axis)), [=](const Vars& v) {
      Vars products;
      for (Index i = 0; i < v[0].dim(axis); ++i)
        products.push_back(prod(slice(v[0], axis, 0, i + 1), {axis}, KeepAxes::yes));
      return concat(products, axis);
    });
    const auto with = [&](Index n) {
      return fmt::format("{}", fmt::join(Shape{2, 3, 4}.with(axis, n), " "));
    };
    const Index n = Shape{2, 3, 4}[axis];
    list.add("concat" + along, {with(n), with(1), with(5)},
             OF(concat({v[0], v[1], v[2], v[0]}, axis)),
             OF(pad(v[0], axis, 0, n + 6) + pad(v[1], axis, n, n + 5) + pad(v[2], axis, n + 1, n) +
                pad(v[0], axis, n + 6, 0)));
    list.add(
        "split in two" + along, {"D 6 B"},
        [axis](const Vars& v) {
          const auto [a, b] = split<2>(v[0], axis);
          return a * b;
        },
        [axis](const Vars& v) {
          const Index n = v[0].dim(axis);
          return slice(v[0], axis, 0, n / 2) * slice(v[0], axis, n / 2, n);
        });
  }
  list.add("split into sizes, of which one is left out", {"D 6 B"},
           OF(split(v[0], {1, 3, 2}, 1)[2] - split(v[0], {1, 3, 2}, 1)[0]),
           OF(slice(v[0], 1, 4, 6) - slice(v[0], 1, 0, 1)));
  list.add("stack", {"A B", "A B"}, OF(stack({v[0], v[1], v[0]})),
           OF(reshape(concat({v[0], v[1], v[0]}, 0), {3, v[0].dim(0), v[0].dim(1)})));
  list.add("gather with repeated ids", {"V C", ints({2, 2}, {4, 0, 4, 1})}, OF(gather(v[0], t(1))),
           OF(matmul(one_hot(t(1), v[0]), v[0])));
  list.add("gather", {"V C", "ids<V B A"}, OF(gather(v[0], t(1))),
           OF(matmul(one_hot(t(1), v[0]), v[0])));
  list.add("gather of matrices by one id", {"D B A", ints({}, {3})}, OF(gather(v[0], t(1))),
           OF(v[0][3]));
  // Windows that overlap, that skip steps, and that extend beyond both ends.
  const auto windows = [&](const char* x, const UnfoldOptions& o) {
    list.add(fmt::format("unfold ({}) {} {} {} {}", x, o.width, o.stride, o.before, o.after), {x},
             OF(unfold(v[0], o)), [o](const Vars& v) {
               const Var padded = pad(v[0], 0, o.before, o.after);
               Vars steps;
               for (Index at = 0; at + o.width <= padded.dim(0); at += o.stride) {
                 Vars window;
                 for (Index i = 0; i < o.width; ++i) window.push_back(padded[at + i]);
                 steps.push_back(concat(window, -1));
               }
               return stack(steps);
             });
  };
  windows("7 B A", {.width = 3});
  windows("7 B A", {.width = 3, .stride = 2});
  windows("7 B A", {.width = 2, .stride = 3});
  windows("7 B A", {.width = 3, .stride = 2, .before = 2, .after = 1});
  windows("B A D", {.width = 5, .stride = 1, .before = 2, .after = 2});
  windows("S A 1", {.width = 2, .stride = 2, .after = 1});
}

/// Each reference is a loop over elements, or composed of other operations.
void add_indexing(List& list) {
  using naive::At;
  list.group = "indexing";
  const auto moved = [&](const char* name, const char* x, const Function& f, const Shape& shape,
                         const std::function<At(At)>& source) {
    list.add(name, {x}, f, OF(naive::moved(t(0), shape, source)));
  };
  moved("flip", "A D C", OF(flip(v[0], {0, -1})), {3, 4, 5}, [](At at) {
    return At{2 - at[0], at[1], 4 - at[2]};
  });
  moved("flip of all axes", "A D C", OF(flip(v[0])), {3, 4, 5}, [](At at) {
    return At{2 - at[0], 3 - at[1], 4 - at[2]};
  });
  moved("roll", "A D C", OF(roll(v[0], -6, 1)), {3, 4, 5}, [](At at) {
    return At{at[0], (at[1] + 6) % 4, at[2]};
  });
  moved("repeat", "A D C", OF(repeat(v[0], 3, -2)), {3, 12, 5}, [](At at) {
    return At{at[0], at[1] / 3, at[2]};
  });
  moved("broadcast_to", "A 1 C", OF(broadcast_to(v[0], {2, 3, 4, 5})), {2, 3, 4, 5}, [](At at) {
    return At{at[1], 0, at[3]};
  });
  moved("unsqueeze and squeeze", "A 1 C", OF(unsqueeze(squeeze(v[0], -2), -1)), {3, 5, 1},
        [](At at) {
          return At{at[0], 0, at[1]};
        });
  moved("stack along the last axis", "A D", OF(stack({v[0], v[0]}, -1)), {3, 4, 2}, [](At at) {
    return At{at[0], at[1]};
  });
  moved("row from the end", "A D C", OF(v[0][-1]), {4, 5}, [](At at) {
    return At{2, at[0], at[1]};
  });
  moved("slice from the end", "A D C", OF(slice(v[0], 1, -3, -1)), {3, 2, 5}, [](At at) {
    return At{at[0], at[1] + 1, at[2]};
  });
  list.add("tril", {"B A D"}, OF(tril(v[0], 1)), [](const Vars& v) -> Var {
    naive::Array y(v[0].value());
    naive::for_each_index(v[0].shape(), [&](const At& at) { y[at] *= at[2] <= at[1] + 1; });
    return y.tensor(v[0].dtype());
  });
  list.add("triu", {"A D"}, OF(triu(v[0]) + tril(v[0], -1)), OF(t(0)));
  list.add("gather along axis 1", {"B V C", "ids<V A A"}, OF(gather(v[0], t(1), 1)),
           OF(permute(gather(permute(v[0], {1, 0, 2}), t(1)), {2, 0, 1, 3})));
  list.add("scatter_add", {"V C", "A C", ints({3}, {4, 1, 4})}, OF(scatter_add(v[0], t(2), v[1])),
           OF(v[0] + matmul(one_hot(t(2), v[0]), v[1], {.a = true})));
  list.add("scatter_add along axis 1", {"B V C", "B A C", ints({3}, {4, 1, 4})},
           OF(scatter_add(v[0], t(2), v[1], 1)),
           OF(permute(scatter_add(permute(v[0], {1, 0, 2}), t(2), permute(v[1], {1, 0, 2})),
                      {1, 0, 2})));
  const Tensor repeated = ints({3}, {4, 1, 4}), last = ints({3}, {-1, 1, 4});
  list.add("scatter", {"V C", "A C"}, OF(scatter(v[0], repeated, v[1])),
           OF(v[0] * ((1 - sum(one_hot(last, v[0]), 0)).reshape({-1, 1})) +
              matmul(one_hot(last, v[0]), v[1], {.a = true})));
  list.add("scatter along axis 1", {"B V C", "B A C"}, OF(scatter(v[0], repeated, v[1], 1)),
           OF(permute(scatter(permute(v[0], {1, 0, 2}), repeated, permute(v[1], {1, 0, 2})),
                      {1, 0, 2})));
  for (const int axis : {0, -2}) {
    list.add(fmt::format("take_along_axis {}", axis), {"V C", "ids<V A C"},
             OF(take_along_axis(v[0], t(1), axis)), [](const Vars& v) {
               Vars columns;
               for (Index c = 0; c < v[0].dim(1); ++c)
                 columns.push_back(gather(slice(v[0], 1, c, c + 1),
                                          slice(v[1].value(), 1, c, c + 1).reshape({-1})));
               return concat(columns, 1);
             });
  }
  list.add("masked_select", {"A C", reals({3, 5}, {1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0})},
           OF(masked_select(v[0], t(1))), OF(gather(reshape(v[0], {-1}), ints({3}, {0, 3, 13}))));
  list.add("sort", {"A D"}, OF(sort(v[0], -1, Order::descending).values), [](const Vars& v) -> Var {
    naive::Array y(v[0].value());
    for (Index i = 0; i < v[0].dim(0); ++i) {
      std::vector<double> row = v[0].value()[i].to_vector<double>();
      std::ranges::sort(row, std::greater());
      for (Index j = 0; j < v[0].dim(1); ++j) y[{i, j}] = row[static_cast<std::size_t>(j)];
    }
    return y.tensor(v[0].dtype());
  });
  list.add("topk", {"D A"}, OF(topk(v[0], 2, 0).values),
           OF(slice(sort(v[0], 0, Order::descending).values, 0, 0, 2)));
  const Tensor three = ints({6}, {1, 0, 1, 2, 0, 2});
  const Tensor segments = ints({6}, {2, 0, 2, 3, 0, 3});
  list.add("segment_sum", {"V C"}, OF(segment_sum(v[0], segments, 4)),
           OF(stack({v[0][1] + v[0][4], v[0][0] * 0.0, v[0][0] + v[0][2], v[0][3] + v[0][5]})));
  list.add(
      "segment_max", {"V C"}, OF(segment_max(v[0], three, 3)),
      OF(stack({maximum(v[0][1], v[0][4]), maximum(v[0][0], v[0][2]), maximum(v[0][3], v[0][5])})));
  list.add("segment_softmax", {"V C"}, OF(segment_softmax(v[0], segments, 4)),
           OF(exp(v[0]) / gather(segment_sum(exp(v[0]), segments, 4), segments)));
}

void add_einsum(List& list) {
  list.group = "einsum";
  const auto two = [&](const char* equation, const char* a, const char* b, const Function& f) {
    list.add(fmt::format("einsum {}", equation), {a, b}, OF(einsum(equation, v[0], v[1])), f);
  };
  two("ij,jk->ik", "M K", "K N", OF(matmul(v[0], v[1])));
  two("ij,jk", "M K", "K N", OF(matmul(v[0], v[1])));
  two("bij,bkj->bki", "B M K", "B N K", OF(batched_matmul(v[1], v[0], {.b = true})));
  two("i,j->ji", "M", "N", OF(unsqueeze(v[1], 1) * v[0]));
  two("bi,bi->b", "B K", "B K", OF(sum(v[0] * v[1], -1)));
  two("ij,kl->", "M K", "N B", OF(sum(v[0]) * sum(v[1])));
  two("ii,ij->ij", "K K", "K N",
      OF(stack({v[0][0][0] * v[1][0], v[0][1][1] * v[1][1], v[0][2][2] * v[1][2],
                v[0][3][3] * v[1][3]})));
  two("...ij,j...k", "B A M K", "K 1 N", OF(batched_matmul(v[0], permute(v[1], {1, 0, 2}))));
  two("i,ij->j", "1", "M N", OF(v[0][0] * sum(v[1], 0)));
  list.add("einsum of three", {"M K", "K N", "N B"}, OF(einsum("ij,jk,kl->li", v[0], v[1], v[2])),
           OF(transpose(matmul(matmul(v[0], v[1]), v[2]), 0, 1)));
  list.add("einsum of one", {"A D C"}, OF(einsum("abc->cb", v[0])),
           OF(transpose(sum(v[0], 0), 0, 1)));
}

void add_attention(List& list) {
  list.group = "attention";
  list.add("additive_scores", {"B A", "S B A", "A"}, OF(additive_scores(v[0], v[1], v[2])),
           OF(reference::additive_scores(v[0], v[1], v[2])), 4);
  list.add("additive_scores with coverage", {"B A", "S B A", "A", "S B", "A"},
           OF(additive_scores(v[0], v[1], v[2], v[3], v[4])),
           OF(reference::additive_scores(v[0], v[1], v[2], v[3], v[4])), 4);
  list.add("dot_scores", {"B A", "S B A"}, OF(dot_scores(v[0], v[1])),
           OF(reference::dot_scores(v[0], v[1])));
  list.add("dot_scores of two heads", {"B 2A", "S B 2A"}, OF(dot_scores(v[0], v[1], 2)),
           OF(reference::dot_scores(v[0], v[1], 2)));
  // The gradient of a weight of exactly 0 is defined as 0: it is a masked weight of softmax.
  list.add("weighted_sum", {"S B", "S B A"}, OF(weighted_sum(softmax(v[0], 0), v[1])),
           OF(reference::weighted_sum(softmax(v[0], 0), v[1])));
  list.add("weighted_sum of two heads", {"2 S B", "S B 2A"},
           OF(weighted_sum(softmax(v[0], 1), v[1])),
           OF(reference::weighted_sum(softmax(v[0], 1), v[1])));
  // One product per sentence: (B, W, S) x (B, S, A) -> (B, W, A).
  const auto sentences_first = [](V x) { return permute(x, {1, 0, 2}); };
  const auto windowed = [=](V x, const Tensor& at) {
    return sentences_first(batched_matmul(sentences_first(one_hot(at, x)), sentences_first(x)));
  };
  const Tensor at = ints({3, 2}, {1, -1, 4, 0, -1, 2});
  list.add("window", {"S B", at}, OF(window(v[0], t(1))),
           OF(reshape(windowed(reshape(v[0], {5, 2, 1}), t(1)), {3, 2})));
  list.add("window of vectors", {"S B A", at}, OF(window(v[0], t(1))), OF(windowed(v[0], t(1))));
  list.add("window of vectors that repeat", {"S B A", "ids<S W B"}, OF(window(v[0], t(1))),
           OF(windowed(v[0], t(1))));
  list.add(
      "unwindow", {"W B A", at}, OF(unwindow(v[0], t(1), 5)),
      OF(sentences_first(batched_matmul(sentences_first(one_hot(t(1), zeros({5}, v[0].dtype()))),
                                        sentences_first(v[0]), {.a = true}))));
}

/// Functions of q, kv and possibly a mask.
void add_attention_case(List& list, const std::vector<OpInput>& inputs,
                        const FusedAttentionOptions& given) {
  const bool masked = inputs.size() > 2;
  const auto options = [=](const Vars& v) {
    FusedAttentionOptions o = given;
    if (masked) o.mask = v[2].value();
    return o;
  };
  const std::string shapes = fmt::format("({}) ({})", fmt::join(inputs[0].extents, " "),
                                         fmt::join(inputs[1].extents, " "));
  const std::string name = fmt::format("attention {}, {} heads{}{}{}", shapes, given.heads,
                                       given.causal ? ", causal" : "", masked ? ", masked" : "",
                                       given.dropout > 0 ? ", dropout" : "");
  list.add(name, inputs, OF(attention(v[0], v[1], options(v))),
           OF(reference::attention(v[0], v[1], options(v))), 5);
}

/// Functions of q, kv, and possibly a bias and an attention mask.
void add_biased_attention(List& list, const std::string& name, std::vector<OpInput> inputs,
                          const FusedAttentionOptions& given) {
  const auto with = [=](const Vars& v, auto f) {
    FusedAttentionOptions o = given;
    if (v.size() > 3) o.attention_mask = v[3].value();
    return f(v[0], v[1], o, v.size() > 2 ? v[2] : Var());
  };
  list.add("attention, " + name, std::move(inputs),
           OF(with(v, [](auto&... a) { return attention(a...); })),
           OF(with(v, [](auto&... a) { return reference::attention(a...); })), 5);
}

/// Two heads of four elements of x (T, B, 9), rotated as complex numbers at the positions 2, 3, ...
Var rotated(V x) {
  std::vector<Var> columns;
  const Tensor at = arange(2, 2 + x.dim(0), 1, DType::f64).reshape({-1, 1, 1});
  for (Index i = 0; i < 8; ++i) {
    const Tensor angle = at * (i % 2 == 0 ? 1.0 : 0.1);  // 100^(-2i/4)
    const double sign = i % 4 < 2 ? -1 : 1;
    columns.push_back(slice(x, -1, i, i + 1) * cos(angle).to(x.dtype()) +
                      sign * slice(x, -1, i ^ 2, (i ^ 2) + 1) * sin(angle).to(x.dtype()));
  }
  columns.push_back(slice(x, -1, 8, 9));
  return concat(columns, -1);
}

/// Masks have gaps, and in one case a sentence has no key.
void add_fused_attention(List& list) {
  list.group = "fused attention";
  const Random random = Random(7).ahead(3);
  add_attention_case(list, {"1 B 6", "2 B 12"}, {.heads = 1});
  add_attention_case(list, {"A B 6", "S B 12"}, {.heads = 3});
  add_attention_case(list, {"S B 6", "S B 12"}, {.heads = 2, .causal = true});
  add_attention_case(list, {"A B 6", "S B 12"}, {.heads = 2, .causal = true});
  add_attention_case(list, {"S B 6", "2 B 12"},
                     {.heads = 2, .causal = true});  // the first queries have no keys
  add_attention_case(list, {"T B 6", "S B 12", "mask S B"}, {.heads = 2});
  add_attention_case(list, {"5 3 6", "5 3 12", mask_of(5, {5, 0, 3})},
                     {.heads = 2, .causal = true});
  add_attention_case(list, {"T B 6", "S B 12"}, {.heads = 2, .dropout = 0.4, .random = random});
  add_attention_case(list, {"S B 6", "S B 12", "mask S B"},
                     {.heads = 3, .causal = true, .dropout = 0.4, .random = random});
  // K = 4 heads of the queries and G = 2 of the keys, with A = 3 and A_v = 1
  const FusedAttentionOptions grouped{.heads = 4, .kv_heads = 2, .value_size = 1};
  add_biased_attention(list, "grouped heads", {"T B 12", "S B 8"}, grouped);
  add_biased_attention(list, "bias", {"T B 6", "S B 12", "B 2 T S"}, {.heads = 2});
  add_biased_attention(list, "bias (K, 1, S), grouped, causal", {"S B 12", "S B 8", "4 1 S"},
                       {.heads = 4, .kv_heads = 2, .value_size = 1, .causal = true});
  add_biased_attention(list, "bias (T, 1), dropout", {"T B 6", "S B 12", "T 1"},
                       {.heads = 2, .dropout = 0.4, .random = random});
  add_biased_attention(list, "bias and mask (T, S)", {"T B 6", "S B 12", "2 1 1", "mask T S"},
                       {.heads = 2});
  add_biased_attention(list, "mask (B, K, T, S), grouped",
                       {"T B 12", "S B 8", "T S", "mask B 4 T S"}, grouped);
  list.add("rotary", {"T B 9"}, OF(rotary(v[0], arange(2, 2 + v[0].dim(0)), 2, 4, 100)),
           OF(rotated(v[0])));
}

/// All variants of a cell, with `steps` steps and a batch of `batch`.
void add_recurrences(List& list, const std::string& steps, const std::string& batch) {
  const auto add = [&](Cell cell, Direction direction, bool states, bool masked, bool b_hn) {
    const auto run = [=](RecurrentResult (*f)(V, V, const Recurrence&), const Vars& v) {
      Recurrence o{.cell = cell, .direction = direction};
      std::size_t next = 2;
      if (states) o.h0 = v[next++];
      if (states && cell == Cell::lstm) o.c0 = v[next++];
      if (b_hn) o.b_hn = v[next++];
      if (masked) o.mask = v[next].value();
      const auto [h, c_last] = f(v[0], v[1], o);
      return c_last.defined() ? joined({h, c_last}) : h;
    };
    const std::string width = fmt::format("{}H", gates_of(cell)), state = batch + " H";
    std::vector<OpInput> inputs{fmt::format("{} {} {}", steps, batch, width), "H " + width};
    if (states) inputs.push_back(state);
    if (states && cell == Cell::lstm) inputs.push_back(state);
    if (b_hn) inputs.push_back("H");
    if (masked) inputs.push_back(fmt::format("mask {} {}", steps, batch));
    list.add(fmt::format("{}{}{}{}{}", operation_of(cell),
                         cell == Cell::gru_reset_before ? ", reset before" : "",
                         direction == Direction::backward ? ", backward" : "",
                         states ? ", initial states" : "", masked ? ", mask" : "") +
                 (b_hn ? ", b_hn" : ""),
             inputs, OF(run(recurrent, v)), OF(run(reference::recurrent, v)), 2);
  };
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    for (const bool states : {false, true}) {
      for (const bool masked : {false, true}) {
        for (const Cell cell : {Cell::lstm, Cell::gru, Cell::gru_reset_before})
          add(cell, direction, states, masked, false);
        add(Cell::gru, direction, states, masked, true);
      }
    }
  }
}

/// The loss itself, and affine_cross_entropy with all variants of the map.
void add_losses(List& list, bool masked, const CrossEntropyOptions& o) {
  const std::string name =
      fmt::format("{}{}, smoothing {}", o.reduction == Reduction::sum ? "sum" : "mean",
                  masked ? ", masked" : "", o.smoothing);
  const auto add = [&](const std::string& what, std::vector<OpInput> inputs, auto f,
                       auto reference) {
    const std::size_t targets = inputs.size();
    inputs.push_back("ids<V A B");
    if (masked) inputs.push_back("mask A B");
    const auto of = [=](const auto& loss) -> Function {
      return [=](const Vars& v) {
        return loss(v, v[targets].value(), masked ? v.back().value() : Tensor());
      };
    };
    list.add(what + name, inputs, of(f), of(reference), 3);
  };
  using T = const Tensor&;
  add(
      "cross_entropy ", {"A B V"},
      [o](const Vars& v, T y, T mask) { return cross_entropy(v[0], y, mask, o); },
      [o](const Vars& v, T y, T mask) { return reference::cross_entropy(v[0], y, mask, o); });
  for (const bool transposed : {false, true}) {
    for (const bool bias : {false, true}) {
      std::vector<OpInput> inputs{"A B D", transposed ? "V D" : "D V"};
      if (bias) inputs.push_back("V");
      const auto b = [bias](const Vars& v) { return bias ? v[2] : Var(); };
      add(
          fmt::format("affine_cross_entropy{}{} ", transposed ? " transposed" : "",
                      bias ? " with bias" : ""),
          inputs,
          [=](const Vars& v, T y, T mask) {
            return affine_cross_entropy(v[0], {v[1], b(v), transposed}, y, mask, o);
          },
          [=](const Vars& v, T y, T mask) {
            return reference::cross_entropy(add_matmul(b(v), v[0], v[1], {.b = transposed}), y,
                                            mask, o);
          });
    }
  }
}

void add_simple_losses(List& list) {
  for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
    const bool is_mean = reduction == Reduction::mean;
    const auto reduce = [is_mean](V x) { return is_mean ? mean(x) : sum(x); };
    const std::string name = is_mean ? ", mean" : ", sum";
    list.add("mse_loss" + name, {"A B", "A B"}, OF(mse_loss(v[0], v[1], reduction)),
             OF(reduce((v[0] - v[1]) * (v[0] - v[1]))));
    list.add("binary_cross_entropy_with_logits" + name, {"A B", "mask A B"},
             OF(binary_cross_entropy_with_logits(v[0], v[1], reduction)),
             OF(reduce(-v[1] * log(sigmoid(v[0])) - (1 - v[1]) * log(sigmoid(-v[0])))), 3);
    list.add("cross_entropy of distributions" + name, {"T B V", "+ T B V", "mask T B"},
             OF(cross_entropy(v[0], v[1], t(2), {.reduction = reduction})),
             OF(sum(-sum(v[1] * reference::log_softmax(v[0], -1), -1) * v[2]) /
                (is_mean ? sum(t(2)).item() : 1)));
  }
}

}  // namespace

std::vector<OpCase> op_cases() {
  List list;
  add_arithmetic(list);
  add_functions(list);
  add_products(list);
  add_reductions(list);
  add_normalisations(list);
  add_arrangements(list);
  add_indexing(list);
  add_einsum(list);
  add_attention(list);
  add_fused_attention(list);
  list.group = "recurrences";
  add_recurrences(list, "T", "B");
  list.group = "losses";
  for (const bool masked : {false, true}) {
    for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
      for (const double smoothing : {0.0, 0.3}) add_losses(list, masked, {reduction, smoothing});
    }
  }
  add_simple_losses(list);
  return list.cases;
}

std::vector<OpCase> large_op_cases() {
  List list{.group = "large"};
  for (const int axis : {0, 1, 2}) {
    const std::string over = fmt::format(" over axis {}", axis);
    list.add("softmax" + over, {"7 4 190"}, OF(softmax(v[0], axis)),
             OF(reference::softmax(v[0], axis)));
    list.add("sparsemax" + over, {"7 4 190"}, OF(sparsemax(v[0], axis)),
             OF(reference::sparsemax(v[0], axis)));
  }
  list.add("layer_norm", {"150 37", "37", "37"}, OF(layer_norm(v[0], v[1], v[2])),
           OF(reference::layer_norm(v[0], v[1], v[2])));
  list.add("additive_scores", {"19 67", "11 19 67", "67", "11 19", "67"},
           OF(additive_scores(v[0], v[1], v[2], v[3], v[4])),
           OF(reference::additive_scores(v[0], v[1], v[2], v[3], v[4])));
  list.add("additive_scores of many elements", {"2 3000", "3 2 3000", "3000"},
           OF(additive_scores(v[0], v[1], v[2])), OF(reference::additive_scores(v[0], v[1], v[2])));
  list.add("weighted_sum", {"+ 13 21", "13 21 67"}, OF(weighted_sum(v[0], v[1])),
           OF(reference::weighted_sum(v[0], v[1])));
  list.add(
      "cross_entropy", {"2 1203", ints({2}, {1200, 511})},
      OF(cross_entropy(v[0], t(1), {}, {.smoothing = 0.2, .unsmoothed = {0, 511}})),
      OF(reference::cross_entropy(v[0], t(1), {}, {.smoothing = 0.2, .unsmoothed = {0, 511}})));
  list.add("affine_cross_entropy",  // 36 MB of logits
           {"1500 3", "3 3001", "3001", "ids<3001 1500", "mask 1500"},
           OF(affine_cross_entropy(v[0], {v[1], v[2]}, t(3), t(4),
                                   {.smoothing = 0.1, .unsmoothed = {3}})),
           OF(cross_entropy(add_matmul(v[2], v[0], v[1]), t(3), t(4),
                            {.smoothing = 0.1, .unsmoothed = {3}})));
  add_attention_case(list, {"3 2 6", "600 2 12"}, {.heads = 2});
  add_attention_case(list, {"150 2 6", "550 2 12", "mask 550 2"}, {.heads = 2});
  add_attention_case(list, {"530 3 6", "530 3 12", "mask 530 3"},
                     {.heads = 3, .causal = true, .dropout = 0.3, .random = Random(7)});
  const Tensor age = unsqueeze(arange(530), 1) - arange(530);
  add_biased_attention(list, "window of 70 and the first 3 keys, bias, grouped, dropout",
                       {"530 2 8", "530 2 6", "4 530 530", maximum(age < 70, arange(530) < 3)},
                       {.heads = 4,
                        .kv_heads = 2,
                        .value_size = 1,
                        .causal = true,
                        .dropout = 0.3,
                        .random = Random(7)});
  add_recurrences(list, "T", "71");
  return list.cases;
}

}  // namespace attune
