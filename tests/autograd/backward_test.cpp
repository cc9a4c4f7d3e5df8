#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/record.hpp>
#include <attune/tensor/random.hpp>

#include "support/same_function.hpp"

namespace attune {
namespace {

Var scalar_variable(double value) { return variable(scalar(value, DType::f64)); }

/// The identity. Its pullback logs when it runs, and a captured token counts until it is freed.
Var observed(const Var& x, std::shared_ptr<int> token, std::function<void()> on_backward) {
  return record("observed", x.value().clone())
      .wrt(x, [token = std::move(token), on_backward](const Tensor& dy) {
        on_backward();
        return dy;
      });
}

}  // namespace

TEST_CASE(
    "backward: a chain of 200,000 operations does not overflow the stack, walked or dropped") {
  const Var x = scalar_variable(1);
  Var y = x;
  for (int i = 0; i < 200'000; ++i) y = y + 0.5;
  CHECK(y.item() == 100'001);
  CHECK(backward(y)[x].item() == 1);
  y = x;
  for (int i = 0; i < 200'000; ++i) y = y + 0.5;
  CHECK(backward(y, {x})[x].item() == 1);
  const std::size_t before = buffer_statistics().in_use;
  {
    const Var x = scalar_variable(1);
    Var y = x;
    for (int i = 0; i < 200'000; ++i) y = y * 1.0 + x;
  }
  CHECK(buffer_statistics().in_use == before);
}

TEST_CASE("backward: captures of a pullback are freed before the next one runs") {
  const Var x = scalar_variable(1);
  std::vector<std::weak_ptr<int>> tokens;
  std::vector<std::size_t> alive;  // number of live tokens at each pullback
  const auto count = [&] {
    alive.push_back(static_cast<std::size_t>(
        std::ranges::count_if(tokens, [](const auto& token) { return !token.expired(); })));
  };
  Var y = x;
  for (int i = 0; i < 4; ++i) {
    auto token = std::make_shared<int>(i);
    tokens.push_back(token);
    y = observed(y, std::move(token), count);
  }
  std::ignore = backward(y);
  CHECK(alive == std::vector<std::size_t>{4, 3, 2, 1});
  for (const auto& token : tokens) CHECK(token.expired());
}

TEST_CASE("backward: frees memory during the walk, and all of it at the end") {
  const std::size_t before = buffer_statistics().in_use;
  {
    constexpr Index n = 1 << 16;
    constexpr std::size_t bytes = n * sizeof(double);
    const Var x = variable(zeros({n}, DType::f64));
    Var y = x;
    for (int i = 0; i < 40; ++i) y = tanh(y);
    const Var loss = sum(y);
    y = {};
    const std::size_t recorded = buffer_statistics().in_use;
    CHECK(recorded - before > 40 * bytes);
    std::size_t halfway = 0;
    const Gradients gradients = backward(loss);
    halfway = buffer_statistics().in_use;
    CHECK(halfway - before < 4 * bytes);  // x, its gradient and a little more; `loss` is alive
    CHECK(gradients[x].size() == n);
  }
  CHECK(buffer_statistics().in_use == before);
}

TEST_CASE("record: a node, its edges and their captures take one block of 320 bytes") {
  const Var a = variable(ones({2})), b = variable(ones({2}));
  const auto bytes = [](auto f) {
    const std::size_t before = buffer_statistics().in_use;
    const Var y = f();
    return buffer_statistics().in_use - before - 128;  // without the elements of y
  };
  CHECK(bytes([&] { return a * b; }) == 320);
  CHECK(bytes([&] { return a + b; }) == 320);
  CHECK(bytes([&] { return tanh(a); }) == 320);
  const Recording two = record("two", {a.value(), b.value()});
  CHECK_ERROR("two: there is no result 2: it has 2", two.output(2));
  struct alignas(64) Large {
    double values[40] = {1};
  };
  const Large large;
  const Var y = record("large", a.value())
                    .wrt(a,
                         [large](const Tensor& dy) {
                           CHECK(reinterpret_cast<std::uintptr_t>(&large) % 64 == 0);
                           return dy * large.values[0];
                         })
                    .wrt(b, [large](const Tensor& dy) { return dy * large.values[0]; });
  CHECK(identical(backward(sum(y))[b], ones({2})));
}

TEST_CASE("backward: a pullback whose input needs no gradient is dropped at once") {
  auto token = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = token;
  const Var y = observed(Var(zeros({2})), std::move(token), [] {});
  CHECK(watch.expired());
  CHECK_FALSE(y.requires_gradient());
}

TEST_CASE("backward: a history can be walked only once") {
  const Var x = scalar_variable(3);
  const Var y = tanh(x);
  std::ignore = backward(y);
  CHECK_ERROR("backward: backward has run on this tanh before; its pullbacks are freed",
              return backward(y));
  CHECK_ERROR("backward: backward has run on this tanh before; its pullbacks are freed",
              return backward(y * 2.0));
  CHECK(backward(x * x)[x].item() == 6);  // the variable can still be used
}

TEST_CASE("backward: a captured input that was modified in place is an error with the op's name") {
  const Var w = variable(reals({3}, {1, 2, 3}));
  const Var loss = sum(w * w);
  Tensor values = w.value();
  fill(values, 5);
  CHECK_ERROR(
      "backward of multiply: a tensor (3) that it needs was modified in place after the forward "
      "pass",
      return backward(loss));
  CHECK(values.to_vector<double>()[0] == 5);  // reading it outside of backward is allowed
  CHECK(backward(sum(w * w))[w].to_vector<double>()[0] == 10);
}

TEST_CASE("backward: a captured gradient that was modified in place is an error") {
  const Var x = scalar_variable(3), before = exp(scalar_variable(1));  // `before` is walked last
  Tensor slope = scalar(2, DType::f64);
  const Var y = record("twice", x.value() * slope).wrt(x, [slope](const Tensor&) { return slope; });
  fill(slope, 7);
  CHECK_ERROR(
      "backward of twice: a tensor () that it needs was modified in place after the forward pass",
      return backward(y + before));
}

TEST_CASE("backward: a modified input of a deferred product is an error") {
  for (int uses : {1, 3}) {
    CAPTURE(uses);
    const Var w = variable(randn({4, 5}, DType::f64));
    Tensor x = randn({2, 4}, DType::f64);
    Var y = matmul(x, w);
    for (int i = 1; i < uses; ++i) y = y + matmul(x, w);
    fill(x, 1);
    CHECK(error_of([&] {
            return backward(sum(y));
          }).starts_with("backward of matmul: a tensor (2, 4)"));
  }
}

TEST_CASE("backward: modifying a row of a captured tensor through a view is an error too") {
  const Var w = variable(randn({3, 2}, DType::f64));
  const Var loss = sum(w * w);
  Tensor row = w.value()[1];
  fill(row, 0);
  CHECK(error_of([&] { return backward(loss); }).starts_with("backward of multiply"));
}

TEST_CASE("backward: modifying tensors that no pullback needs, or before forward, is allowed") {
  const Var x = variable(reals({2}, {1, 2})), b = variable(reals({2}, {3, 4}));
  Tensor other = ones({2}, DType::f64);
  const Var loss = sum(x * x + b);
  fill(other, 9);
  Tensor bias = b.value();
  fill(bias, 7);  // addition does not need its inputs
  const Gradients gradients = backward(loss);
  CHECK(identical(gradients[x], reals({2}, {2, 4})));
  CHECK(identical(gradients[b], ones({2}, DType::f64)));
  const Var w = variable(reals({2}, {1, 2}));
  Tensor values = w.value();
  fill(values, 3);
  CHECK(identical(backward(sum(w * w))[w], reals({2}, {6, 6})));
  Tensor input = zeros({1, 2}, DType::f64);
  const Var v = variable(randn({2, 1}, DType::f64)), y = matmul(ones({1, 2}, DType::f64), v);
  fill(input, 5);  // after a product with v, and before the next one
  CHECK(identical(backward(sum(y + matmul(input, v)))[v], full({2, 1}, 6, DType::f64)));
}

TEST_CASE("backward: a gradient given by the caller may have been filled after the forward pass") {
  const Var x = variable(reals({2}, {1, 2}));
  Tensor dy = zeros({2}, DType::f64);
  const Var y = x * x;
  fill(dy, 3);
  CHECK(identical(backward(y, dy)[x], reals({2}, {6, 12})));
}

TEST_CASE("backward: a gradient given by the caller is not modified") {
  const Var x = variable(reals({2}, {1, 2}));
  const Tensor dy = reals({2}, {3, 4});
  const Gradients gradients = backward(x + x + x, dy);
  CHECK(identical(gradients[x], reals({2}, {9, 12})));
  CHECK(identical(dy, reals({2}, {3, 4})));
}

TEST_CASE("backward: walks in several threads may share their variables") {
  const Var w = variable(randn({4, 4}, DType::f64));
  const auto gradient = [&] {
    Var h = Tensor(ones({2, 4}, DType::f64));
    for (int step = 0; step < 20; ++step) h = tanh(matmul(h, w));
    return backward(sum(h))[w];
  };
  const Tensor expected = gradient();
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int run = 0; run < 50; ++run) wrong[i] += !identical(gradient(), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(4, 0));
}

TEST_CASE("backward: a pullback may call backward itself, over the same variables") {
  // y = w², recomputed in the pullback, as in gradient checkpointing.
  const Var w = variable(reals({2}, {3, 5}));
  const Var y = record("recomputed", w.value() * w.value()).wrt(w, [w](const Tensor& dy) {
    const detail::PullbackContext before = detail::thread_state.pullback;
    const bool recording = std::exchange(detail::thread_state.records_history, true);
    const Tensor dw = backward(w * w, dy)[w];
    detail::thread_state.records_history = recording;
    detail::thread_state.pullback = before;
    return dw;
  });
  CHECK(identical(backward(sum(y + w))[w], reals({2}, {7, 11})));
  // Not over an operation that both reach: the outer walk would lose or repeat gradients.
  const Var u = exp(w), v = 2.0 * u;
  const Var both = record("nested", v.value()).wrt(v, [u](const Tensor& dy) {
    static_cast<void>(backward(u, dy));
    return dy;
  });
  CHECK_THROWS_WITH_AS(static_cast<void>(backward(sum(both + u))),
                       doctest::Contains("has reached this exp"), Error);
}

TEST_CASE("matmul: gradients of a product that a BLAS may compute equal those of small products") {
  const Tensor x = randn({70, 200}, DType::f64, 1), dy = randn({70, 120}, DType::f64, 2);
  const Var w = variable(randn({200, 120}, DType::f64, 3)), all = variable(x);
  const Gradients gradients = backward(matmul(all, w), dy);
  Tensor dw = zeros({200, 120}, DType::f64);
  for (Index row = 0; row < 70; row += 2) {  // too few rows for a BLAS
    const Var rows = variable(x.slice(row, row + 2));
    const Gradients parts = backward(matmul(rows, w), dy.slice(row, row + 2));
    add_in_place(dw, parts[w]);
    CHECK(difference(parts[rows], gradients[all].slice(row, row + 2)) < 1e-12);
  }
  CHECK(difference(dw, gradients[w]) < 1e-12);
}

TEST_CASE("backward of some variables: same bits as a full walk, and runs only needed pullbacks") {
  const Tensor x = randn({2, 4}, DType::f64, 1);
  const std::vector<Var> w = {variable(randn({4, 3}, DType::f64, 2)),
                              variable(randn({3, 5}, DType::f64, 3)),
                              variable(randn({2, 5}, DType::f64, 4))};
  std::vector<std::string> ran;
  const auto seen = [&](const char* name, const Var& y) {
    return observed(y, nullptr, [&ran, name] { ran.emplace_back(name); });
  };
  const auto loss = [&] {
    const Var h = seen("h", tanh(matmul(x, w[0]))), k = seen("k", tanh(matmul(h, w[1]))),
              side = seen("side", exp(w[2]));
    return sum(k * side) + sum(square(side)) + sum(h);
  };
  const Gradients all = backward(loss());
  for (unsigned subset = 1; subset < 8; ++subset) {
    CAPTURE(subset);
    const auto asked = [&](std::size_t i) { return (subset >> i & 1) != 0; };
    std::vector<Var> variables;
    std::vector<std::string> expected;
    for (std::size_t i = 0; i < 3; ++i)
      if (asked(i)) variables.push_back(w[i]);
    if (asked(2)) expected.emplace_back("side");
    if (asked(0) || asked(1)) expected.emplace_back("k");
    if (asked(0)) expected.emplace_back("h");
    ran.clear();
    const Gradients some = backward(loss(), variables);
    CHECK(ran == expected);
    CHECK(some.all().size() == variables.size());
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK((some.find(w[i]) != nullptr) == asked(i));
      if (asked(i)) CHECK(identical(some[w[i]], all[w[i]]));
    }
  }
}

TEST_CASE("backward of some variables: other inputs of an operation get no gradient") {
  const Var a = variable(ones({2})), b = variable(ones({2}));
  std::vector<int> ran(4, 0);
  const auto loss = [&] {
    const auto counted = [&](int i) {
      return [&ran, i](const Tensor& dy) {
        ++ran[i];
        return dy;
      };
    };
    const Var apart = record("apart", a.value() + b.value()).wrt(a, counted(0)).wrt(b, counted(1));
    const Var joint = record("joint", a.value() + b.value())
                          .joint({a, b}, [&](std::span<const Tensor> dy, const auto& dx) {
                            for (int i : {0, 1}) {
                              if (dx[i]) ++ran[2 + i], dx[i]->add(dy[0]);
                            }
                          });
    return sum(apart) + sum(joint);
  };
  CHECK(identical(backward(loss(), {b})[b], full({2}, 2)));
  CHECK(ran == std::vector<int>{0, 1, 0, 1});
}

TEST_CASE("backward of some variables: only parts that were not walked may be walked later") {
  const Var g = scalar_variable(3), d = scalar_variable(5);
  const Var made = tanh(g), judged = made * d;
  CHECK(backward(judged, {d})[d].item() == made.item());
  CHECK(backward(made * 2.0, {g})[g].item() == 2 * ((1 - made.item()) * (1 + made.item())));
  CHECK_ERROR("backward: backward has run on this multiply before; its pullbacks are freed",
              return backward(judged + d, {d}));
}

TEST_CASE("backward of some variables: an error if the loss depends on none of them") {
  const Var x = scalar_variable(3), other = scalar_variable(4);
  const Gradients of_one = backward(x, {x, other});
  CHECK(of_one.all().size() == 1);
  CHECK_ERROR("backward: the result depends on none of the 1 requested variables",
              return backward(x * x, {other}));
  CHECK_ERROR("backward: the result depends on none of the 0 requested variables",
              return backward(x * x, std::vector<Var>()));
  const std::string no_variable =
      "gradients: this () value is not a variable, and only variables have gradients";
  CHECK_ERROR(no_variable, return backward(x * x, {x * 2.0}));
  CHECK_ERROR(no_variable, return backward(x * x, {detach(x)}));
  CHECK_ERROR("backward: a scalar was expected: (2)",
              return backward(ones({2}, DType::f64) * x, {x}));
}

TEST_CASE("Gradients: a sum has the gradients of both, and does not modify other copies") {
  const Var a = variable(reals({2}, {1, 2})), b = variable(reals({2}, {3, 4})),
            c = variable(reals({1}, {5}));
  Gradients total;
  for (const Var& loss : {sum(b * b), sum(a * b) + sum(c), sum(c * c)}) total += backward(loss);
  CHECK(total.all().size() == 3);
  CHECK(identical(total[a], reals({2}, {3, 4})));
  CHECK(identical(total[b], reals({2}, {7, 10})));
  CHECK(identical(total[c], reals({1}, {11})));
  const Gradients copy = total;
  CHECK(total.global_norm() == copy.global_norm());
  total += copy;
  CHECK(identical(total[b], reals({2}, {14, 20})));
  CHECK(identical(copy[b], reals({2}, {7, 10})));
  CHECK(total.global_norm() == 2 * copy.global_norm());
  total += total;
  CHECK(identical(total[c], reals({1}, {44})));
}

TEST_CASE("Gradients: a loss that uses a gradient treats it as a constant") {
  const Var x = scalar_variable(3);
  const Var dy = backward(x * x * x)[x];  // 27
  CHECK_FALSE(dy.requires_gradient());
  CHECK(backward(x * dy)[x].item() == 27);
}

TEST_CASE("Gradients: a value that is no variable is an error") {
  const Var x = variable(reals({2}, {1, 2})), y = x * x;
  CHECK_THROWS_WITH_AS(
      backward(sum(y))[y],
      "gradients: this (2) value is not a variable, and only variables have gradients", Error);
  const Var unrelated = variable(zeros({2, 3}));
  const Gradients gradients = backward(sum(x));
  CHECK(gradients.find(unrelated) == nullptr);
  CHECK_ERROR("gradients: the loss does not depend on this (2, 3) variable", gradients[unrelated]);
}

TEST_CASE("Gradients: changing one in place does not change the others") {
  const Var a = variable(reals({2}, {1, 2})), b = variable(reals({2}, {3, 4}));
  Gradients gradients = backward(a + b, reals({2}, {1, 10}));
  for (Tensor gradient : gradients.all()) scale_in_place(gradient, 2);
  CHECK(identical(gradients[a], reals({2}, {2, 20})));
  CHECK(identical(gradients[b], reals({2}, {2, 20})));
}

TEST_CASE("Gradients: the global norm follows in-place changes") {
  const Var a = variable(zeros({2}, DType::f64)), b = variable(zeros({1, 1}, DType::f64));
  const auto gradients_of = [&](double of_b) {
    return backward(sum(a * Var(reals({2}, {3, -4}))) + sum(b) * of_b);
  };
  Gradients gradients = gradients_of(12);
  CHECK(std::as_const(gradients).global_norm() == 13);
  CHECK(gradients.global_norm() == 13);
  const Gradients copy = gradients;
  gradients.scale(-2);
  CHECK(gradients.global_norm() == 26);
  CHECK(identical(gradients[a], reals({2}, {-6, 8})));
  gradients.scale(0.25);
  CHECK(gradients.global_norm() == 6.5);
  Tensor of_b = gradients[b];
  fill(of_b, 0);
  CHECK(gradients.global_norm() == 2.5);
  CHECK(copy.global_norm() == 13);
  CHECK(identical(copy[a], reals({2}, {3, -4})));
}

TEST_CASE("Gradients: a global norm whose square overflows has the same bits on each machine") {
  const Var a = variable(zeros({}, DType::f64)), b = variable(zeros({}, DType::f64));
  const Tensor factors = randn({2, 100}, DType::f64);
  for (Index i = 0; i < 100; ++i) {
    const double x = factors[0][i].item(), y = factors[1][i].item();
    const double largest = std::max(std::abs(x), std::abs(y)) * 0x1p600;
    const double p = x * 0x1p600 / largest, q = y * 0x1p600 / largest;
    CHECK(backward(a * (x * 0x1p600) + b * (y * 0x1p600)).global_norm() ==
          largest * std::sqrt(p * p + q * q));
  }
}

TEST_CASE("NoGrad: disables recording until the end of the scope, in its own thread only") {
  const Var x = scalar_variable(2);
  {
    const NoGrad outer;
    CHECK_FALSE((x * x).requires_gradient());
    { const NoGrad inner; }
    CHECK_FALSE((x * x).requires_gradient());
  }
  CHECK((x * x).requires_gradient());
  const NoGrad guard;
  bool recorded = false;
  std::thread([&] { recorded = (x * x).requires_gradient(); }).join();
  CHECK(recorded);
}

TEST_CASE("NoGrad: a result computed under it is a constant for backward") {
  const Var x = scalar_variable(3);
  Var detached;
  {
    const NoGrad guard;
    detached = x * x;
  }
  CHECK_ERROR("backward: the result depends on no variable, or was computed under NoGrad",
              return backward(detached));
  CHECK(backward(detached * x)[x].item() == 9);
}

TEST_CASE("backward: what a pullback computes with Vars is not recorded") {
  const Var x = scalar_variable(2);
  bool recorded = true;
  const Var y = record("probe", x.value().clone()).wrt(x, [&recorded](const Tensor& dy) {
    const Var inner = scalar_variable(1);
    recorded = (inner * inner).requires_gradient();
    return dy;
  });
  std::ignore = backward(y);
  CHECK_FALSE(recorded);
  CHECK((x * x).requires_gradient());
}

TEST_CASE("backward: an operand that is used twice gets the sum of both gradients") {
  const Var x = variable(reals({3}, {1, 2, 3})), y = variable(reals({3}, {4, 5, 6}));
  CHECK(identical(backward(sum(x + x))[x], full({3}, 2, DType::f64)));
  CHECK(identical(backward(sum(y - y))[y], zeros({3}, DType::f64)));
  // Both inputs of an addition get dy as one shared tensor, which must not be modified in place.
  const Var a = variable(reals({2}, {1, 2})), b = variable(reals({2}, {3, 4}));
  const Var s = a + b;
  const Gradients gradients = backward(s + a + s * 3.0, reals({2}, {1, 10}));
  CHECK(identical(gradients[a], reals({2}, {5, 50})));
  CHECK(identical(gradients[b], reals({2}, {4, 40})));
}

TEST_CASE("backward: a gradient from the forward pass may become the sum of gradients") {
  const Var x = variable(ones({3}));
  Tensor slope = full({3}, 5);  // allocated before y is recorded
  const Var y = x * 2.0;
  const Var z = record("made", scalar(1)).wrt(x, [slope = std::move(slope)](const Tensor&) mutable {
    return std::move(slope);
  });
  CHECK(identical(backward(sum(y) + sum(x * 3.0) + z)[x], full({3}, 10)));
}

TEST_CASE("backward: a weight of twenty steps gets the sum of the gradients of twenty weights") {
  constexpr int steps = 20;
  struct Kind {
    Shape weight;
    Transpose transpose;
    Index rows;
  };
  // Few rows are combined into one product, many rows get a product of their own.
  for (const Kind& kind : {Kind{{5, 5}, {}, 3}, Kind{{5, 5}, {.b = true}, 3},
                           Kind{{5, 5}, {.b = true}, 300}, Kind{{5, 5}, {}, 300}}) {
    CAPTURE(kind.rows);
    CAPTURE(kind.transpose.b);
    const Tensor weight = randn(kind.weight, DType::f64) * 0.3;
    const auto run = [&](const std::vector<Var>& weights) {
      Var h = randn({kind.rows, 5}, DType::f64, 2);
      for (const Var& w : weights) h = tanh(matmul(h, w, kind.transpose) + 0.1);
      return backward(h, randn({kind.rows, 5}, DType::f64, 3));
    };
    const Var shared = variable(weight);
    std::vector<Var> separate;
    Tensor total = zeros(weight.shape(), DType::f64);
    for (int t = 0; t < steps; ++t) separate.push_back(variable(weight.clone()));
    const Gradients gradients = run(separate);
    for (const Var& w : separate) add_in_place(total, gradients[w]);
    CHECK(difference(run(std::vector<Var>(steps, shared))[shared], total) <= 1e-13);
  }
}

TEST_CASE("backward: a weight used plain, transposed, sliced and gathered gets the sum of all") {
  const Tensor x = randn({2, 4}, DType::f64, 5), y = randn({3, 4}, DType::f64, 6),
               large = randn({300, 4}, DType::f64, 7);
  const auto f = [&](const std::vector<Var>& v) {
    const Var& w = v[0];
    return joined({matmul(x, w), matmul(y, w, {.b = true}), matmul(w, w), w[1] * w[2],
                   gather(w, ints({3}, {3, 0, 3})), slice(w, 1, 1, 3), w * w,
                   matmul(large, w) * 0.1, matmul(w, w, {.a = true}),
                   matmul(w, w, {.a = true, .b = true})});
  };
  CHECK(gradcheck(f, {randn({4, 4}, DType::f64, 8)}));
}

TEST_CASE("Gradients: constants and intermediate results have none") {
  const Var x = scalar_variable(2), constant = scalar(3, DType::f64);
  const Var y = x * constant;
  const Gradients gradients = backward(y * y);
  CHECK(gradients[x].item() == 36);
  CHECK(gradients.find(constant) == nullptr);
  CHECK(gradients.find(y) == nullptr);
  CHECK(gradients.all().size() == 1);
}

TEST_CASE("detach: the value without its history") {
  const Var x = variable(full({2}, 3));
  const Var y = x * x;
  CHECK_FALSE(detach(y).requires_gradient());
  const Gradients gradients = backward(sum(detach(y) * x));
  CHECK(gradients[x].to_vector<float>() == std::vector<float>{9, 9});
}

TEST_CASE("Gradients: ordered by creation of the variables") {
  const Var a = variable(zeros({1})), b = variable(zeros({2})), c = variable(zeros({3}));
  const Gradients gradients = backward(sum(c) + sum(a) + sum(b));
  REQUIRE(gradients.all().size() == 3);
  CHECK(gradients.all()[0].shape() == Shape{1});
  CHECK(gradients.all()[1].shape() == Shape{2});
  CHECK(gradients.all()[2].shape() == Shape{3});
}

TEST_CASE("backward: a result that is not a scalar needs a given gradient") {
  const Var x = variable(zeros({2, 3}));
  CHECK_ERROR("backward: a scalar was expected: (2, 3)", return backward(x * 2.0));
  CHECK(error_of([&] { return backward(Var()); }).starts_with("backward: the loss is undefined"));
  CHECK_ERROR("backward: the gradient is f32 (3, 2), but the result f32 (2, 3)",
              return backward(x * 2.0, zeros({3, 2})));
  CHECK_ERROR("backward: the gradient is f64 (2, 3), but the result f32 (2, 3)",
              return backward(x * 2.0, zeros({2, 3}, DType::f64)));
  CHECK_ERROR("backward: the gradient is undefined, but the result f32 ()",
              return backward(sum(x), Tensor()));
  CHECK(backward(sum(x) * 2.0)[x].dtype() == DType::f32);
}

TEST_CASE("backward: the gradient of a variable itself is 1") {
  const Var x = scalar_variable(5);
  CHECK(backward(x)[x].item() == 1);
  CHECK(backward(x)[x].item() == 1);
}

TEST_CASE("variable: i32 is an error") {
  CHECK_ERROR("variable: f32 or f64 was expected: i32 (2)", variable(ints({2}, {1, 2})));
  CHECK_ERROR("variable: the tensor is not defined", variable(Tensor()));
}

TEST_CASE("backward: a pullback with a wrong shape or dtype is an error with the op's name") {
  const Var x = variable(zeros({3}, DType::f64));
  const auto with_pullback = [&](auto pullback) {
    return error_of(
        [&] { return backward(record("faulty", x.value().clone()).wrt(x, pullback), x.value()); });
  };
  CHECK(with_pullback([](const Tensor& dy) { return sum(dy); }) ==
        "backward of faulty: the gradient of an input must be f64 (3), but the pullback returned "
        "f64 ()");
  CHECK(with_pullback([](const Tensor& dy) { return dy.to(DType::f32); }) ==
        "backward of faulty: the gradient of an input must be f64 (3), but the pullback returned "
        "f32 (3)");
  CHECK(with_pullback([](const Tensor&) { return Tensor(); }) ==
        "backward of faulty: the gradient of an input must be f64 (3), but the pullback returned "
        "undefined");
}

TEST_CASE("backward: after a pullback has thrown, another loss over the same graph is correct") {
  const Var x = variable(reals({2}, {1, 2}));
  const Var shared = x * x;
  const Var faulty =
      record("faulty", shared.value().clone()).wrt(shared, [](const Tensor&) -> Tensor {
        throw std::runtime_error("a pullback of one's own");
      });
  const Var later = x * 100.0;  // visited first: its contribution to x's gradient must be discarded
  CHECK_THROWS_WITH(std::ignore = backward(sum(faulty) + sum(later)), "a pullback of one's own");
  CHECK((x * x).requires_gradient());
  CHECK(identical(backward(sum(shared) * 3.0)[x], reals({2}, {6, 12})));
}

TEST_CASE("record: an unused result of an operation has an undefined gradient") {
  const Var x = variable(reals({2}, {1, 2}));
  std::vector<bool> arrived;
  const auto pair = record("pair", {x.value() * 2.0, x.value() * 3.0})
                        .joint({x}, [&](std::span<const Tensor> dy, auto dx) {
                          arrived = {dy[0].defined(), dy[1].defined()};
                          for (std::size_t i : {0u, 1u}) {
                            if (dy[i].defined()) dx[0]->add(dy[i] * (2.0 + static_cast<double>(i)));
                          }
                        });
  const Var second = pair.output(1);
  CHECK(identical(backward(second, ones({2}, DType::f64))[x], reals({2}, {3, 3})));
  CHECK(arrived == std::vector<bool>{false, true});
}

TEST_CASE("record: several results of an operation may be used") {
  const Var x = variable(reals({2}, {1, 2}));
  const Recording pair = record("pair", {x.value() * 2.0, x.value() * 3.0})
                             .joint({x}, [](std::span<const Tensor> dy, auto dx) {
                               dx[0]->add(dy[0] * 2.0);
                               dx[0]->add(dy[1] * 3.0);
                             });
  CHECK(identical(backward(sum(pair.output(0) * pair.output(1)))[x], reals({2}, {12, 24})));
}

TEST_CASE("record: a joint pullback gets no slot for a constant") {
  const Var x = variable(ones({2}, DType::f64)), constant = ones({2}, DType::f64);
  bool null = false;
  const Var y = record("joint", x.value() + constant.value())
                    .joint({constant, x}, [&](std::span<const Tensor> dy, auto dx) {
                      null = dx[0] == nullptr;
                      dx[1]->add(dy[0]);
                    });
  std::ignore = backward(sum(y));
  CHECK(null);
}

TEST_CASE("Var: the history lives as long as something computed from it") {
  auto token = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = token;
  Var z;
  {
    const Var x = scalar_variable(1);
    z = observed(x, std::move(token), [] {}) * 2.0;
  }
  CHECK_FALSE(watch.expired());
  z = {};
  CHECK(watch.expired());
}

TEST_CASE("Gradients: constructed from gradients computed elsewhere, of the variables' shapes") {
  const std::vector<NamedVariable> variables = {{"a", variable(ones({2}))},
                                                {"b", variable(ones({3}))}};
  const Gradients gradients(variables, {full({2}, 5), full({3}, 7)});
  CHECK(gradients[variables[1].variable].to_vector<float>() == std::vector<float>(3, 7));
  CHECK_THROWS_WITH_AS(Gradients(variables, {ones({2}), ones({2})}),
                       "gradients: shape or dtype differs: variable (3), gradient (2)", Error);
  CHECK_THROWS_WITH_AS(Gradients(variables, {ones({2})}),
                       "gradients: there are 2 variables, but 1 gradients", Error);
  const std::vector<NamedVariable> constant = {{"c", ones({2})}};
  CHECK_THROWS_WITH_AS(Gradients(constant, {ones({2})}),
                       "gradients: this (2) value is not a variable, and only variables have "
                       "gradients",
                       Error);
  const std::vector<NamedVariable> twice = {variables[0], variables[0]};
  CHECK_THROWS_WITH_AS(Gradients(twice, {ones({2}), ones({2})}),
                       "gradients: variable (2) is given twice", Error);
}

}  // namespace attune
