#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/recurrent.hpp>
#include <attune/autograd/reference.hpp>

#include "support/same_function.hpp"
#include "support/threads_scope.hpp"

namespace attune {
namespace {

constexpr Index steps = 4, batch = 3, hidden = 5;
constexpr Index many_rows = 71;  // more than one tile, the last one not full

/// What a recurrence is tried with: every combination of these that fits the cell.
struct Setting {
  Cell cell;
  Direction direction = Direction::forward;
  bool initial_states = true, masked = false, b_hn = false;

  Tensor mask() const { return masked ? mask_of(steps, {4, 2, 3}) : Tensor(); }
};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (Direction direction : {Direction::forward, Direction::backward}) {
    for (bool states : {false, true}) {
      for (bool masked : {false, true}) {
        all.push_back({Cell::lstm, direction, states, masked});
        all.push_back({Cell::gru, direction, states, masked});
        all.push_back({Cell::gru, direction, states, masked, /*b_hn=*/true});
        all.push_back({Cell::gru_reset_before, direction, states, masked});
      }
    }
  }
  return all;
}

std::string described(const Setting& s) {
  return std::string(operation_of(s.cell)) +
         (s.direction == Direction::forward ? ", forward" : ", backward") +
         (s.cell == Cell::gru_reset_before ? ", reset before" : "") +
         (s.initial_states ? ", initial states" : "") + (s.masked ? ", mask" : "") +
         (s.b_hn ? ", b_hn" : "");
}

/// check(setting, named) for each setting that `wanted` accepts.
template <class Check>
void for_settings(
    Check check, bool (*wanted)(const Setting&) = [](const Setting&) { return true; }) {
  for (const Setting& s : settings()) {
    if (!wanted(s)) continue;
    INFO(described(s));
    check(s);
  }
}
bool is_masked(const Setting& s) { return s.masked; }
bool is_whole(const Setting& s) { return !s.masked; }

std::vector<Tensor> inputs_of(const Setting& s, double scale = 1, Index rows = batch) {
  const Index width = gates_of(s.cell) * hidden;
  std::vector<Tensor> inputs{randn({steps, rows, width}, DType::f64) * scale,
                             randn({hidden, width}, DType::f64, 2)};
  if (s.initial_states) inputs.push_back(randn({rows, hidden}, DType::f64, 3) * scale);
  if (s.initial_states && s.cell == Cell::lstm) {
    inputs.push_back(randn({rows, hidden}, DType::f64, 4) * scale);
  }
  if (s.b_hn) inputs.push_back(randn({hidden}, DType::f64, 8));
  return inputs;
}

enum class By { fused, reference };

/// The recurrence as a function of inputs_of(s): h, and c_last of an LSTM, as one vector.
Function function_of(const Setting& s, const Tensor& mask, By by = By::fused) {
  return [=](const std::vector<Var>& v) {
    Recurrence options{.cell = s.cell, .mask = mask, .direction = s.direction};
    std::size_t next = 2;
    if (s.initial_states) options.h0 = v[next++];
    if (s.initial_states && s.cell == Cell::lstm) options.c0 = v[next++];
    if (s.b_hn) options.b_hn = v[next++];
    const auto [h, c_last] =
        (by == By::fused ? recurrent : reference::recurrent)(v[0], v[1], options);
    return c_last.defined() ? joined({h, c_last}) : h;
  };
}
Function function_of(const Setting& s, By by = By::fused) { return function_of(s, s.mask(), by); }

Tensor with_nan_at_padding(const Tensor& x, const Tensor& mask) {
  naive::Array y(x);
  const naive::Array used(mask);
  naive::for_each_index(x.shape(), [&](const naive::At& at) {
    if (used[{at[0], at[1]}] == 0) y[at] = std::numeric_limits<double>::quiet_NaN();
  });
  return y.tensor();
}

/// How much f(inputs) and its gradients change when xw is not a number at padding.
double difference_by_nan_at_padding(const Function& f, const std::vector<Tensor>& inputs,
                                    const Tensor& mask) {
  const auto with_xw = [&f](const Tensor& xw) -> Function {
    return [&f, xw](std::vector<Var> v) {
      v[0] = v[0] * 0.0 + xw;
      return f(v);
    };
  };
  return function_difference(with_xw(with_nan_at_padding(inputs[0], mask)), with_xw(inputs[0]),
                             inputs);
}

/// Lengths from 1 to `steps`.
Tensor many_lengths(Index rows) {
  naive::Array mask(Shape{steps, rows});
  naive::for_each_index(mask.shape(),
                        [&](const naive::At& at) { mask[at] = at[0] < 1 + at[1] % steps ? 1 : 0; });
  return mask.tensor();
}

bool same_with_two_threads(const Function& f, const std::vector<Tensor>& inputs) {
  const test::ThreadsScope scope(1);
  const std::vector<Tensor> one = value_and_gradients(f, inputs);
  set_threads(2);
  const std::vector<Tensor> two = value_and_gradients(f, inputs);
  return std::ranges::equal(one, two, identical);
}

/// How far f32 is from f64, in parts of the largest element of each result.
double f32_error(const Function& single, const Function& f, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> rounded;
  for (const Tensor& x : inputs) rounded.push_back(x.to(DType::f32));
  const std::vector<Tensor> of_f32 = value_and_gradients(single, rounded),
                            of_f64 = value_and_gradients(f, inputs);
  double largest = 0;
  for (std::size_t i = 0; i < of_f64.size(); ++i) {
    const Tensor& expected = of_f64[i];
    const double size = difference(expected, zeros(expected.shape(), DType::f64));
    largest = std::max(largest, difference(of_f32[i].to(DType::f64), expected) / size);
  }
  return largest;
}

}  // namespace

