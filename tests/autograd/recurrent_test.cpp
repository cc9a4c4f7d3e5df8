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

/// What a recurrence is tried with: every combination of these.
struct Setting {
  Direction direction;
  bool initial_states, masked, norm = false;
  GruForm form = GruForm::reset_after;
  bool b_hn = false;

  Tensor mask() const { return masked ? mask_of(steps, {4, 2, 3}) : Tensor(); }
};

std::vector<Setting> lstm_settings() {
  std::vector<Setting> all;
  for (Direction direction : {Direction::forward, Direction::backward}) {
    for (bool initial_states : {false, true}) {
      for (bool masked : {false, true}) {
        for (bool norm : {false, true}) all.push_back({direction, initial_states, masked, norm});
      }
    }
  }
  return all;
}

std::vector<Setting> gru_settings() {
  std::vector<Setting> all;
  for (Setting setting : lstm_settings()) {
    all.push_back(setting);
    setting.b_hn = true;
    all.push_back(setting);
    setting.b_hn = false;
    setting.form = GruForm::reset_before;
    all.push_back(setting);
  }
  return all;
}

std::string described(const Setting& s) {
  return std::string(s.direction == Direction::forward ? "forward" : "backward") +
         (s.form == GruForm::reset_before ? ", reset before" : "") +
         (s.initial_states ? ", initial states" : "") + (s.masked ? ", mask" : "") +
         (s.norm ? ", norm" : "") + (s.b_hn ? ", b_hn" : "");
}

std::vector<Tensor> lstm_inputs(const Setting& s, double scale = 1, Index rows = batch) {
  std::vector<Tensor> inputs{randn({steps, rows, 4 * hidden}, DType::f64) * scale,
                             randn({hidden, 4 * hidden}, DType::f64, 2)};
  if (s.initial_states) {
    inputs.push_back(randn({rows, hidden}, DType::f64, 3) * scale);
    inputs.push_back(randn({rows, hidden}, DType::f64, 4) * scale);
  }
  if (s.norm) {
    inputs.push_back(randn({4 * hidden}, DType::f64, 9));
    inputs.push_back(randn({hidden}, DType::f64, 10));
    inputs.push_back(randn({hidden}, DType::f64, 11));
  }
  return inputs;
}

/// h and c_last as one vector, by the fused function or the reference.
template <class Lstm>
Function lstm_function(const Setting& s, Lstm lstm, const Tensor& mask) {
  return [=](const std::vector<Var>& v) {
    LstmRun options{.mask = mask, .direction = s.direction};
    std::size_t next = 2;
    for (Var* state : {&options.h0, &options.c0}) {
      if (s.initial_states) *state = v[next++];
    }
    for (Var* w : {&options.gain_h, &options.gain_c, &options.bias_c}) {
      if (s.norm) *w = v[next++];
    }
    const LstmResult result = lstm(v[0], v[1], options);
    return joined({result.h, result.c_last});
  };
}

std::vector<Tensor> gru_inputs(const Setting& s, double scale = 1, Index rows = batch) {
  std::vector<Tensor> inputs{randn({steps, rows, 3 * hidden}, DType::f64, 5) * scale,
                             randn({hidden, 3 * hidden}, DType::f64, 6)};
  if (s.initial_states) inputs.push_back(randn({rows, hidden}, DType::f64, 7) * scale);
  if (s.b_hn) inputs.push_back(randn({hidden}, DType::f64, 8));
  if (s.norm) inputs.push_back(randn({3 * hidden}, DType::f64, 12));
  return inputs;
}

template <class Gru>
Function gru_function(const Setting& s, Gru gru, const Tensor& mask) {
  return [=](const std::vector<Var>& v) {
    GruRun options{.mask = mask, .direction = s.direction, .form = s.form};
    std::size_t next = 2;
    if (s.initial_states) options.h0 = v[next++];
    if (s.b_hn) options.b_hn = v[next++];
    if (s.norm) options.gain_h = v[next++];
    return gru(v[0], v[1], options);
  };
}

