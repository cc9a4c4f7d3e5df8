// Parameters by path, their initial values, and checkpoints of them.
#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>

#include <attune/nn/layers.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/matmul.hpp>

#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/scratch_directory.hpp"

namespace {

using namespace attune;

TEST_CASE("Parameters: a path is the scopes' names and the parameter's, with dots between") {
  nn::Parameters params;
  const nn::Scope root(params);
  root.add("b", {2}, nn::init::zeros());
  (root / "encoder" / "forward").add("W_h", {3, 2}, nn::init::zeros());
  (params / "encoder").add("W_x", {3, 2}, nn::init::zeros());
  REQUIRE(params.all().size() == 3);
  CHECK(params.all()[0].name == "b");
  CHECK(params.all()[1].name == "encoder.forward.W_h");
  CHECK(params.all()[2].name == "encoder.W_x");
  CHECK(params.contains("encoder.forward.W_h"));
  CHECK_FALSE(params.contains("W_h"));
  CHECK_FALSE(params.contains("encoder"));
}

TEST_CASE("Parameters: a duplicate path is an error") {
  nn::Parameters params;
  const nn::Scope layer = nn::Scope(params) / "layer";
  layer.add("W", {2, 3}, nn::init::constant(4));
  CHECK_ERROR("Parameters: 'layer.W' exists already", layer.add("W", {5}, nn::init::zeros()));
  CHECK_THROWS_AS(params.add("layer.W", {2, 3}, nn::init::zeros()), Error);
  CHECK(params.all().size() == 1);
  CHECK(identical(params["layer.W"].value(), full({2, 3}, 4)));
}

TEST_CASE("Parameters: an extent below 1 is an error that names the parameter") {
  nn::Parameters params;
  const nn::Scope scope = params / "decoder" / "output";
  CHECK_ERROR("Parameters: 'decoder.output.W' (0, 5) has an extent below 1",
              nn::Linear(scope, 0, 5));
  CHECK_ERROR("Parameters: 'decoder.output.W' (4, -1) has an extent below 1",
              nn::Linear(scope, 4, -1));
  CHECK_ERROR("Parameters: 'decoder.output.gain' (0) has an extent below 1",
              nn::LayerNorm(scope, 0));
  CHECK(params.all().empty());
}

TEST_CASE("Parameters: if the initialiser throws, no parameter is added") {
  nn::Parameters params;
  CHECK_THROWS_AS(params.add("W", {3}, nn::init::glorot()), Error);
  CHECK_FALSE(params.contains("W"));
  CHECK(params.all().empty());
  CHECK_NOTHROW(params.add("W", {3, 2}, nn::init::glorot()));
}

TEST_CASE("Parameters: a further parameter does not change the initial values of the others") {
  nn::Parameters alone(7), among(7);
  const Tensor w = alone.add("layer.W", {3, 4}, nn::init::normal(1)).value();
  among.add("before", {5, 2}, nn::init::normal(1));
  const Tensor same = among.add("layer.W", {3, 4}, nn::init::normal(1)).value();
  among.add("after", {6}, nn::init::normal(1));
  CHECK(identical(same, w));
}

TEST_CASE("Parameters: initial values depend on the seed and on the path") {
  nn::Parameters one(1), two(2);
  const Tensor a = one.add("a", {3, 4}, nn::init::normal(1)).value();
  const Tensor b = one.add("b", {3, 4}, nn::init::normal(1)).value();
  const Tensor a_of_two = two.add("a", {3, 4}, nn::init::normal(1)).value();
  for (Index i = 0; i < a.size(); ++i) {
    CHECK(a.data<float>()[i] != b.data<float>()[i]);
    CHECK(a.data<float>()[i] != a_of_two.data<float>()[i]);
  }
}

TEST_CASE("Parameters: initial f32 values are rounded f64 values") {
  nn::Parameters narrow(3, DType::f32), wide(3, DType::f64);
  const Tensor f32 = narrow.add("W", {4, 6}, nn::init::glorot(2)).value();
  const Tensor f64 = wide.add("W", {4, 6}, nn::init::glorot(2)).value();
  REQUIRE(f32.dtype() == DType::f32);
  REQUIRE(f64.dtype() == DType::f64);
  for (Index i = 0; i < f64.size(); ++i) {
    CHECK(f32.data<float>()[i] == static_cast<float>(f64.data<double>()[i]));
  }
}

TEST_CASE("Parameters: count is the number of all elements") {
  nn::Parameters params;
  CHECK(params.count() == 0);
  params.add("matrix", {3, 4}, nn::init::zeros());
  params.add("vector", {5}, nn::init::zeros());
  params.add("scalar", {}, nn::init::zeros());
  CHECK(params.count() == 18);
}

TEST_CASE("Parameters: an unknown path, integers and no initial values are errors") {
  nn::Parameters params;
  params.add("layer.W", {2}, nn::init::zeros());
  CHECK_ERROR("Parameters: 'layer.w' does not exist", params["layer.w"]);
  CHECK_ERROR("Parameters: 'w' has no initialiser", params.add("w", {2}, nullptr));
  CHECK_ERROR("Parameters: f32 or f64 was expected", nn::Parameters(1, DType::i32));
}

TEST_CASE("Parameters: a layer's member is the parameter, and requires a gradient") {
  nn::Parameters params;
  const Var held = params.add("W", {2, 3}, nn::init::zeros());
  CHECK(held.requires_gradient());
  CHECK(held.value().shares_buffer_with(params["W"].value()));
  Tensor values = params["W"].value();
  fill(values, 5);
  CHECK(identical(held.value(), full({2, 3}, 5)));
}

Tensor draw(const Shape& shape, const nn::Init& init, std::uint64_t seed = 1) {
  Tensor x = full(shape, 1e9, DType::f64);  // every element must be overwritten
  Random random(seed);
  init(x, random);
  return x;
}

struct Moments {
  double mean = 0, variance = 0, lowest, highest;
};

Moments moments_of(const Tensor& x) {
  const std::vector<double> values = x.to_vector<double>();
  const auto n = static_cast<double>(values.size());
  const auto [lowest, highest] = std::minmax_element(values.begin(), values.end());
  Moments m{.lowest = *lowest, .highest = *highest};
  for (double v : values) m.mean += v / n;
  for (double v : values) m.variance += (v - m.mean) * (v - m.mean) / n;
  return m;
}

// The tolerances below are five standard deviations of the estimate for n draws: sigma / sqrt(n)
// for a mean, and sigma² sqrt((kurtosis - 1) / n) for a variance (kurtosis: uniform 1.8, normal 3).

TEST_CASE("init::uniform covers its interval evenly") {
  const Index n = 20000;
  const Moments m = moments_of(draw({n}, nn::init::uniform(-1, 3)));
  const double variance = 16.0 / 12, root = std::sqrt(static_cast<double>(n));
  CHECK(std::abs(m.mean - 1) < 5 * std::sqrt(variance) / root);
  CHECK(std::abs(m.variance - variance) < 5 * variance * std::sqrt(0.8) / root);
  CHECK(m.lowest >= -1);
  CHECK(m.lowest < -0.995);
  CHECK(m.highest < 3);
  CHECK(m.highest > 2.995);
}

TEST_CASE("init::normal has mean 0 and the deviation asked for") {
  const Index n = 20000;
  const Tensor x = draw({n}, nn::init::normal(0.1));
  const Moments m = moments_of(x);
  const double root = std::sqrt(static_cast<double>(n));
  CHECK(std::abs(m.mean) < 5 * 0.1 / root);
  CHECK(std::abs(m.variance - 0.01) < 5 * 0.01 * std::sqrt(2.0) / root);
  double inside = 0;  // within one deviation: 68.27 %
  for (double v : x.to_vector<double>()) inside += std::abs(v) < 0.1;
  CHECK(std::abs(inside / static_cast<double>(n) - 0.6827) < 5 * 0.4655 / root);
  CHECK_ERROR("init::normal: standard deviation = -1 is not in [0, inf)", nn::init::normal(-1));
  CHECK_THROWS_AS(nn::init::normal(std::nan("")), Error);
}

TEST_CASE("init::glorot is uniform within the root of 6 / (fan_in + fan_out of one block)") {
  const double limit = std::sqrt(6.0 / 150), variance = 2.0 / 150;
  for (const Index blocks : {1, 3}) {
    const Tensor x = draw({90, blocks * 60}, nn::init::glorot(blocks));
    for (Index block = 0; block < blocks; ++block) {
      const Moments m = moments_of(slice(x, 1, block * 60, (block + 1) * 60));
      CHECK(m.highest <= limit);
      CHECK(m.lowest >= -limit);
      CHECK(m.highest > 0.99 * limit);
      CHECK(m.lowest < -0.99 * limit);
      CHECK(std::abs(m.variance - variance) < 5 * variance * std::sqrt(0.8 / 5400));
    }
  }
}

TEST_CASE(
    "init::orthogonal: the columns of each block are orthonormal, or its rows if it is wide") {
  for (const auto& [rows, cols] : {std::pair<Index, Index>{4, 4}, {7, 3}, {50, 40}, {3, 5}}) {
    const Tensor x = draw({rows, 3 * cols}, nn::init::orthogonal(3));
    for (Index block = 0; block < 3; ++block) {
      const Tensor q = slice(x, 1, block * cols, (block + 1) * cols);
      const bool wide = cols > rows;
      naive::Array identity(Shape{std::min(rows, cols), std::min(rows, cols)});
      for (Index k = 0; k < std::min(rows, cols); ++k) identity[{k, k}] = 1;
      CHECK(difference(matmul(q, q, {.a = !wide, .b = wide}), identity.tensor()) < 1e-14);
    }
  }
}

TEST_CASE("init::orthogonal: blocks differ from each other") {
  const Tensor x = draw({4, 8}, nn::init::orthogonal(2));
  CHECK(difference(slice(x, 1, 0, 4), slice(x, 1, 4, 8)) > 0.1);
}

TEST_CASE("init::glorot and init::orthogonal: other shapes are errors") {
  CHECK_ERROR("glorot: a matrix was expected: (3)", draw({3}, nn::init::glorot()));
  CHECK_ERROR("glorot: a matrix of 2 concatenated blocks was expected: (3, 7)",
              draw({3, 7}, nn::init::glorot(2)));
  CHECK_ERROR("orthogonal: a matrix of 2 concatenated blocks was expected: (3, 7)",
              draw({3, 7}, nn::init::orthogonal(2)));
  CHECK_THROWS_AS(draw({2, 3, 4}, nn::init::orthogonal()), Error);
  CHECK_THROWS_AS(draw({2, 3}, nn::init::glorot(0)), Error);
  CHECK_THROWS_AS(draw({2, 3}, nn::init::orthogonal(-1)), Error);
}

/// Two layers, with f64 or f32 weights.
struct Model {
  nn::Parameters params;
  nn::Lstm encoder;
  nn::Linear output;