TEST_CASE("recurrences: gradients are central differences, in every setting and at large values") {
  for_settings([](const Setting& s) {
    for (double scale : {1, 4}) CHECK(gradcheck(function_of(s), inputs_of(s, scale)));
  });
}

TEST_CASE("recurrences: they are what their equations say, one small op at a time") {
  for_settings([](const Setting& s) {
    CHECK(function_difference(function_of(s), function_of(s, By::reference), inputs_of(s)) <=
          1e-12);
  });
}

TEST_CASE("recurrences: a batch of several tiles is what its equations say") {
  for_settings([](const Setting& s) {
    const Tensor mask = s.masked ? many_lengths(many_rows) : Tensor();
    CHECK(function_difference(function_of(s, mask), function_of(s, mask, By::reference),
                              inputs_of(s, 1, many_rows)) <= 1e-12);
  });
}

TEST_CASE("recurrences: one and two threads give the same bits, values and gradients") {
  for_settings(
      [](const Setting& s) {
        CHECK(same_with_two_threads(function_of(s, many_lengths(many_rows)),
                                    inputs_of(s, 1, many_rows)));
      },
      [](const Setting& s) { return s.masked && s.initial_states; });
}

TEST_CASE("recurrences: f32 follows f64 to its precision, values and gradients") {
  for_settings(
      [](const Setting& s) {
        CHECK(f32_error(function_of(s, s.mask().to(DType::f32)), function_of(s), inputs_of(s)) <=
              1e-5);
      },
      is_masked);
}

TEST_CASE("recurrences: not a number at padding reaches neither values nor gradients") {
  for_settings(
      [](const Setting& s) {
        CHECK(difference_by_nan_at_padding(function_of(s), inputs_of(s), s.mask()) == 0);
      },
      is_masked);
}

TEST_CASE("recurrences: a single step is a sequence of one, values and gradients") {
  for_settings(
      [](const Setting& s) {
        std::vector<Tensor> inputs = inputs_of(s);
        inputs[0] = inputs[0][0];
        const Function f = function_of(s);
        const Function sequence = [&](std::vector<Var> v) {
          v[0] = reshape(v[0], v[0].shape().inserted(0, 1));
          return s.cell == Cell::lstm ? f(v) : f(v)[0];
        };
        CHECK(function_difference(f, sequence, inputs) == 0);
      },
      is_whole);
}

TEST_CASE("recurrences: only those inputs that are variables get gradients") {
  for_settings([](const Setting& s) {
    const std::vector<Tensor> inputs = inputs_of(s);
    for (std::size_t chosen = 0; chosen < inputs.size(); ++chosen) {
      CAPTURE(chosen);
      const auto with = [&](By by) -> Function {
        return [&inputs, chosen, f = function_of(s, by)](const std::vector<Var>& v) {
          std::vector<Var> mixed(inputs.begin(), inputs.end());
          mixed[chosen] = v[0];
          return f(mixed);
        };
      };
      CHECK(function_difference(with(By::fused), with(By::reference), {inputs[chosen]}) <= 1e-12);
    }
  });
}

TEST_CASE("gru: the two forms are different functions") {
  const Setting after{Cell::gru}, before{Cell::gru_reset_before};
  CHECK(function_difference(function_of(after), function_of(before), inputs_of(after)) > 1e-3);
}

