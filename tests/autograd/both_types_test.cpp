// Complements support/op_cases.cpp: the same operations on Tensors, i32, comparisons, axes of
// extent 0 and 1, and errors.

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/compositions.hpp>
#include <attune/autograd/loss.hpp>

#include "support/naive.hpp"

namespace attune {
namespace {

const std::vector<Shape> kShapes = {{2, 3}, {1, 3}, {2, 1}, {0, 3}, {2, 0}};

/// Checks that f of a Tensor equals the value of f of a Var, in both dtypes and for several shapes.
template <class F>
void check_both(const char* name, F f, const std::vector<Shape>& shapes = kShapes) {
  for (const Shape& shape : shapes) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      INFO(name, " of ", to_string(shape), " ", name_of(dtype));
      const Tensor x = randn(shape, dtype, 4);
      CHECK(identical(f(x), f(variable(x)).value()));
    }
  }
}

}  // namespace

TEST_CASE("Functions: Tensor and Var give the same values, also at extents 0 and 1") {
#define ATTUNE_FUNCTION(name, kept, value, gradient) \
  check_both(#name, [](const auto& x) { return name(x); });
#include <attune/tensor/functions.inc>
}

TEST_CASE("Functions: functions that map integers to integers accept i32; the others throw") {
  const Tensor n = ints({4}, {-3, 0, 2, 7});
#define ATTUNE_INTEGER_FUNCTION(name, kept, value, gradient) \
  CHECK(identical(name(n), name(n.to(DType::f64)).to(DType::i32)));
#define ATTUNE_FUNCTION(name, kept, value, gradient) \
  CHECK_ERROR(#name ": f32 or f64 was expected: i32 (4)", name(n));
#include <attune/tensor/functions.inc>
}

TEST_CASE("Functions: rounding, signs and non-finite values") {
  const Tensor x = reals({6}, {-1.5, -0.0, 0.5, 2.5, infinity, nan});
  CHECK(identical(floor(x), reals({6}, {-2, -0.0, 0, 2, infinity, nan})));
  CHECK(identical(ceil(x), reals({6}, {-1, -0.0, 1, 3, infinity, nan})));
  CHECK(identical(round(x), reals({6}, {-2, -0.0, 0, 2, infinity, nan})));
  CHECK(identical(sign(x), reals({6}, {-1, -0.0, 1, 1, 1, nan})));
  CHECK(identical(isfinite(x), reals({6}, {1, 1, 1, 1, 0, 0})));
  CHECK(identical(isnan(x), reals({6}, {0, 0, 0, 0, 0, 1})));
  CHECK(identical(clamp(x, -1, 2), reals({6}, {-1, -0.0, 0.5, 2, 2, nan})));
}

TEST_CASE("silu: limits at large |x|, with gradients 0 and dy") {
  const Tensor x = reals({6}, {-infinity, -1e20, -1000, 1000, 1e20, infinity});
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Var y = variable(x.to(dtype));
    CHECK(identical(silu(y.value()), where(y > 0, y.value(), -0.0)));
    const Tensor dy = full({6}, 2, dtype);
    CHECK(identical(backward(silu(y), dy)[y], where(y > 0, 2.0, -zeros({6}, dtype))));
  }
}

TEST_CASE("gelu: limits at large |x|") {
  const Tensor x = reals({6}, {-infinity, -1e20, -1000, 1000, 1e20, infinity});
  for (const Tensor& y : {x, x.to(DType::f32)}) CHECK(identical(gelu(y), where(y > 0, y, -0.0)));
}

TEST_CASE("Functions: the gradient of a step function is 0, also at infinities and NaN") {
  const Tensor x = reals({3}, {-infinity, nan, infinity});
  using Step = Var (*)(const Var&);
  for (const auto f : {Step(sign), Step(floor), Step(ceil), Step(round)}) {
    const Var v = variable(x);
    CHECK(identical(backward(f(v), ones({3}, DType::f64))[v], zeros({3}, DType::f64)));
  }
}

TEST_CASE("i32: arithmetic, comparisons, reductions and where are exact") {
  const Tensor a = ints({2, 2}, {5, -3, 2147483647, 0}), b = ints({2}, {2, 4});
  CHECK(identical(a + ints({}, {-1}), ints({2, 2}, {4, -4, 2147483646, -1})));
  CHECK(identical(a - b, ints({2, 2}, {3, -7, 2147483645, -4})));
  CHECK(identical(ints({2}, {40000, 3}) * b, ints({2}, {80000, 12})));
  CHECK(identical(b / 2, ints({2}, {1, 2})));
  CHECK(identical(-b, ints({2}, {-2, -4})));
  CHECK(identical(maximum(a, b), ints({2, 2}, {5, 4, 2147483647, 4})));
  CHECK(identical(a > 0, ints({2, 2}, {1, 0, 1, 0})));
  CHECK(identical(where(a > 0, a, 7.0), ints({2, 2}, {5, 7, 2147483647, 7})));
  CHECK(identical(map(b, [](auto v) { return 3 * v; }), ints({2}, {6, 12})));
  CHECK(identical(sum(a, 1), ints({2}, {2, 2147483647})));
  CHECK(identical(max(a, 0), ints({2}, {2147483647, 0})));
  CHECK(identical(min(a), ints({}, {-3})));
  CHECK(identical(prod(b), ints({}, {8})));
  CHECK(identical(mean(ints({2}, {2147483647, 2147483645})), ints({}, {2147483646})));
  CHECK(identical(argmax(a, 0), ints({2}, {1, 1})));
  CHECK(identical(sort(b, 0, Order::descending).values, ints({2}, {4, 2})));
  CHECK_ERROR("add: 2.14748e+09 does not fit in i32, at element (1, 0)", a + 1.0);
  CHECK_ERROR("sum: 2.14748e+09 does not fit in i32, at element ()", sum(a));
  CHECK_ERROR("multiply: 1.5 does not fit in i32, at element (0)", ints({1}, {3}) * 0.5);
  CHECK_ERROR("fill: 0.5 does not fit in i32", full({2}, 0.5, DType::i32));
}

TEST_CASE("Comparisons: operators on Tensors, Vars and numbers give masks") {
  const Tensor x = reals({3}, {1, nan, 3}), y = reals({3}, {2, 2, 3});
  CHECK(identical(x < y, reals({3}, {1, 0, 0})));
  CHECK(identical(x <= y, reals({3}, {1, 0, 1})));
  CHECK(identical(x == y, reals({3}, {0, 0, 1})));
  CHECK(identical(x != y, reals({3}, {1, 1, 0})));
  CHECK(identical(Var(x) > 2, reals({3}, {0, 0, 1})));
  CHECK(identical(Var(x) >= Var(y), reals({3}, {0, 0, 1})));
  CHECK(any(x == 3).item() == 1);
  CHECK(all(x == x).item() == 0);
  CHECK(identical(any(reals({2, 2}, {0, 0, 0, nan}), 1), reals({2}, {0, 1})));
  CHECK(identical(all(reals({2, 2}, {1, 0, 2, nan}), 1), reals({2}, {0, 1})));
  CHECK(all(zeros({0})).item() == 1);
  CHECK((scalar(0.1f) == 0.1).item() == 1);  // the number is rounded to the dtype
}

TEST_CASE("Reductions: max and min along negative and several axes, of Tensor and Var") {
  check_both("sum", [](const auto& x) { return sum(x, -1); });
  check_both("mean", [](const auto& x) { return mean(x, {-2}); }, {{2, 3}, {1, 3}});
  check_both("prod", [](const auto& x) { return prod(x, {0, -1}); });
  for (const KeepAxes keep : {KeepAxes::no, KeepAxes::yes}) {
    check_both("max", [=](const auto& x) { return max(x, {}, keep); }, {{2, 3}, {1, 1}});
    check_both("min", [=](const auto& x) { return min(x, {1, 0}, keep); }, {{2, 3, 0}, {2, 3, 4}});
    check_both("std", [=](const auto& x) { return std(x, -1, keep, 0); }, {{2, 3}, {0, 2}});
  }
  CHECK(identical(argmin(reals({2, 3}, {3, 1, 1, 9, nan, 2}), 1), ints({2}, {1, 1})));
  CHECK(identical(argmin(reals({2, 2}, {3, 1, 2, 4}), 0, KeepAxes::yes), ints({1, 2}, {1, 0})));
  CHECK(identical(prod(zeros({2, 0}, DType::f64), 1), ones({2}, DType::f64)));
  CHECK_ERROR("max: axis 1 of (2, 0) is empty", max(zeros({2, 0}), 1));
  CHECK_ERROR("min: axis 1 of (2, 0) is empty", min(Var(zeros({2, 0})), 1));
  CHECK_ERROR("max: there is no axis 2 in (2, 3)", max(zeros({2, 3}), {0, 2}));
  CHECK_ERROR("var: (1) with correction 1 has too few elements", var(zeros({1})));
}

TEST_CASE("Ops: constants beyond f32 leave a gradient of 0") {
  const Var x = variable(zeros({1}));
  for (const Var& y : {x * 1e39, x / 1e-50, power(x, 1e39)})
    CHECK(identical(backward(sum(where(zeros({1}), y, 0.0)))[x], zeros({1})));
}

TEST_CASE("maximum, minimum, clamp: an infinite gradient goes only to the selected element") {
  const Var x = variable(reals({5}, {-1, 0, 0.25, 4, nan}));
  CHECK(identical(backward(sum(sqrt(maximum(x, 0))))[x], reals({5}, {0, infinity, 1, 0.25, nan})));
  CHECK(identical(backward(sum(sqrt(clamp(x, 0, 1))))[x], reals({5}, {0, infinity, 1, 0, nan})));
  CHECK(identical(backward(sum(log(minimum(x * 0.0 + 1, 0))))[x].slice(0, 4),
                  zeros({4}, DType::f64)));
}

TEST_CASE("Compositions: Tensor and Var give the same values, also at extents 0 and 1") {
  check_both("flip", [](const auto& x) { return flip(x, {0, -1}); });
  CHECK_ERROR("flip: axis -2 of (2, 3) is named twice", flip(zeros({2, 3}), {0, -2}));
  check_both("roll", [](const auto& x) { return roll(x, 4, -1); });
  check_both("repeat", [](const auto& x) { return repeat(x, 2, 0); });
  check_both("tril", [](const auto& x) { return tril(x, -1); });
  check_both("triu", [](const auto& x) { return triu(x, 1); });
  check_both("unsqueeze", [](const auto& x) { return unsqueeze(x, -2); });
  check_both("sort", [](const auto& x) { return sort(x).values; });
  check_both("masked_select", [](const auto& x) { return masked_select(x, x > 0); });
  check_both("einsum", [](const auto& x) { return einsum("ij,ij,kj->ki", x, x, x); });
  check_both("broadcast_to",
             [](const auto& x) {
               return broadcast_to(x, {4, 2, 3});
             },
             {{2, 3}, {1, 3}});
  check_both("stack", [](const auto& x) { return stack({x, x}, -1); });
  check_both("segment_softmax",
             [](const auto& x) { return segment_softmax(x, arange(x.dim(0)), x.dim(0) + 1); });
  check_both("topk", [](const auto& x) { return topk(x, x.dim(0), 0).values; });
  check_both("clamp", [](const auto& x) { return clamp(x, 0, 1); });
  check_both("leaky_relu", [](const auto& x) { return leaky_relu(x); });
  check_both("power", [](const auto& x) { return power(abs(x), x); });
  check_both("maxout", [](const auto& x) { return maxout(concat({x, x}, -1)); });
  check_both("gather", [](const auto& x) { return gather(x, ints({2}, {1, 0}), -1); }, {{2, 3}});
  check_both("scatter_add", [](const auto& x) { return scatter_add(x, arange(x.dim(1)), x, 1); });
}

TEST_CASE("Indexing: nonzero, sorting with NaN, empty segments") {
  const Tensor x = reals({2, 3}, {0, 5, nan, 7, 0, 0});
  CHECK(identical(nonzero(x), ints({3, 2}, {0, 1, 0, 2, 1, 0})));
  CHECK(nonzero(zeros({4})).shape() == Shape{0, 1});
  CHECK(identical(argsort(x), ints({2, 3}, {0, 1, 2, 1, 2, 0})));
  CHECK(identical(argsort(x, -1, Order::descending), ints({2, 3}, {2, 1, 0, 0, 1, 2})));
  CHECK(identical(topk(x, 1, 0).indices, ints({1, 3}, {1, 0, 0})));
  CHECK(identical(one_hot(ints({2}, {2, 0}), 3), Tensor::of<float>({2, 3}, {0, 0, 1, 1, 0, 0})));
  CHECK(identical(eye(2), Tensor::of<float>({2, 2}, {1, 0, 0, 1})));
  CHECK(identical(arange(5, 0, -2), ints({3}, {5, 3, 1})));
  CHECK(identical(arange(0, 1, 0.25, DType::f64), reals({4}, {0, 0.25, 0.5, 0.75})));
  CHECK(identical(linspace(-1, 1, 5, DType::f64), reals({5}, {-1, -0.5, 0, 0.5, 1})));
  CHECK(identical(linspace(-1, 1, 1, DType::f64), reals({1}, {-1})));
  CHECK(identical(segment_max(reals({2}, {3, 4}), ints({2}, {2, 2}), 3),
                  reals({3}, {-infinity, -infinity, 4})));
  CHECK_ERROR("arange: 0.5 does not fit in i32, at element (1)", arange(0, 1, 0.5));
  CHECK_ERROR("arange: 0 to 1 in steps of 0 has no end", arange(0, 1, 0));
  CHECK_ERROR("one_hot: id 3 at 0 is not in 0 to 2", one_hot(ints({1}, {3}), 3));
  CHECK_ERROR("topk: k = 4 is not in 0 to 3", topk(x, 4));
  CHECK_ERROR("sort: there is no axis 2 in (2, 3)", sort(x, 2));
  CHECK_ERROR("take_along_axis: ids (2, 2) differ from x (2, 3) outside axis 0",
              take_along_axis(x, zeros({2, 2}, DType::i32), 0));
  CHECK_ERROR("squeeze: the extent of axis 1 of (2, 3) is not 1", squeeze(x, 1));
  CHECK_ERROR("segment_max: segment 3 at 0 is not in 0 to 1", segment_max(x, ints({2}, {3, 0}), 2));
}

TEST_CASE("einsum: syntax errors and different extents are errors with the equation") {
  const Tensor a = zeros({2, 3}), b = zeros({4, 5});
  CHECK_ERROR("einsum: 'ij,jk->ik': j is 3 in (2, 3) and 4 in (4, 5)", einsum("ij,jk->ik", a, b));
  CHECK_ERROR("einsum: 'ij->ij' has 1 operands, 2 were given", einsum("ij->ij", a, b));
  CHECK_ERROR("einsum: 'ijk->k': operand 0 is (2, 3)", einsum("ijk->k", a));
  CHECK_ERROR("einsum: '..i->i': letters, ',', '...' and '->' were expected, not '.'",
              einsum("..i->i", a));
  CHECK_ERROR("einsum: '...i...': '...' occurs twice", einsum("...i...", a));
  CHECK_ERROR("einsum: 'ijk...': operand 0 is (2, 3)", einsum("ijk...", a));
  CHECK_ERROR("einsum: '...i,...j': '...' is 2 in (2, 3) and 4 in (4, 5)",
              einsum("...i,...j", a, b));
  CHECK_ERROR(
      "einsum: 'ij->k': letter k of the result must occur in an operand, and once in the result",
      einsum("ij->k", a));
  CHECK_ERROR("einsum: 'ii->i': axes 0 and 1 of (2, 3) differ", einsum("ii->i", a));
}

TEST_CASE("cross_entropy: target distributions and target ids weight positions alike") {
  const Tensor logits = randn({3, 4}, DType::f64, 5), targets = ints({3}, {2, 0, 3}),
               weights = reals({3}, {1, 0.25, 0});
  const Tensor q = one_hot(targets, 4, DType::f64);
  for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
    const CrossEntropyOptions options{.reduction = reduction};
    CHECK(difference(cross_entropy(logits, q, weights, options).value(),
                     cross_entropy(logits, targets, weights, options).value()) <= 1e-14);
  }
}

TEST_CASE("cross_entropy: target distributions must have the logits' shape") {
  CHECK_ERROR("cross_entropy: do not fit: logits f32 (2, 3), targets f32 (2), mask undefined",
              cross_entropy(zeros({2, 3}), zeros({2})));
  CHECK_ERROR("cross_entropy: do not fit: logits f32 (2, 3), targets f32 (2, 3), mask f32 (1)",
              cross_entropy(zeros({2, 3}), zeros({2, 3}), ones({1})));
  CHECK_ERROR("cross_entropy: there is no position with mask 1",
              cross_entropy(zeros({2, 3}), zeros({2, 3}), zeros({2})));
  CHECK_ERROR("cross_entropy: label smoothing of target distributions is not supported",
              cross_entropy(zeros({2, 3}), zeros({2, 3}), {}, {.smoothing = 0.1}));
}

}  // namespace attune
