// Values and gradients of operations, and their edge cases, against PyTorch.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/compositions.hpp>
#include <attune/autograd/loss.hpp>

#include "support/capture.hpp"
#include "support/golden.hpp"
#include "support/naive.hpp"

namespace attune {
namespace {

const Golden operations("operations");

/// Compares y = f(x) and the gradients of its inputs. If there is no cotangent, it is 1.
template <class F>
void check(const std::string& name, std::initializer_list<const char*> inputs, F f) {
  CAPTURE(name);
  const Golden golden = operations.at(name + "/");
  std::vector<Var> x;
  for (const char* input : inputs) x.push_back(variable(golden[input]));
  const Var y = f(x);
  const Tensor expected =
      golden.contains("y") ? golden["y"] : scalar(golden.number("y"), DType::f64);
  CHECK(difference(y.value(), expected) < 1e-13);
  const Tensor dy = golden.contains("g_y") ? golden["g_y"] : ones_like(y);
  const Gradients gradients = backward(y, dy);
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK(difference(gradients[x[i]], golden["d_" + std::string(inputs.begin()[i])]) < 1e-13);
}

}  // namespace

TEST_CASE("Operations: values and gradients are those of PyTorch") {
  for (const int axis : {0, 1}) {
    check(fmt::format("cumprod {}", axis), {"x"}, [=](auto& x) { return cumprod(x[0], axis); });
    const std::string scatter_case = fmt::format("scatter {}", axis);
    check(scatter_case, {"x", "rows"},
          [=](auto& x) { return scatter(x[0], operations[scatter_case + "/ids"], x[1], axis); });
  }
  const char* equations[] = {"...ij,...jk->...ik", "...ij,jk",  "ij,jk->ik", "b...,b->...",
                             "...i,...i->i",       "i...->...", "i,i,i->",   "i...j,k...->k...i"};
  for (std::size_t i = 0; i < std::size(equations); ++i) {
    const auto of = [&](const std::vector<Var>& x) { return einsum(equations[i], x); };
    const std::string name = fmt::format("einsum {}", i);
    i == 5   ? check(name, {"a"}, of)
    : i == 6 ? check(name, {"a", "b", "c"}, of)
             : check(name, {"a", "b"}, of);
  }
  for (const Reduction reduction : {Reduction::sum, Reduction::mean})
    check(reduction == Reduction::sum ? "cross_entropy sum" : "cross_entropy mean",
          {"logits", "targets"},
          [=](auto& x) { return cross_entropy(x[0], x[1], {}, {.reduction = reduction}); });
}

TEST_CASE("Operations: integer division and remainders round down, as PyTorch's") {
  const Golden golden = operations.at("integers/");
  const Tensor a = golden["a"], b = golden["b"];
  CHECK(identical(a / b, golden["quotient"]));
  CHECK(identical(a % b, golden["remainder"]));
  CHECK(identical((Var(a) / Var(b)).value(), golden["quotient"]));
  CHECK(identical(arange(5) / 2 * 10 + arange(5) % 2, ints({5}, {0, 1, 10, 11, 20})));
  CHECK(identical(7 / ints({2}, {2, -2}), ints({2}, {3, -4})));
  CHECK(identical(reals({3}, {-7.5, 7.5, nan}) % 2.0, reals({3}, {0.5, 1.5, nan})));
  CHECK_ERROR("divide: inf does not fit in i32, at element (0)", ints({1}, {3}) / 0);
  CHECK_ERROR("remainder: nan does not fit in i32, at element (0)", arange(3) % 0);
  CHECK_ERROR("divide: 2.14748e+09 does not fit in i32, at element (7)", a / -1);
  CHECK_ERROR("divide: dtypes differ: i32 (3) and f32 (3)", arange(3) / ones({3}));
}

TEST_CASE("chunk, split, slice: parts of an axis") {
  const Var x = randn({2, 7}, DType::f64);
  for (const Index n : {1, 3, 4, 9}) {
    std::vector<std::int32_t> sizes;
    for (const Var& part : chunk(x, n, 1)) sizes.push_back(static_cast<std::int32_t>(part.dim(1)));
    CHECK(sizes == operations[fmt::format("chunk {}/sizes", n)].to_vector<std::int32_t>());
  }
  CHECK(chunk(zeros({0}), 3, 0).size() == 3);
  CHECK_ERROR("chunk: n = 0 is not positive", chunk(x, 0, 1));
  const auto [first, second, third] = split(x, {2, 0, 5}, -1);
  CHECK(identical(third.value(), slice(x, 1, 2).value()));
  CHECK(second.shape() == Shape{2, 0});
  const std::array halves = split<2>(x, 0);
  CHECK(identical(concat(halves, 0).value(), x.value()));
  const auto [a, b] = split<2>(x.value(), 0);
  CHECK(identical(concat({a, b}, 0), x.value()));
  CHECK(identical(slice(x.value(), 1, -3), slice(x.value(), 1, 4, 7)));
  CHECK_ERROR("split: the extent of axis 1 of (2, 7) is not 3 + 3", split<2>(x, 1));
  CHECK_ERROR("slice: there is no axis 2 in (2, 7)", slice(x, 2, 0));
  CHECK_ERROR("slice: indices 8 to 7 of axis 1 of (2, 7) do not exist", slice(x, 1, 8));
}

TEST_CASE("scatter: the last of repeated ids counts, also for gradients") {
  const Tensor ids = ints({2, 2}, {2, 0, 2, 2});
  const Var x = variable(reals({4}, {1, 2, 3, 4})), rows = variable(reals({2, 2}, {5, 6, 7, 8}));
  const Var y = scatter(x, ids, rows);
  CHECK(identical(y.value(), reals({4}, {6, 2, 8, 4})));
  const Gradients gradients = backward(y, reals({4}, {1, 2, 3, 4}));
  CHECK(identical(gradients[x], reals({4}, {0, 2, 0, 4})));
  CHECK(identical(gradients[rows], reals({2, 2}, {0, 1, 0, 3})));
  CHECK(identical(scatter(arange(3), ints({0}, {}), ints({0}, {})), arange(3)));
  CHECK_ERROR("scatter: id 4 at 0 is not in 0 to 3",
              scatter(x, ints({1}, {4}), ones({1}, DType::f64)));
  CHECK_ERROR("scatter: shapes do not fit: ids (1), rows (2), target (4)",
              scatter(x, ints({1}, {0}), ones({2}, DType::f64)));
}

TEST_CASE("Var: += and its family keep the history, and leave copies of the old value") {
  const Var x = variable(reals({2}, {2, 3}));
  Var y = x;
  y += x;
  y *= x;
  const Var before = y;
  y -= 1;
  y /= 2;
  CHECK(identical(y.value(), reals({2}, {3.5, 8.5})));
  CHECK(identical(before.value(), reals({2}, {8, 18})));
  CHECK(identical(backward(sum(y))[x], reals({2}, {4, 6})));
  CHECK(identical(x.value(), reals({2}, {2, 3})));
}

TEST_CASE(
    "Selections: the gradient goes to the element whose value is the result, the first of equal "
    "ones") {
  const Var a = variable(reals({4}, {1, nan, 2, 3})), b = variable(reals({4}, {1, 1, nan, 2}));
  for (const auto& f : {+[](const Var&x, const Var&y) { return maximum(x, y); },
                        +[](const Var&x, const Var&y) { return -minimum(-x, -y); }}) {
    const Gradients gradients = backward(f(a, b), ones({4}, DType::f64));
    CHECK(difference(gradients[a], reals({4}, {1, 1, 0, 1})) == 0);
    CHECK(difference(gradients[b], reals({4}, {0, 0, 1, 0})) == 0);
  }
  const Var x = variable(reals({3}, {nan, 0, 1}));
  CHECK(identical(backward(sum(relu(x)))[x], reals({3}, {1, 0, 1})));
  const Var equal = variable(reals({3}, {1, 2, 2}));
  CHECK(identical(backward(max(equal))[equal], reals({3}, {0, 1, 0})));
}

TEST_CASE("mask_of, zeros_like: lists of lengths, and tensors like others") {
  CHECK(identical(mask_of({2, 1}), Tensor::of<float>({2, 2}, {1, 1, 1, 0})));
  CHECK(identical(mask_of({1}, DType::i32), ints({1, 1}, {1})));
  CHECK(identical(full_like(Var(arange(2)), 7), ints({2}, {7, 7})));
  CHECK(identical(ones_like(zeros_like(reals({1}, {3}))), reals({1}, {1})));
}

}  // namespace attune