/// Normalised states change fast where they are nearly equal.
GradcheckOptions small_steps(const Setting& s) { return {.step = s.norm ? 1e-4 : 1e-3}; }

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

TEST_CASE("lstm: gradients are central differences, in every setting") {
  for (const Setting& s : lstm_settings()) {
    INFO(described(s));
    CHECK(gradcheck(lstm_function(s, lstm, s.mask()), lstm_inputs(s), small_steps(s)));
  }
}

TEST_CASE("lstm: gradients at large inputs and states are central differences") {
  for (const Setting& s : lstm_settings()) {
    INFO(described(s));
    CHECK(gradcheck(lstm_function(s, lstm, s.mask()), lstm_inputs(s, 4), small_steps(s)));
  }
}

TEST_CASE("lstm: it is what its equations say, one small op at a time") {
  for (const Setting& s : lstm_settings()) {
    INFO(described(s));
    CHECK(function_difference(lstm_function(s, lstm, s.mask()),
                              lstm_function(s, reference::lstm, s.mask()),
                              lstm_inputs(s)) <= 1e-12);
  }
}

TEST_CASE("lstm: a batch of several tiles is what its equations say") {
  for (const Setting& s : lstm_settings()) {
    INFO(described(s));
    const Tensor mask = s.masked ? many_lengths(many_rows) : Tensor();
    CHECK(function_difference(lstm_function(s, lstm, mask), lstm_function(s, reference::lstm, mask),
                              lstm_inputs(s, 1, many_rows)) <= 1e-12);
  }
}

TEST_CASE("lstm: one and two threads give the same bits, values and gradients") {
  for (const Setting& s : lstm_settings()) {
    if (!s.masked || !s.initial_states) continue;
    INFO(described(s));
    CHECK(same_with_two_threads(lstm_function(s, lstm, many_lengths(many_rows)),
                                lstm_inputs(s, 1, many_rows)));
  }
}

TEST_CASE("lstm: f32 follows f64 to its precision, values and gradients") {
  for (const Setting& s : lstm_settings()) {
    if (!s.masked) continue;
    INFO(described(s));
    CHECK(f32_error(lstm_function(s, lstm, s.mask().to(DType::f32)),
                    lstm_function(s, lstm, s.mask()), lstm_inputs(s)) <= 1e-5);
  }
}

TEST_CASE("gru: gradients are central differences, in every setting") {
  for (const Setting& s : gru_settings()) {
    INFO(described(s));
    CHECK(gradcheck(gru_function(s, gru, s.mask()), gru_inputs(s), small_steps(s)));
  }
}

TEST_CASE("gru: gradients at large inputs and states are central differences") {
  for (const Setting& s : gru_settings()) {
    INFO(described(s));
    CHECK(gradcheck(gru_function(s, gru, s.mask()), gru_inputs(s, 4), small_steps(s)));
  }
}

TEST_CASE("gru: it is what its equations say, one small op at a time") {
  for (const Setting& s : gru_settings()) {
    INFO(described(s));
    CHECK(function_difference(gru_function(s, gru, s.mask()),
                              gru_function(s, reference::gru, s.mask()), gru_inputs(s)) <= 1e-12);
  }
}

TEST_CASE("gru: a batch of several tiles is what its equations say") {
  for (const Setting& s : gru_settings()) {
    INFO(described(s));
    const Tensor mask = s.masked ? many_lengths(many_rows) : Tensor();
    CHECK(function_difference(gru_function(s, gru, mask), gru_function(s, reference::gru, mask),
                              gru_inputs(s, 1, many_rows)) <= 1e-12);
  }
}

TEST_CASE("gru: one and two threads give the same bits, values and gradients") {
  for (const Setting& s : gru_settings()) {
    if (!s.masked || !s.initial_states) continue;
    INFO(described(s));
    CHECK(same_with_two_threads(gru_function(s, gru, many_lengths(many_rows)),
                                gru_inputs(s, 1, many_rows)));
  }
}

