// Operations that a graph of the fuzz target is made of: what is asked for may fit or not.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/recurrent.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/random.hpp>

#include "fuzz.hpp"

namespace attune::fuzz {

/// Chooses operations' inputs from the values so far, and their options.
class Operands {
 public:
  Operands(Choices& choices, const std::vector<Var>& values, DType dtype)
      : choices_(choices), values_(values), dtype_(dtype) {}

  DType dtype() const { return dtype_; }
  int between(int low, int high) { return choices_.between(low, high); }
  bool flag() { return choices_.one_in(2); }

  /// Any value, of whatever shape it is.
  const Var& any() { return values_[choices_.byte() % values_.size()]; }

  /// Any value which makes not too many elements when it is broadcast with a.
  const Var& beside(const Var& a) {
    const Var& b = any();
    return a.size() * b.size() > 10'000'000 ? a : b;
  }

  /// A value of this shape: its elements again and again. Sometimes one of another shape.
  Var of(const Shape& shape) {
    const Var& x = any();
    if (x.shape() == shape || choices_.one_in(32)) return x;
    const Index n = x.size(), wanted = shape.size();
    if (n == 0) return zeros(shape, dtype_);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(wanted));
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(static_cast<Index>(i) % n);
    return reshape(
        gather(reshape(x, {-1}), Tensor::of(Shape{wanted}, std::span<const std::int32_t>(ids))),
        shape);
  }

  Index extent() {
    constexpr int extents[] = {1, 2, 3, 4, 5, 2, 1, 0};
    return extents[choices_.byte() % 8];
  }
  /// Mostly one that x has.
  int axis(const Var& x) {
    const int rank = x.rank();
    return choices_.one_in(16) ? between(-7, 7) : rank == 0 ? 0 : between(-rank, rank - 1);
  }
  KeepAxes keep() { return flag() ? KeepAxes::yes : KeepAxes::no; }

  /// Ones and zeros.
  Tensor mask(const Shape& shape) {
    std::vector<double> values(static_cast<std::size_t>(shape.size()));
    const unsigned pattern = choices_.byte() | 0x100u;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = pattern >> i % 9 & 1;
    return Tensor::of(shape, std::span<const double>(values))
        .to(choices_.one_in(64) ? DType::f32 : dtype_);
  }
  /// Nothing, half of the time.
  Tensor perhaps_mask(const Shape& shape) { return flag() ? mask(shape) : Tensor(); }
  Var perhaps(const Shape& shape) { return flag() ? of(shape) : Var(); }

  /// Whole numbers from `low` up to, not including, `high`; sometimes one beyond.
  Tensor numbers(const Shape& shape, Index low, Index high) {
    std::vector<std::int32_t> values(static_cast<std::size_t>(shape.size()));
    const int first = choices_.byte(), step = choices_.byte();
    const Index range = std::max<Index>(1, high - low) + choices_.one_in(32);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<std::int32_t>(low + (first + static_cast<Index>(i) * step) % range);
    }
    return Tensor::of(shape, std::span<const std::int32_t>(values));
  }

 private:
  Choices& choices_;
  const std::vector<Var>& values_;
  DType dtype_;
};

struct Operation {
  const char* name;
  std::function<std::vector<Var>(Operands&)> run;
};