TEST_CASE("lstm: a gradient that arrives at c_last alone flows back") {
  const Setting s{.cell = Cell::lstm, .masked = true};
  const Function fused = [&](const std::vector<Var>& v) {
    return recurrent(v[0], v[1], {.cell = Cell::lstm, .h0 = v[2], .c0 = v[3], .mask = s.mask()})
        .c_last;
  };
  const Function expected = [&](const std::vector<Var>& v) {
    return reference::recurrent(v[0], v[1],
                                {.cell = Cell::lstm, .h0 = v[2], .c0 = v[3], .mask = s.mask()})
        .c_last;
  };
  CHECK(function_difference(fused, expected, inputs_of(s)) <= 1e-12);
}

TEST_CASE("lstm: a gradient that arrives at one step alone reaches that step and those before") {
  const Setting s{Cell::lstm};
  for (Index t : {Index{0}, steps - 1}) {
    CAPTURE(t);
    const Function fused = [&](const std::vector<Var>& v) {
      return recurrent(v[0], v[1], {.cell = Cell::lstm, .h0 = v[2], .c0 = v[3]}).h[t];
    };
    const Function expected = [&](const std::vector<Var>& v) {
      return reference::recurrent(v[0], v[1], {.cell = Cell::lstm, .h0 = v[2], .c0 = v[3]}).h[t];
    };
    CHECK(function_difference(fused, expected, inputs_of(s)) <= 1e-12);
  }
  const Var xw = variable(inputs_of(s)[0]), w_h = variable(inputs_of(s)[1]);
  const Gradients gradients = backward(sum(recurrent(xw, w_h, {.cell = Cell::lstm}).h[0]));
  const Tensor later = gradients[xw].slice(1, steps);
  CHECK(difference(later, zeros(later.shape(), DType::f64)) == 0);
}

TEST_CASE("lstm: after one step from a zero state the weight's gradient is zero, not missing") {
  const Var xw = variable(randn({1, batch, 4 * hidden}, DType::f64)),
            w_h = variable(randn({hidden, 4 * hidden}, DType::f64));
  const Gradients gradients = backward(sum(recurrent(xw, w_h, {.cell = Cell::lstm}).h));
  REQUIRE(gradients.find(w_h));
  CHECK(identical(gradients[w_h], zeros({hidden, 4 * hidden}, DType::f64)));
}

TEST_CASE("gru: its recurrent weight may be used elsewhere too") {
  for (Cell cell : {Cell::gru, Cell::gru_reset_before}) {
    const Setting s{cell};
    INFO(described(s));
    const auto with_product = [&](auto recurrent) -> Function {
      return [cell, recurrent](const std::vector<Var>& v) {
        const Var h = recurrent(v[0], v[1], Recurrence{.cell = cell, .h0 = v[2]}).h;
        return joined({h, matmul(h[0], v[1])});
      };
    };
    CHECK(function_difference(with_product(recurrent), with_product(reference::recurrent),
                              inputs_of(s)) <= 1e-12);
  }
}

TEST_CASE("recurrences: a wrong shape is named with the letter that does not fit") {
  const auto of = [](std::initializer_list<Index> shape) {
    return zeros(Shape(shape), DType::f64);
  };
  const auto lstm_error = [&](const Tensor& xw, Recurrence options = {}) {
    options.cell = Cell::lstm;
    return error_of([&] { recurrent(xw, of({2, 8}), options); });
  };
  const auto gru_error = [&](const Recurrence& options) {
    return error_of([&] { recurrent(of({4, 3, 6}), of({2, 6}), options); });
  };
  const Tensor xw = of({4, 3, 8});
  CHECK(lstm_error(of({4, 3, 9})) == "lstm: xw (T, B, 4H) is (4, 3, 9), but H = 2 in w_h");
  CHECK(lstm_error(xw, {.h0 = of({5, 2})}) == "lstm: h0 (B, H) is (5, 2), but B = 3 in xw");
  CHECK(lstm_error(of({0, 3, 8})) == "lstm: the sequence has no steps");
  CHECK(lstm_error(xw, {.b_hn = of({2})}) == "lstm: b_hn belongs to Cell::gru only");
  CHECK(gru_error({.h0 = zeros({3, 2})}) == "gru: dtypes differ: f64 (4, 3, 6) and f32 (3, 2)");
  CHECK(gru_error({.c0 = of({3, 2})}) == "gru: c0 belongs to an LSTM only");
  CHECK(gru_error({.cell = Cell::gru_reset_before, .b_hn = of({2})}) ==
        "gru: b_hn belongs to Cell::gru only");
}

}  // namespace attune