  explicit Model(std::uint64_t seed, DType dtype = DType::f32)
      : params(seed, dtype),
        encoder(params / "encoder", 4, 3),
        output(params / "output", 3, 5, {.bias_init = nn::init::normal(1)}) {}
};

TEST_CASE("checkpoint: weights are restored bit for bit") {
  const ScratchDirectory directory;
  const std::filesystem::path file = directory / "model.safetensors";
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Model saved(1, dtype);
    Model loaded(2, dtype);
    Safetensors contents;
    nn::save_parameters(saved.params, contents);
    save_safetensors(file, contents);
    REQUIRE_FALSE(identical(loaded.params["output.W"].value(), saved.params["output.W"].value()));
    nn::load_parameters(load_safetensors(file), loaded.params);
    for (const auto& [name, w] : saved.params) {
      CAPTURE_BINDING(name);
      CHECK(identical(loaded.params[name].value(), w.value()));
    }
    const Tensor x = randn({2, 3, 4}, dtype, 3);
    CHECK(identical(loaded.output(loaded.encoder(x).h).value(),
                    saved.output(saved.encoder(x).h).value()));
  }
}

TEST_CASE(
    "checkpoint: a parameter that is missing or does not fit is an error; nothing is changed") {
  const auto check_refused = [](const char* message, auto spoil) {
    const Model saved(1);
    Model model(2);
    Safetensors contents;
    nn::save_parameters(saved.params, contents);
    spoil(contents.tensors);
    std::vector<Tensor> before;
    for (const auto& [name, w] : model.params) before.push_back(w.value().clone());
    CHECK_ERROR(message, nn::load_parameters(contents, model.params));
    for (std::size_t i = 0; i < before.size(); ++i)
      CHECK(identical(model.params.all()[i].variable.value(), before[i]));
  };
  // Only the last parameter is invalid, so a loader without checks would change the others.
  check_refused("checkpoint: 'output.b' (5) is missing", [](auto& t) { t.erase("output.b"); });
  check_refused("checkpoint: 'output.b' is f32 (5, 1), but f32 (5) was expected", [](auto& t) {
    t["output.b"] = zeros({5, 1});
  });
  check_refused("checkpoint: 'output.b' is f64 (5), but f32 (5) was expected",
                [](auto& t) { t["output.b"] = zeros({5}, DType::f64); });
}