namespace graph_detail {

using Results = std::vector<Var>;

/// Positive, for what has a logarithm or is divided by.
inline Var positive(const Var& x) { return softplus(x) + 0.25; }

/// Of an LSTM with 4 gates, or a GRU with 3.
template <Index gates>
Results run_recurrence(Operands& o) {
  const Index t = o.extent(), b = o.extent(), h = o.extent();
  const bool single = o.between(0, 3) == 3;
  Recurrence run{.h0 = o.perhaps({b, h})};
  if (gates == 4) {
    run.cell = Cell::lstm;
    run.c0 = o.perhaps({b, h});
  } else if (o.flag()) {
    run.cell = Cell::gru_reset_before;
  } else {
    run.b_hn = o.perhaps({h});
  }
  if (!single) run.mask = o.perhaps_mask({t, b});
  run.direction = o.flag() ? Direction::backward : Direction::forward;
  const Var xw = o.of(single ? Shape{b, gates * h} : Shape{t, b, gates * h}),
            w_h = o.of({h, gates * h});
  const auto [y, c] = recurrent(xw, w_h, run);
  return gates == 3 ? Results{y} : Results{y, c};
}

inline Results run_scores(Operands& o) {
  const Index s = o.extent(), b = o.extent(), heads = o.between(1, 3), a = heads * o.extent();
  const Var q = o.of({b, a}), k = o.of({s, b, a}), v = o.of({a});
  const int which = o.between(0, 2);
  if (which == 0) return {additive_scores(q, k, v)};
  if (which == 2) return {dot_scores(q, k, heads)};
  const Var coverage = o.of({s, b}), w_c = o.of({a});
  return {additive_scores(q, k, v, coverage, w_c)};
}

/// Weights are of a softmax: those which are exactly 0 have no gradient by definition.
inline Results run_weighted_sum(Operands& o) {
  const Index s = o.extent(), b = o.extent(), heads = o.between(1, 3), d = heads * o.extent();
  const Shape shape = heads == 1 ? Shape{s, b} : Shape{heads, s, b};
  const Var scores = o.of(shape);
  const Var weights = softmax(scores, heads == 1 ? 0 : 1, o.perhaps_mask({s, b}));
  return {weighted_sum(weights, o.of({s, b, d}))};
}

inline Results run_window(Operands& o) {
  const Index s = o.extent(), b = o.extent(), w = o.extent();
  if (o.flag()) {
    const Var x = o.of(o.flag() ? Shape{s, b} : Shape{s, b, o.extent()});
    return {window(x, o.numbers({w, b}, -1, s))};
  }
  const Var x = o.of({w, b});
  const Index more = o.between(0, 15) == 15 ? 40 : 0;
  return {unwindow(x, o.numbers({w + more, b}, -1, s), s)};
}

inline Results run_cross_entropy(Operands& o) {
  const Index n = o.extent(), r = o.extent(), v = o.extent();
  const Shape places = o.flag() ? Shape{n} : Shape{n, o.extent()};
  const Tensor targets = o.numbers(places, 0, v), mask = o.perhaps_mask(places);
  const CrossEntropyOptions options{o.flag() ? Reduction::sum : Reduction::mean,
                                    0.1 * o.between(0, 3)};
  if (o.flag()) {
    return {cross_entropy(o.of(places.inserted(-1, v)), targets, mask, options)};
  }
  const bool transposed = o.flag();
  const Var x = o.of(places.inserted(-1, r));
  const Affine affine{o.of(transposed ? Shape{v, r} : Shape{r, v}), o.perhaps({v}), transposed};
  return {affine_cross_entropy(x, affine, targets, mask, options)};
}

inline Results run_layer_norm(Operands& o) {
  const Index n = o.extent();
  const Var x = o.of({o.extent(), n}), gain = o.of({n}), bias = o.of({n});
  return {layer_norm(x, gain, bias)};
}

inline Results run_matmul(Operands& o) {
  const Index m = o.extent(), k = o.extent(), n = o.extent();
  const Transpose t{o.flag(), o.flag()};
  const Shape rows = o.flag() && !t.a ? Shape{o.extent(), m, k} : Shape{m, k};
  const Var in[] = {o.of(t.a ? Shape{k, m} : rows), o.of(t.b ? Shape{n, k} : Shape{k, n})};
  return {matmul(in[0], in[1], t)};
}

inline Results run_batched_matmul(Operands& o) {
  const Index s = o.extent(), m = o.extent(), k = o.extent(), n = o.extent();
  const Transpose t{o.flag(), o.flag()};
  const Var in[] = {o.of(t.a ? Shape{s, k, m} : Shape{s, m, k}),
                    o.of(t.b ? Shape{s, n, k} : Shape{s, k, n})};
  return {batched_matmul(in[0], in[1], t)};
}

inline Results run_add_matmul(Operands& o) {
  const Index m = o.extent(), k = o.extent(), n = o.extent();
  const Var y = o.of(o.flag() ? Shape{n} : Shape{m, n}), a = o.of({m, k}), b = o.of({k, n});
  return {add_matmul(y, a, b)};
}

inline Results run_gather(Operands& o) {
  const Var& table = o.any();
  const Shape ids = o.flag() ? Shape{o.extent()} : Shape{o.extent(), o.extent()};
  return {gather(table, o.numbers(ids, 0, table.rank() ? table.dim(0) : 0))};
}

inline Results run_slice(Operands& o) {
  const Var& x = o.any();
  const int axis = o.axis(x);
  const int begin = o.between(0, 4);
  return {slice(x, axis, begin, begin + o.between(-1, 4))};
}

inline Results run_split(Operands& o) {
  const Var& x = o.any();
  const int axis = o.axis(x);
  if (o.flag()) {
    const Index parts = std::max(o.between(0, 4), 1);
    return split(x, std::vector<Index>(static_cast<std::size_t>(parts), x.dim(axis) / parts), axis);
  }
  return split(x, {o.extent(), o.extent()}, axis);
}

inline Results run_permute(Operands& o) {
  const Var& x = o.any();
  std::vector<int> axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  for (int i = 0; i < x.rank(); ++i) {
    std::swap(axes[static_cast<std::size_t>(i)],
              axes[static_cast<std::size_t>(o.between(0, x.rank() - 1))]);
  }
  if (o.between(0, 15) == 15) axes.push_back(o.axis(x));
  return {permute(x, axes)};
}

inline Results run_reshape(Operands& o) {
  const Var& x = o.any();
  const int which = o.between(0, 3);
  if (which == 0) return {reshape(x, {-1})};
  if (which == 1) return {reshape(x, {1, x.size()})};
  if (which == 2) return {reshape(x, {o.extent(), -1})};
  return {reshape(x, x.shape().inserted(o.between(-2, 2), 1))};
}

inline Results run_sum(Operands& o) {
  const Var& x = o.any();
  std::vector<int> axes;
  for (int n = o.between(0, 2); n > 0; --n) axes.push_back(o.axis(x));
  const KeepAxes keep = o.keep();
  return {o.flag() ? sum(x, axes, keep) : mean(x, axes, keep)};
}

inline Results run_along_axis(Operands& o) {
  const Var& x = o.any();
  const int axis = o.axis(x);
  const int which = o.between(0, 5);
  if (which == 0) return {max(x, axis, o.keep())};
  if (which == 1) return {norm(x, axis, o.keep())};
  if (which == 2) return {log_sum_exp(x, axis, o.keep())};
  if (which == 3) return {log_softmax(x, axis)};
  if (which == 4) return {softmax(x, axis, o.perhaps_mask(x.shape()))};
  return {sparsemax(x, axis, o.perhaps_mask(x.shape()))};
}

/// Masks of the last axes of x.
inline Results run_masked(Operands& o) {
  const Shape shape{o.extent(), o.extent(), o.extent()};
  const Var x = o.of(shape);
  const Tensor mask = o.mask(Shape{shape[1], shape[2]});
  const int axis = o.axis(x);
  return {o.flag() ? softmax(x, axis, mask) : sparsemax(x, axis, mask)};
}

inline Results run_where(Operands& o) {
  const Var &a = o.any(), &b = o.beside(a);
  return {where(o.mask(o.flag() ? a.shape() : b.shape()), a, b)};
}

inline Results run_power(Operands& o) {
  constexpr double powers[] = {2, 3, 1, 0, -1, 0.5, 2.5, -2};
  const double p = powers[o.between(0, 7)];
  return {power(p == 2 || p == 3 ? o.any() : positive(o.any()), p)};
}

inline Results run_with_number(Operands& o) {
  const Var& x = o.any();
  const int which = o.between(0, 5);
  if (which == 0) return {x + 1.5};
  if (which == 1) return {x * -0.75};
  if (which == 2) return {x / 1.5};
  if (which == 3) return {0.5 - x};
  if (which == 4) return {1.5 / positive(x)};
  return {-x};
}

inline Results run_row(Operands& o) {
  const Var& x = o.any();
  return {x[o.between(0, 4)]};
}

/// What its own elements are multiplied with is used twice.
inline Results run_own_product(Operands& o) {
  const Index n = o.extent();
  const Var x = o.of({n, n});
  return {matmul(x, x, {.b = o.flag()})};
}

/// Of any value, and of any two.
template <class F>
std::function<Results(Operands&)> unary(F f) {
  return [f](Operands& o) { return Results{f(o.any())}; };
}
template <class F>
std::function<Results(Operands&)> binary(F f) {
  return [f](Operands& o) {
    const Var& a = o.any();
    return Results{f(a, o.beside(a))};
  };
}

}  // namespace graph_detail