TEST_CASE("gru: f32 follows f64 to its precision, values and gradients") {
  for (const Setting& s : gru_settings()) {
    if (!s.masked) continue;
    INFO(described(s));
    CHECK(f32_error(gru_function(s, gru, s.mask().to(DType::f32)), gru_function(s, gru, s.mask()),
                    gru_inputs(s)) <= 1e-5);
  }
}

/// The first step as a sequence of one, and by itself.
std::vector<Tensor> first_step(std::vector<Tensor> inputs) {
  inputs[0] = inputs[0][0];
  return inputs;
}
Function of_one_step(const Function& f) {
  return [f](std::vector<Var> v) {
    v[0] = reshape(v[0], v[0].shape().inserted(0, 1));
    return f(v);
  };
}

TEST_CASE("lstm: a single step is a sequence of one, values and gradients") {
  for (const Setting& s : lstm_settings()) {
    if (s.masked) continue;
    const Function f = lstm_function(s, lstm, {});
    CHECK(function_difference(f, of_one_step(f), first_step(lstm_inputs(s))) == 0);
  }
}

TEST_CASE("gru: a single step is a sequence of one, values and gradients") {
  for (const Setting& s : gru_settings()) {
    if (s.masked) continue;
    const Function f = gru_function(s, gru, {}), sequence = of_one_step(f);
    const Function as_step = [=](const std::vector<Var>& v) { return sequence(v)[0]; };
    CHECK(function_difference(f, as_step, first_step(gru_inputs(s))) == 0);
  }
}

TEST_CASE("gru: the two forms are different functions") {
  const Setting after{Direction::forward, true, false};
  Setting before = after;
  before.form = GruForm::reset_before;
  CHECK(function_difference(gru_function(after, gru, {}), gru_function(before, gru, {}),
                            gru_inputs(after)) > 1e-3);
}

TEST_CASE("lstm: a gradient that arrives at c_last alone flows back") {
  const Setting s{Direction::forward, true, true};
  const Function fused = [&](const std::vector<Var>& v) {
    return lstm(v[0], v[1], {.h0 = v[2], .c0 = v[3], .mask = s.mask()}).c_last;
  };
  const Function expected = [&](const std::vector<Var>& v) {
    return reference::lstm(v[0], v[1], {.h0 = v[2], .c0 = v[3], .mask = s.mask()}).c_last;
  };
  CHECK(function_difference(fused, expected, lstm_inputs(s)) <= 1e-12);
}

TEST_CASE("lstm: a gradient that arrives at one step alone reaches that step and those before") {
  const Setting s{Direction::forward, true, false};
  for (Index t : {Index{0}, steps - 1}) {
    CAPTURE(t);
    const Function fused = [&](const std::vector<Var>& v) {
      return lstm(v[0], v[1], {.h0 = v[2], .c0 = v[3]}).h[t];
    };
    const Function expected = [&](const std::vector<Var>& v) {
      return reference::lstm(v[0], v[1], {.h0 = v[2], .c0 = v[3]}).h[t];
    };
    CHECK(function_difference(fused, expected, lstm_inputs(s)) <= 1e-12);
  }
  const Var xw = variable(lstm_inputs(s)[0]), w_h = variable(lstm_inputs(s)[1]);
  const Gradients gradients = backward(sum(lstm(xw, w_h).h[0]));
  const Tensor later = gradients[xw].slice(1, steps);
  CHECK(difference(later, zeros(later.shape(), DType::f64)) == 0);
}

TEST_CASE("lstm: only those inputs that are variables get gradients") {
  const Setting s{Direction::forward, true, true, true};
  const std::vector<Tensor> inputs = lstm_inputs(s);
  for (std::size_t chosen = 0; chosen < inputs.size(); ++chosen) {
    CAPTURE(chosen);
    const auto with = [&](auto function) {
      return [&inputs, chosen, function](const std::vector<Var>& v) {
        std::vector<Var> mixed(inputs.begin(), inputs.end());
        mixed[chosen] = v[0];
        return function(mixed);
      };
    };
    CHECK(function_difference(with(lstm_function(s, lstm, s.mask())),
                              with(lstm_function(s, reference::lstm, s.mask())),
                              {inputs[chosen]}) <= 1e-12);
  }
}