TEST_CASE(
    "checkpoint: loading overwrites what layers hold; other tensors of the file are ignored") {
  const Model saved(1);
  Model model(2);
  const Var held = model.params["output.W"];
  Safetensors contents;
  contents.add("adam.m.output.b", zeros({7}));
  nn::save_parameters(saved.params, contents);
  contents.add("ids", zeros({2, 2}, DType::i32));
  nn::load_parameters(contents, model.params);
  for (const auto& [name, w] : saved.params)
    CHECK(identical(model.params[name].value(), w.value()));
  CHECK(identical(held.value(), saved.params["output.W"].value()));
  CHECK_FALSE(held.value().shares_buffer_with(saved.params["output.W"].value()));
}

TEST_CASE("Parameters: where selects by path or shape") {
  const Model model(1);
  const auto of_output = model.params.where(
      [](const NamedVariable& parameter) { return parameter.name.starts_with("output."); });
  REQUIRE(of_output.size() == 2);
  CHECK(of_output[0].name == "output.W");
  CHECK(of_output[1].variable.node().get() == model.params["output.b"].node().get());
}

TEST_CASE("load_tensors: overwrites tensors by name; a mismatch is an error") {
  Safetensors contents;
  contents.add("x", full({2, 3}, 7));
  Tensor to = zeros({2, 3}), other = zeros({3, 2});
  nn::load_tensors(contents, {{"x", to}});
  CHECK(identical(to, full({2, 3}, 7)));
  CHECK_ERROR("checkpoint: 'x' is f32 (2, 3), but f32 (3, 2) was expected",
              nn::load_tensors(contents, {{"x", other}}));
  CHECK_ERROR("checkpoint: 'y' (2, 3) is missing", nn::load_tensors(contents, {{"y", to}}));
}

TEST_CASE("Parameters: they print as a table; another gradient was not requested") {
  nn::Parameters params(1, DType::f64);
  const Var w = params.add("encoder.W", {2, 3}, nn::init::constant(1)),
            b = params.add("b", {3}, nn::init::zeros());
  std::ostringstream out;
  const Gradients gradients = backward(sum(w * 2.0) + sum(b), {w});
  out << params;
  CHECK(out.str() ==
        "encoder.W  (2, 3)                      6\n"
        "b          (3)                         3\n"
        "total                                  9\n");
  CHECK_ERROR(
      "gradients: the loss does not depend on this (3) variable, or its gradient was not requested",
      gradients[b]);
}

}  // namespace
