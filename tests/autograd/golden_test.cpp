// Values and gradients against PyTorch: see tests/golden/README.md.

#include "support/golden.hpp"

#include <doctest/doctest.h>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/backward.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/recurrent.hpp>

#include "support/capture.hpp"
#include "support/naive.hpp"

namespace attune {
namespace {

constexpr double tolerance = 1e-10;

/// Gradients of inputs, against those of the same names in the case.
void check_gradients(const Golden& golden, const Gradients& gradients,
                     const std::vector<std::pair<std::string, Var>>& inputs) {
  for (const auto& [name, input] : inputs) {
    CAPTURE_BINDING(name);
    CHECK(difference(gradients[input], golden["d_" + name]) <= tolerance);
  }
}

/// y = f(x) and its gradient, against the case's y, g_y and d_x.
template <class F>
void check_op(const Golden& golden, F f, const std::string& input = "x") {
  const Var x = variable(golden[input]);
  const Var y = f(x);
  const bool is_number = !golden.contains("y");
  const Tensor expected = is_number ? scalar(golden.number("y"), DType::f64) : golden["y"];
  const Tensor g_y = is_number ? scalar(golden.number("g_y"), DType::f64) : golden["g_y"];
  CHECK(difference(y.value(), expected) <= tolerance);
  check_gradients(golden, backward(y, g_y), {{input, x}});
}

/// y = f(a, b) and its gradients.
template <class F>
void check_ab(const Golden& golden, F f) {
  const Var a = variable(golden["a"]), b = variable(golden["b"]);
  const Var y = f(a, b);
  CHECK(difference(y.value(), golden["y"]) <= tolerance);
  check_gradients(golden, backward(y, golden["g_y"]), {{"a", a}, {"b", b}});
}

/// The sequence's axis that a direction ends at.
Direction direction_of(const std::string& name) {
  return name.ends_with("reverse") ? Direction::backward : Direction::forward;
}

struct Sequence {
  Var x, w_x, w_h, b, h0;
  Tensor mask;

  explicit Sequence(const Golden& golden)
      : x(variable(golden["x"])),
        w_x(variable(golden["W_x"])),
        w_h(variable(golden["W_h"])),
        b(variable(golden["b"])),
        h0(variable(golden["h0"])),
        mask(golden["mask"]) {}

  Var xw() const { return matmul(x, w_x) + b; }
  /// Zero at padding, as the golden outputs are; the library carries the state over there.
  Var shown(const Var& h) const { return h * mask.reshape({mask.dim(0), mask.dim(1), 1}); }