inline const std::vector<Operation>& operations() {
  using namespace graph_detail;
  using V = const Var&;
  static const std::vector<Operation> all = {
      {"add", binary([](V a, V b) { return a + b; })},
      {"subtract", binary([](V a, V b) { return a - b; })},
      {"multiply", binary([](V a, V b) { return a * b; })},
      {"divide", binary([](V a, V b) { return a / positive(b); })},
      {"maximum", binary([](V a, V b) { return maximum(a, b); })},
      {"minimum", binary([](V a, V b) { return minimum(a, b); })},
      {"where", run_where},
      {"with a number", run_with_number},
      {"exp", unary([](V x) { return exp(x); })},
      {"log", unary([](V x) { return log(positive(x)); })},
      {"tanh", unary([](V x) { return tanh(x); })},
      {"sigmoid", unary([](V x) { return sigmoid(x); })},
      {"relu", unary([](V x) { return relu(x); })},
      {"softplus", unary([](V x) { return softplus(x); })},
      {"abs", unary([](V x) { return abs(x); })},
      {"sqrt", unary([](V x) { return sqrt(positive(x)); })},
      {"square", unary([](V x) { return square(x); })},
      {"power", run_power},
      {"maxout", unary([](V x) { return maxout(x); })},
      {"matmul", run_matmul},
      {"own product", run_own_product},
      {"add_matmul", run_add_matmul},
      {"batched_matmul", run_batched_matmul},
      {"sum", run_sum},
      {"along an axis", run_along_axis},
      {"masked", run_masked},
      {"reshape", run_reshape},
      {"slice", run_slice},
      {"row", run_row},
      {"split", run_split},
      {"permute", run_permute},
      {"transpose",
       [](Operands& o) -> Results {
         V x = o.any();
         const int a = o.axis(x);
         return {transpose(x, a, o.axis(x))};
       }},
      {"concat",
       [](Operands& o) -> Results {
         V x = o.any();
         V y = o.any();
         return {concat({x, y, x}, o.axis(x))};
       }},
      {"stack", binary([](V a, V b) {
         return stack({a, b});
       })},
      {"gather", run_gather},
      {"layer_norm", run_layer_norm},
      {"unit_vectors", unary([](V x) { return unit_vectors(x); })},
      {"scores", run_scores},
      {"weighted_sum", run_weighted_sum},
      {"window", run_window},
      {"cross_entropy", run_cross_entropy},
      {"lstm", run_recurrence<4>},
      {"gru", run_recurrence<3>},
  };
  return all;
}

}  // namespace attune::fuzz