TEST_CASE("lstm: after one step from a zero state the weight's gradient is zero, not missing") {
  const Var xw = variable(randn({1, batch, 4 * hidden}, DType::f64)),
            w_h = variable(randn({hidden, 4 * hidden}, DType::f64));
  const Gradients gradients = backward(sum(lstm(xw, w_h).h));
  REQUIRE(gradients.find(w_h));
  CHECK(identical(gradients[w_h], zeros({hidden, 4 * hidden}, DType::f64)));
}

TEST_CASE("lstm: not a number at padding reaches neither values nor gradients") {
  for (const Setting& s : lstm_settings()) {
    if (!s.masked) continue;
    INFO(described(s));
    const Function function = lstm_function(s, lstm, s.mask());
    CHECK(difference_by_nan_at_padding(function, lstm_inputs(s), s.mask()) == 0);
  }
}

TEST_CASE("gru: not a number at padding reaches neither values nor gradients, in either form") {
  for (const Setting& s : gru_settings()) {
    if (!s.masked) continue;
    INFO(described(s));
    const Function function = gru_function(s, gru, s.mask());
    CHECK(difference_by_nan_at_padding(function, gru_inputs(s), s.mask()) == 0);
  }
}

TEST_CASE("gru: its recurrent weight may be used elsewhere too") {
  for (GruForm form : {GruForm::reset_after, GruForm::reset_before}) {
    const Setting s{Direction::forward, true, false, false, form};
    INFO(described(s));
    const auto with_product = [&](auto gru) -> Function {
      return [&s, gru](const std::vector<Var>& v) {
        const Var h = gru(v[0], v[1], GruRun{.h0 = v[2], .form = s.form});
        return joined({h, matmul(h[0], v[1])});
      };
    };
    CHECK(function_difference(with_product(gru), with_product(reference::gru), gru_inputs(s)) <=
          1e-12);
  }
}

TEST_CASE("lstm: a wrong shape is named with the letter that does not fit") {
  const Var w_h = variable(zeros({2, 8}, DType::f64));
  CHECK(error_of([&] {
          lstm(zeros({4, 3, 9}, DType::f64), w_h);
        }) == "lstm: xw (T, B, 4H) is (4, 3, 9), but H = 2 in w_h");
  CHECK(error_of([&] {
          lstm(zeros({4, 3, 8}, DType::f64), w_h, {.h0 = zeros({5, 2}, DType::f64)});
        }) == "lstm: h0 (B, H) is (5, 2), but B = 3 in xw");
  CHECK(error_of([&] {
          lstm(zeros({0, 3, 8}, DType::f64), w_h);
        }) == "lstm: the sequence has no steps");
  const Tensor xw = zeros({4, 3, 8}, DType::f64);
  CHECK(error_of([&] { lstm(xw, w_h, {.gain_h = zeros({6}, DType::f64)}); }) ==
        "lstm: gain_h (4H) is (6), but H = 2 in w_h");
  CHECK(error_of([&] {
          lstm(xw, w_h, {.gain_h = zeros({8}, DType::f64), .gain_c = zeros({2}, DType::f64)});
        }) == "lstm: gain_h, gain_c and bias_c must all be given, or none of them");
  CHECK(error_of([&] {
          gru(zeros({4, 3, 6}, DType::f64), zeros({2, 6}, DType::f64), {.gain_h = zeros({6})});
        }) == "recurrent: dtypes differ: f64 (4, 3, 6) and f32 (6)");
  CHECK(error_of([&] {
          gru(zeros({4, 3, 6}, DType::f64), zeros({2, 6}, DType::f64),
              {.b_hn = zeros({2}, DType::f64), .form = GruForm::reset_before});
        }) == "gru: b_hn belongs to the form reset_after only");
}

}  // namespace attune