  /// With those of one's own.
  std::vector<std::pair<std::string, Var>> inputs(const std::string& name, const Var& own) const {
    std::vector<std::pair<std::string, Var>> all = {
        {"x", x}, {"W_x", w_x}, {"W_h", w_h}, {"b", b}, {"h0", h0}};
    if (own.defined()) all.emplace_back(name, own);
    return all;
  }
};

void check_lstm(const std::string& name) {
  const Golden golden(name);
  const Sequence in(golden);
  const Direction direction = direction_of(name);
  const Var c0 = variable(golden["c0"]);
  const auto [h, c_last] =
      recurrent(in.xw(), in.w_h, {Cell::lstm, in.h0, c0, {}, in.mask, direction});
  const Var h_last = h[last_step(h.dim(0), direction)];
  CHECK(difference(in.shown(h).value(), golden["h"]) <= tolerance);
  CHECK(difference(h_last.value(), golden["h_last"]) <= tolerance);
  CHECK(difference(c_last.value(), golden["c_last"]) <= tolerance);
  const Gradients gradients =
      backward(sum(in.shown(h) * golden["g_h"]) + sum(h_last * golden["g_h_last"]) +
               sum(c_last * golden["g_c_last"]));
  check_gradients(golden, gradients, in.inputs("c0", c0));
}

void check_gru(const std::string& name, Cell cell) {
  const Golden golden(name);
  const Sequence in(golden);
  const Direction direction = direction_of(name);
  Recurrence options{.cell = cell, .h0 = in.h0, .mask = in.mask, .direction = direction};
  if (golden.contains("b_hn")) options.b_hn = variable(golden["b_hn"]);
  const Var h = recurrent(in.xw(), in.w_h, options).h;
  const Var h_last = h[last_step(h.dim(0), direction)];
  CHECK(difference(in.shown(h).value(), golden["h"]) <= tolerance);
  CHECK(difference(h_last.value(), golden["h_last"]) <= tolerance);
  const Gradients gradients =
      backward(sum(in.shown(h) * golden["g_h"]) + sum(h_last * golden["g_h_last"]));
  check_gradients(golden, gradients, in.inputs("b_hn", options.b_hn));
}

}  // namespace

TEST_CASE("PyTorch: softmax and log_softmax along every axis") {
  const Golden ops("ops");
  for (int axis : {0, 1, 2}) {
    const std::string name = "softmax_axis" + std::to_string(axis) + "/";
    check_op(ops.at(name), [axis](const Var& x) { return softmax(x, axis); });
    check_op(ops.at("log_" + name), [axis](const Var& x) { return log_softmax(x, axis); });
  }
}

TEST_CASE("PyTorch: masked softmax") {
  const Golden golden = Golden("ops").at("masked_softmax/");
  check_op(golden, [&](const Var& x) { return softmax(x, 0, golden["mask"]); });
}

TEST_CASE("PyTorch: softplus, sigmoid and tanh") {
  const Golden ops("ops");
  check_op(ops.at("softplus/"), [](const Var& x) { return softplus(x); });
  check_op(ops.at("sigmoid/"), [](const Var& x) { return sigmoid(x); });
  check_op(ops.at("tanh/"), [](const Var& x) { return tanh(x); });
}

TEST_CASE("PyTorch: sums and means") {
  const Golden ops("ops");
  for (int axis : {0, 1, 2}) {
    const std::string name = "_axis" + std::to_string(axis) + "/";
    check_op(ops.at("sum" + name), [axis](const Var& x) { return sum(x, {axis}); });
    check_op(ops.at("mean" + name), [axis](const Var& x) { return mean(x, {axis}); });
  }
  check_op(ops.at("sum_all/"), [](const Var& x) { return sum(x); });
  check_op(ops.at("mean_all/"), [](const Var& x) { return mean(x); });
}

TEST_CASE("PyTorch: maxout") {
  check_op(Golden("ops").at("maxout/"), [](const Var& x) { return maxout(x); });
}

TEST_CASE("PyTorch: powers, roots and absolute values") {
  const Golden ops("ops2");
  check_op(ops.at("abs/"), [](const Var& x) { return abs(x); });
  check_op(ops.at("square/"), [](const Var& x) { return square(x); });
  check_op(ops.at("sqrt/"), [](const Var& x) { return sqrt(x); });
  check_op(ops.at("power_3/"), [](const Var& x) { return power(x, 3); });
  check_op(ops.at("power_minus_2/"), [](const Var& x) { return power(x, -2); });
  check_op(ops.at("power_2.5/"), [](const Var& x) { return power(x, 2.5); });
}

TEST_CASE("PyTorch: max, norm and log_sum_exp along every axis") {
  const Golden ops("ops2");
  for (int axis : {0, 1, 2}) {
    const std::string name = "_axis" + std::to_string(axis) + "/";
    check_op(ops.at("max" + name), [axis](const Var& x) { return max(x, axis); });
    check_op(ops.at("norm" + name), [axis](const Var& x) { return norm(x, axis); });
    check_op(ops.at("log_sum_exp" + name),
             [axis](const Var& x) { return log_sum_exp(50 * x, axis); });
  }
}

TEST_CASE("PyTorch: minimum, where and batched products") {
  const Golden ops("ops2");
  check_ab(ops.at("minimum/"), [](const Var& a, const Var& b) { return minimum(a, b); });
  const Tensor mask = ops["where/mask"];
  check_ab(ops.at("where/"), [&](const Var& a, const Var& b) { return where(mask, a, b); });
  check_ab(ops.at("batched_matmul/"),
           [](const Var& a, const Var& b) { return batched_matmul(a, b); });
}

TEST_CASE("PyTorch: axes in another order") {
  const Golden ops("ops2");
  check_op(ops.at("permute/"), [](const Var& x) { return permute(x, {2, 0, 1}); });
  check_op(ops.at("transpose/"), [](const Var& x) { return transpose(x, 0, 2); });
}

TEST_CASE("PyTorch: layer normalisation") {
  for (const auto& [name, epsilon] :
       {std::pair("layer_norm/", 1e-5), std::pair("layer_norm_large_epsilon/", 0.5)}) {
    const Golden golden = Golden("ops2").at(name);
    const Var x = variable(golden["x"]), gain = variable(golden["gain"]),
              bias = variable(golden["bias"]);
    const Var y = layer_norm(x, gain, bias, epsilon);
    CHECK(difference(y.value(), golden["y"]) <= tolerance);
    check_gradients(golden, backward(y, golden["g_y"]), {{"x", x}, {"gain", gain}, {"bias", bias}});
  }
}

TEST_CASE("PyTorch: sparsemax as its paper computes it") {
  check_op(Golden("ops2").at("sparsemax/"), [](const Var& x) { return sparsemax(x); });
}

TEST_CASE("PyTorch: embedding") {
  const Golden golden = Golden("ops").at("embedding/");
  check_op(
      golden, [&](const Var& table) { return gather(table, golden["ids"]); }, "table");
}

TEST_CASE("PyTorch: cross-entropy, masked, of ordinary and of large logits, and smoothed") {
  const Golden file("cross_entropy");
  for (const std::string kind :
       {"mean", "sum", "large_mean", "large_sum", "smoothed_mean", "smoothed_sum"}) {
    CAPTURE(kind);
    const Golden golden = file.at(kind + "/");
    const CrossEntropyOptions options{
        .reduction = kind.ends_with("mean") ? Reduction::mean : Reduction::sum,
        .smoothing = kind.starts_with("smoothed") ? golden.number("smoothing") : 0};
    const Var logits = variable(golden["logits"]);
    const Var loss = cross_entropy(logits, golden["targets"], golden["mask"], options);
    CHECK(loss.item() == doctest::Approx(golden.number("loss")).epsilon(1e-12));
    const Tensor d = backward(loss, scalar(golden.number("g_loss"), DType::f64))[logits];
    CHECK(difference(d, golden["d_logits"]) <= tolerance);
  }
}

TEST_CASE("PyTorch: LSTM, forward") { check_lstm("lstm"); }
TEST_CASE("PyTorch: LSTM, backward") { check_lstm("lstm_reverse"); }
TEST_CASE("PyTorch: GRU, forward") { check_gru("gru", Cell::gru); }
TEST_CASE("PyTorch: GRU, backward") { check_gru("gru_reverse", Cell::gru); }
TEST_CASE("PyTorch: GRU with the reset gate before the product") {
  check_gru("gru_reset_before", Cell::gru_reset_before);
}

TEST_CASE("PyTorch: additive attention") {
  const Golden golden("additive_attention");
  const Var query = variable(golden["query"]), memory = variable(golden["memory"]);
  const Var w_a = variable(golden["W_a"]), u_a = variable(golden["U_a"]),
            v_a = variable(golden["v_a"]);
  const Tensor mask = golden["mask"];
  const Var e = additive_scores(matmul(query, w_a), matmul(memory, u_a), v_a);
  const Var weights = softmax(e, 0, mask);
  const Var context = weighted_sum(weights, memory);
  CHECK(difference(e.value() * mask, golden["e"]) <= tolerance);
  CHECK(difference(weights.value(), golden["weights"]) <= tolerance);
  CHECK(difference(context.value(), golden["context"]) <= tolerance);
  const Gradients gradients =
      backward(sum(weights * golden["g_weights"]) + sum(context * golden["g_context"]));
  check_gradients(golden, gradients,
                  {{"query", query}, {"memory", memory}, {"W_a", w_a}, {"U_a", u_a}, {"v_a", v_a}});
}

}  // namespace attune
