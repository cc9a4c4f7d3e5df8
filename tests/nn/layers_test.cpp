// The layers without recurrence.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <attune/autograd/anomaly.hpp>
#include <attune/autograd/backward.hpp>
#include <attune/autograd/record.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/transformer.hpp>
#include <attune/tensor/threads.hpp>

#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/errors.hpp"
#include "support/golden.hpp"
#include "support/threads_scope.hpp"

namespace attune {
namespace {

TEST_CASE("parallel_for: tiles have the state of the caller, in each thread of the pool") {
  const Var w = variable(ones({3}));
  const std::string path = "decoder";
  Random random(1);
  for (const int n : {1, 2}) {
    const test::ThreadsScope threads(n);
    std::vector<std::string> states(2);
    /// Each thread gets a tile: all wait for the last thread.
    const auto run = [&](const std::string& expected) {
      std::atomic<int> started{0};
      parallel_for(2, [&](Index tile) {
        for (++started; n == 2 && started < 2;) std::this_thread::yield();
        std::string& state = states[static_cast<std::size_t>(tile)] = "";
        if (precision() == Precision::bf16) state += "bf16 ";
        if (!(w * 2.0).requires_gradient()) state += "no_grad ";
        if (nn::Training::random() == &random) state += "training ";
        state += error_of([&] { static_cast<void>(w + ones({2})); });
      });
      CHECK(states == std::vector(2, expected));
    };
    const std::string error = "add: shapes (3) and (2) do not broadcast";
    run(error);
    {
      const detail::ScopedValue precision(detail::thread_state.precision, Precision::bf16);
      const NoGrad no_grad;
      const nn::Training training(random);
      const nn::InLayer layer(path);
      run("bf16 no_grad training " + error + ", in decoder");
      const DetectAnomaly detect;
      parallel_for(2, [&](Index tile) {
        states[static_cast<std::size_t>(tile)] = error_of([&] { static_cast<void>(log(w * 0.0)); });
      });
      CHECK(states[0].starts_with("anomaly: log"));
      CHECK(states[1] == states[0]);
    }
    run(error);
    // A state that a tile leaves by an exception is the same as before it.
    CHECK_THROWS_AS(parallel_for(2,
                                 [&](Index) {
                                   const nn::InLayer layer(path);
                                   const NoGrad no_grad;
                                   throw Error("stop");
                                 }),
                    Error);
    run(error);
  }
}

TEST_CASE("parallel_for: a pullback in a tile detects that a tensor was modified") {
  const test::ThreadsScope threads(2);
  Tensor x = ones({2});
  const Var w = variable(ones({2}));
  const Var y = record("parallel", w.value() * x).wrt(w, [x](const Tensor& dy) {
    parallel_for(2, [&](Index) { static_cast<void>(x.data<float>()); });
    return dy;
  });
  x.mutable_data<float>();
  CHECK_THROWS_WITH_AS(static_cast<void>(backward(sum(y))),
                       doctest::Contains("backward of parallel: a tensor (2)"), Error);
}

/// y of x, and the gradients of x and all parameters from that of y, are those of the file.
void check_golden(const Golden& golden, const nn::Parameters& params,
                  const std::function<Var(const Var&)>& layer) {
  for (const auto& [name, w] : params) test::set(params, name, golden[name]);
  const Var x = variable(golden["x"]), y = layer(x);
  CHECK(difference(y.value(), golden["y"]) < 1e-12);
  const Gradients gradients = backward(y, golden["g_y"]);
  CHECK(difference(gradients[x], golden["d_x"]) < 1e-12);
  for (const auto& [name, w] : params) {
    CAPTURE_BINDING(name);
    CHECK(difference(gradients[w], golden["d_" + name]) < 1e-12);
  }
}

TEST_CASE("layers: sizes that do not fit are errors that show the shapes") {
  nn::Parameters params;
  const nn::Conv1d conv(params / "conv", 3, 2, {.width = 5, .padding = 1});
  CHECK_ERROR(
      "Conv1d: a sequence of 2 steps with a padding of 1 is shorter than a window of 5, in conv",
      conv({zeros({7, 2, 3}), mask_of(7, {7, 2}, DType::f32)}));
  CHECK_ERROR("unfold: width 3 and stride 0 must be at least 1, before 0 and after 0 at least 0",
              nn::Conv1d(params / "other", 3, 2, {.stride = 0}));
  CHECK_ERROR("join_steps: n = 0 is less than 1", nn::join_steps({zeros({5, 2, 3}), {}}, 0));
  CHECK_ERROR("MultiHeadAttention: 4 heads do not divide a size of 6",
              nn::MultiHeadAttention(params / "attention", 6, {.heads = 4}));
}

TEST_CASE("Linear: y = x W + b; leading axes are rows") {
  nn::Parameters params(1, DType::f64);
  const nn::Linear linear(params, 2, 3);
  test::set(params, "W", reals({2, 3}, {1, 2, 3, 4, 5, 6}));
  test::set(params, "b", reals({3}, {10, 20, 30}));
  // (1, 2) W = (9, 12, 15) and (-1, 0.5) W = (1, 0.5, 0)
  const Tensor x = reals({2, 2}, {1, 2, -1, 0.5}), y = reals({2, 3}, {19, 32, 45, 11, 20.5, 30});
  CHECK(identical(linear(x).value(), y));
  CHECK(identical(linear(x.reshape({1, 2, 1, 2})).value(), y.reshape({1, 2, 1, 3})));
}

TEST_CASE("Linear: without bias there is no parameter b, and zero stays zero") {
  nn::Parameters params(1, DType::f64);
  const nn::Linear linear(params / "out", 2, 3, {.bias = false});
  CHECK(params.contains("out.W"));
  CHECK(params.all().size() == 1);
  test::set(params, "out.W", reals({2, 3}, {1, 2, 3, 4, 5, 6}));
  CHECK(identical(linear(zeros({4, 2}, DType::f64)).value(), zeros({4, 3}, DType::f64)));
  CHECK(identical(linear(reals({1, 2}, {1, 2})).value(), reals({1, 3}, {9, 12, 15})));
}

TEST_CASE("Linear: initial values are those of the options, a bias of zero by default") {
  nn::Parameters params;
  const nn::Linear plain(params / "plain", 3, 2);
  CHECK(identical(params["plain.b"].value(), zeros({2})));
  const nn::Linear other(
      params / "other", 3, 2,
      {.weight_init = nn::init::constant(0.25), .bias_init = nn::init::constant(-2)});
  CHECK(identical(params["other.W"].value(), full({3, 2}, 0.25)));
  CHECK(identical(params["other.b"].value(), full({2}, -2)));
}

TEST_CASE("Embedding: returns the row of each token") {
  nn::Parameters params(1, DType::f64);
  const nn::Embedding embedding(params / "source", 5, 3);
  const Tensor table = params["source.E"].value();
  REQUIRE(table.shape() == Shape{5, 3});
  CHECK(embedding.table().value().shares_buffer_with(table));
  const Tensor y = embedding(ints({2, 2}, {4, 0, 2, 4})).value();
  REQUIRE(y.shape() == Shape{2, 2, 3});
  CHECK(identical(y[0][0], table[4]));
  CHECK(identical(y[0][1], table[0]));
  CHECK(identical(y[1][0], table[2]));
  CHECK(identical(y[1][1], table[4]));
}

TEST_CASE("LayerNorm: gain and bias are ones and zeros: rows have mean 0 and variance 1") {
  nn::Parameters params(1, DType::f64);
  const nn::LayerNorm norm(params / "norm", 4, 0);
  CHECK(params.all().size() == 2);
  CHECK(identical(params["norm.gain"].value(), ones({4}, DType::f64)));
  CHECK(identical(params["norm.bias"].value(), zeros({4}, DType::f64)));
  const Tensor y = norm(randn({2, 3, 4}, DType::f64) * 5.0 + 2.0).value();
  CHECK(difference(mean(y, {-1}), zeros({2, 3}, DType::f64)) < 1e-14);
  CHECK(difference(mean(y * y, {-1}), ones({2, 3}, DType::f64)) < 1e-14);
}

TEST_CASE("Conv1d: values, masks and gradients are PyTorch's, sentence by sentence") {
  const std::pair<std::string, nn::Conv1dOptions> cases[] = {
      {"3 1 0", {.width = 3}},
      {"3 1 1", {.width = 3, .padding = 1}},
      {"4 2 1", {.width = 4, .stride = 2, .padding = 1}},
      {"2 3 0", {.width = 2, .stride = 3}},
      {"1 1 2", {.width = 1, .padding = 2}}};
  for (const auto& [name, options] : cases) {
    CAPTURE_BINDING(name);
    const Golden golden = Golden("sequences").at("conv1d " + name + "/");
    nn::Parameters params(1, DType::f64);
    const nn::Conv1d conv(params, 4, 3, options);
    check_golden(golden, params, [&](const Var& x) {
      const auto [y, mask] = conv({x, golden["mask"]});
      CHECK(identical(mask, golden["y_mask"]));
      return y * mask.reshape({mask.dim(0), mask.dim(1), 1});  // the file has zeros at padding
    });
  }
}

TEST_CASE("Conv1d: padding beyond the longest sequence is removed") {
  nn::Parameters params(3, DType::f64);
  const nn::Conv1d conv(params, 3, 2, {.width = 3});
  const auto [y, mask] = conv({randn({9, 2, 3}, DType::f64), mask_of(9, {6, 3})});
  CHECK(y.shape() == Shape{4, 2, 2});
  CHECK(identical(mask, mask_of(4, {4, 1})));
}

TEST_CASE("join_steps: n steps are concatenated; missing steps and padding are zero") {
  const Tensor x = randn({5, 2, 3}, DType::f64);
  const auto [joined, mask] = nn::join_steps({x, mask_of(5, {5, 3})}, 2);
  CHECK(identical(mask, mask_of(3, {3, 2})));
  const Tensor padded[] = {x * mask_of(5, {5, 3}).reshape({5, 2, 1}), zeros({1, 2, 3}, DType::f64)};
  const Tensor steps = concat(padded, 0);  // (6, 2, 3)
  REQUIRE(joined.shape() == Shape{3, 2, 6});
  for (Index t = 0; t < 6; ++t)
    CHECK(difference(slice(joined.value()[t / 2], 1, t % 2 * 3, t % 2 * 3 + 3), steps[t]) == 0);
  CHECK(identical(nn::join_steps({x, {}}, 1).x.value(), x));
}

TEST_CASE("Conv1d, join_steps: a mask of integers is read like one of the input's dtype") {
  nn::Parameters params(3, DType::f64);
  const nn::Conv1d conv(params, 3, 2, {.width = 3});
  const Tensor x = randn({9, 2, 3}, DType::f64), mask = mask_of(9, {7, 5});
  const auto check = [](const nn::Sequence& of_integers, const nn::Sequence& expected) {
    CHECK(identical(of_integers.x.value(), expected.x.value()));
    CHECK(identical(of_integers.mask.to(DType::f64), expected.mask));
  };
  check(conv({x, mask.to(DType::i32)}), conv({x, mask}));
  check(nn::join_steps({x, mask.to(DType::i32)}, 2), nn::join_steps({x, mask}, 2));
}

constexpr Index kSteps = 4, kBatch = 3, kSize = 6;

TEST_CASE("MultiHeadAttention: weights are 0 at padding and later positions, and at no others") {
  const std::vector<Index> lengths = {4, 2, 1};
  const Tensor x = randn({kSteps, kBatch, kSize}, DType::f64), mask = mask_of(kSteps, lengths);
  for (const Index heads : {1, 2, 3}) {
    for (const bool causal : {false, true}) {
      CAPTURE(heads);
      nn::Parameters params(static_cast<std::uint64_t>(heads), DType::f64);
      const nn::MultiHeadAttention layer(
          params, kSize, {.heads = heads, .causal = causal ? nn::Causal::yes : nn::Causal::no});
      const auto [y, weights] = layer(x, layer.precompute(x), mask, nn::Weights::per_head);
      CHECK(difference(layer.self(x, mask).value(), y.value()) < 1e-12);
      REQUIRE(weights.shape() == Shape{kSteps, heads, kSteps, kBatch});
      const naive::Array w = weights.value();
      naive::for_each_index(weights.shape(), [&](const naive::At& at) {
        const bool padding = at[2] >= lengths[static_cast<std::size_t>(at[3])];
        CHECK((w[at] == 0) == (padding || (causal && at[2] > at[0])));
      });
      // The second sentence, of two tokens, gives the same result alone.
      CHECK(difference(layer.self(test::sentence(x, 1, 2)).value(),
                       test::sentence(y.value(), 1, 2)) < 1e-12);
    }
  }
}

}  // namespace
}  // namespace attune
