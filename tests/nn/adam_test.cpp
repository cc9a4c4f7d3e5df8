#include <cmath>
#include <limits>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/nn/adam.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/nn/clip.hpp>
#include <attune/tensor/check.hpp>

#include "nn/optimiser_checks.hpp"
#include "nn/tools.hpp"
#include "support/golden.hpp"

namespace {

using namespace attune;
using test::add_two;
using test::difference;
using test::gradients_of;
using test::identical;
using test::quadratic;

constexpr auto make_adam = [](nn::Parameters& params) { return nn::Adam(params, {.rate = 0.01}); };

nn::AdamOptions golden_options(const Golden& golden) {
  return {.rate = golden.number("lr"),
          .beta1 = golden.number("beta1"),
          .beta2 = golden.number("beta2"),
          .epsilon = golden.number("eps")};
}

TEST_CASE("Adam: gradients of other parameters are an error, not a step") {
  nn::Parameters own(1), others(2);
  const Var w = own.add("w", {2}, nn::init::zeros()),
            v = others.add("v", {2}, nn::init::constant(1));
  nn::Adam adam(own);
  CHECK_THROWS_WITH_AS(adam.step(backward(sum(v * v))),
                       "Adam: none of its parameters is among the gradients", Error);
  CHECK(adam.steps() == 0);
}

/// Bits of everything that a step may change, and its count.
std::vector<double> state_of(const nn::Parameters& params, const nn::Adam& adam) {
  Safetensors file;
  nn::save_parameters(params, file);
  adam.save(file);
  std::vector<double> state{static_cast<double>(adam.steps())};
  for (const auto& [name, tensor] : file.tensors) {
    const std::vector<double> values = tensor.to_vector<double>();
    state.insert(state.end(), values.begin(), values.end());
  }
  return state;
}

TEST_CASE("Adam: a gradient that is not finite is an error with its name, and nothing changes") {
  nn::Parameters params(1);
  const Var a = params.add("a", {2}, nn::init::normal(1));
  const Var b = params.add("cell.W_h", {2, 3}, nn::init::normal(1));
  nn::Adam adam(params);
  adam.step(gradients_of({{a, ones({2})}, {b, ones({2, 3})}}));
  const std::vector<double> before = state_of(params, adam);
  const auto refused = [&](float bad, const char* message) {
    const Tensor of_b = Tensor::of({2, 3}, {1.f, 2.f, 3.f, 4.f, bad, 6.f});
    CHECK_THROWS_WITH_AS(adam.step(gradients_of({{a, ones({2})}, {b, of_b}})), message, Error);
    CHECK(state_of(params, adam) == before);
  };
  refused(std::numeric_limits<float>::quiet_NaN(),
          "Adam: the gradient of 'cell.W_h' (2, 3), element (1, 1) is nan: nothing was changed");
  refused(-std::numeric_limits<float>::infinity(),
          "Adam: the gradient of 'cell.W_h' (2, 3), element (1, 1) is -inf: nothing was changed");
  refused(2e19f,
          "Adam: the square of the gradient of 'cell.W_h' (2, 3), element (1, 1) is inf: nothing "
          "was changed");
  adam.step(gradients_of({{a, ones({2})}, {b, full({2, 3}, 1.8e19)}}));
  CHECK(adam.steps() == 2);
}

TEST_CASE("Adam: a gradient that became nan after clipping is an error too") {
  nn::Parameters params(1);
  const Var w = params.add("w", {2}, nn::init::normal(1));
  nn::Adam adam(params);
  Gradients gradients = gradients_of({{w, ones({2})}});
  nn::clip_by_global_norm(gradients, 0.5);
  Tensor of_w = gradients[w];
  fill(of_w, std::numeric_limits<double>::quiet_NaN());
  CHECK_THROWS_AS(adam.step(gradients), Error);
}

TEST_CASE("Adam: gradients of others are not its own, and need not be finite") {
  nn::Parameters params(1);
  const Var w = params.add("w", {1}, nn::init::zeros()), other = variable(zeros({1}));
  nn::Adam adam(params, {.rate = 0.5});
  adam.step(gradients_of({{w, ones({1})}, {other, ones({1}) / 0.0}}));
  CHECK(w.value().item() == doctest::Approx(-0.5));
}

TEST_CASE("Adam: without the check, what is not finite goes through") {
  nn::Parameters params(1);
  const Var w = params.add("w", {1}, nn::init::zeros());
  nn::Adam adam(params, {.check_gradients = false});
  adam.step(gradients_of({{w, ones({1}) / 0.0}}));
  CHECK(std::isnan(w.value().item()));
}

TEST_CASE("Adam: three steps are PyTorch's") {
  const Golden golden("adam");
  nn::Parameters params(1, DType::f64);
  const Var W = params.add("W", {3, 4}, nn::init::zeros());
  const Var b = params.add("b", {5}, nn::init::zeros());
  for (const auto& [name, w] : params) test::set(params, name, golden[name]);
  nn::Adam adam(params, golden_options(golden));
  for (int i = 1; i <= 3; ++i) {
    const Golden step = golden.at(fmt::format("step{}/", i));
    adam.step(gradients_of({{W, step["g_W"]}, {b, step["g_b"]}}));
    CHECK(adam.steps() == i);
    CHECK(difference(W.value(), step["W"]) < 1e-13);
    CHECK(difference(b.value(), step["b"]) < 1e-13);
  }
}

TEST_CASE("Adam: three steps of f32 are PyTorch's, to f32's precision") {
  const Golden golden("adam");
  nn::Parameters params(1, DType::f32);
  const Var W = params.add("W", {3, 4}, nn::init::zeros());
  const Var b = params.add("b", {5}, nn::init::zeros());
  for (const auto& [name, w] : params) test::set(params, name, golden[name].to(DType::f32));
  nn::Adam adam(params, golden_options(golden));
  for (int i = 1; i <= 3; ++i) {
    const Golden step = golden.at(fmt::format("step{}/", i));
    adam.step(gradients_of({{W, step["g_W"].to(DType::f32)}, {b, step["g_b"].to(DType::f32)}}));
    CHECK(difference(W.value().to(DType::f64), step["W"]) < 1e-6);
    CHECK(difference(b.value().to(DType::f64), step["b"]) < 1e-6);
  }
}

TEST_CASE("Adam: three steps with clipped gradients are PyTorch's") {
  const Golden golden("adam");
  const double largest = golden.number("max_norm");
  nn::Parameters params(1, DType::f64);
  const Var W = params.add("W", {3, 4}, nn::init::zeros());
  const Var b = params.add("b", {5}, nn::init::zeros());
  for (const auto& [name, w] : params) test::set(params, name, golden[name]);
  nn::Adam adam(params, golden_options(golden));
  for (int i = 1; i <= 3; ++i) {
    const std::string name = fmt::format("step{}/", i);
    const Golden step = golden.at(name), clipped = golden.at("clip/" + name);
    Gradients gradients = gradients_of({{W, step["g_W"]}, {b, step["g_b"]}});
    const double norm = nn::clip_by_global_norm(gradients, largest);
    CHECK(std::abs(norm - clipped.number("norm")) < 1e-12);
    // PyTorch divides by norm + 1e-6.
    const double theirs = norm > largest ? (norm + 1e-6) / norm : 1;
    CHECK(difference(gradients[W], clipped["g_W"] * theirs) < 1e-13);
    CHECK(difference(gradients[b], clipped["g_b"] * theirs) < 1e-13);
    adam.step(gradients);
    // Adam's step does not depend on the gradients' scale but through epsilon, which is as large as
    // b[3]'s first gradient; and a relative 1e-6 between the steps' scales moves w by rate · 1e-6.
    CHECK(difference(W.value(), clipped["W"]) < 2e-8);
    CHECK(difference(b.value(), clipped["b"]) < 2e-8);
  }
}

TEST_CASE("Adam: the first step is the rate against the gradient's sign, however large it is") {
  nn::Parameters params(1, DType::f64);
  const Var w = params.add("w", {3}, nn::init::constant(1));
  nn::Adam adam(params, {.rate = 0.125, .epsilon = 1e-12});
  adam.step(gradients_of({{w, Tensor::of({3}, {1e-3, -5., 4e5})}}));
  CHECK(difference(w.value(), Tensor::of({3}, {0.875, 1.125, 0.875})) < 1e-9);
}

TEST_CASE("Adam: set_rate changes the rate of the steps after it") {
  nn::Parameters params(1, DType::f64);
  const Var w = params.add("w", {2}, nn::init::zeros());
  nn::Adam adam(params, {.rate = 0.5, .epsilon = 1e-12});
  const Tensor g = Tensor::of({2}, {3., -3.});  // with a constant gradient, every step is the rate
  adam.step(gradients_of({{w, g}}));
  adam.set_rate(0.25);
  adam.step(gradients_of({{w, g}}));
  CHECK(difference(w.value(), Tensor::of({2}, {-0.75, 0.75})) < 1e-10);
  CHECK_THROWS_AS(adam.set_rate(0), Error);
}

TEST_CASE("Adam: a parameter that the loss did not depend on is left alone, its moments too") {
  nn::Parameters params(5, DType::f64);
  const Var used = params.add("used", {2}, nn::init::normal(1));
  const Var unused = params.add("unused", {3}, nn::init::normal(1));
  const Tensor before = unused.value().clone();
  nn::Adam adam(params);
  adam.step(gradients_of({{used, randn({2}, DType::f64)}, {unused, randn({3}, DType::f64)}}));
  Safetensors after_one;
  adam.save(after_one);
  const Tensor m = after_one.find("adam.m.unused")->clone();
  const Tensor v = after_one.find("adam.v.unused")->clone();
  const Tensor moved = unused.value().clone(), m_used = after_one.find("adam.m.used")->clone();
  CHECK_FALSE(identical(moved, before));
  adam.step(gradients_of({{used, randn({2}, DType::f64, 3)}}));
  CHECK(identical(unused.value(), moved));
  Safetensors after_two;
  adam.save(after_two);
  CHECK(identical(*after_two.find("adam.m.unused"), m));
  CHECK(identical(*after_two.find("adam.v.unused"), v));
  CHECK_FALSE(identical(*after_two.find("adam.m.used"), m_used));
}

TEST_CASE("Adam: options out of range are errors") {
  nn::Parameters params;
  const auto make = [&](const nn::AdamOptions& options) { nn::Adam adam(params, options); };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH_AS(make({.rate = 0}), "Adam: rate = 0 is not in (0, inf)", Error);
  CHECK_THROWS_WITH_AS(make({.rate = -1}), "Adam: rate = -1 is not in (0, inf)", Error);
  CHECK_THROWS_AS(make({.rate = nan}), Error);
  CHECK_THROWS_AS(make({.rate = infinity}), Error);
  CHECK_THROWS_WITH_AS(make({.beta1 = 1}), "Adam: beta1 = 1 is not in [0, 1)", Error);
  CHECK_THROWS_AS(make({.beta1 = -0.1}), Error);
  CHECK_THROWS_WITH_AS(make({.beta2 = 1.5}), "Adam: beta2 = 1.5 is not in [0, 1)", Error);
  CHECK_THROWS_AS(make({.beta2 = nan}), Error);
  CHECK_THROWS_WITH_AS(make({.epsilon = 0}), "Adam: epsilon = 0 is not in (0, inf)", Error);
  CHECK_THROWS_AS(make({.epsilon = nan}), Error);
  CHECK_NOTHROW(make({.beta1 = 0, .beta2 = 0}));
}

TEST_CASE("Adam: an infinite epsilon is out of range") {
  nn::Parameters params;
  const nn::AdamOptions options{.epsilon = std::numeric_limits<double>::infinity()};
  CHECK_THROWS_AS(nn::Adam(params, options), Error);
}

TEST_CASE("Adam: a parameter that is added afterwards is an error") {
  test::check_late_parameter("Adam", make_adam);
}

TEST_CASE("Adam: a step between forward and backward is an error, not a wrong gradient") {
  test::check_step_before_backward(make_adam);
}

TEST_CASE("Adam: finds the minimum of a quadratic") {
  nn::Parameters params(1, DType::f64);
  add_two(params);
  nn::Adam adam(params, {.rate = 0.05});
  for (int i = 0; i < 2000; ++i) {
    if (i == 1000) adam.set_rate(1e-3);
    adam.step(quadratic(params));
  }
  CHECK(difference(params["a"].value(), full({2, 3}, 1, DType::f64)) < 1e-4);
  CHECK(difference(params["b"].value(), full({5}, -2, DType::f64)) < 1e-4);
}

TEST_CASE("Adam: training goes on from a saved state bit for bit") {
  test::check_goes_on(make_adam);
}

TEST_CASE("Adam: a state that does not fit is an error") {
  nn::Parameters params(9);
  add_two(params);
  nn::Adam adam(params);
  Safetensors file;
  CHECK_THROWS_WITH_AS(adam.load(file), "checkpoint: there is no 'adam.steps' in it", Error);
  adam.save(file);
  CHECK(file.metadata.at("adam.steps") == "0");
  CHECK_NOTHROW(adam.load(file));

  Safetensors missing = file;
  missing.tensors.erase("adam.v.b");
  CHECK_THROWS_WITH_AS(adam.load(missing), "checkpoint: there is no 'adam.v.b' (5) in it", Error);
  for (const char* steps : {"", "-1", "1.5", "many", "3 "}) {
    Safetensors wrong = file;
    wrong.metadata["adam.steps"] = steps;
    CHECK_THROWS_AS(adam.load(wrong), Error);
  }
}

TEST_CASE("Adam: a state that does not fit changes nothing") {
  nn::Parameters params(9);
  add_two(params);
  nn::Adam adam(params), fresh(params);
  adam.step(quadratic(params));
  Safetensors before, file;
  adam.save(before);
  for (auto& [name, tensor] : before.tensors) tensor = tensor.clone();
  fresh.save(file);
  const auto unchanged = [&] {
    Safetensors now;
    adam.save(now);
    bool same = adam.steps() == 1;
    for (const auto& [name, tensor] : now.tensors) same &= identical(tensor, *before.find(name));
    return same;
  };
  Safetensors missing = file;
  missing.tensors.erase("adam.v.b");
  CHECK_THROWS_AS(adam.load(missing), Error);
  CHECK(unchanged());
  file.metadata["adam.steps"] = "many";
  CHECK_THROWS_AS(adam.load(file), Error);
  CHECK(unchanged());
}

nn::AdamOptions golden_adamw_options(const Golden& golden) {
  nn::AdamOptions options = golden_options(golden);
  options.weight_decay = golden.number("weight_decay");
  return options;
}

/// Three steps of AdamW against a prefix of the golden file.
void check_adamw(const std::string& prefix, std::function<bool(const NamedVariable&)> decays,
                 DType dtype, double tolerance) {
  const Golden golden("adamw"), wanted = golden.at(prefix);
  nn::Parameters params(1, dtype);
  const Var W = params.add("W", {3, 4}, nn::init::zeros());
  const Var b = params.add("b", {5}, nn::init::zeros());
  for (const auto& [name, w] : params) test::set(params, name, golden[name].to(dtype));
  nn::AdamOptions options = golden_adamw_options(golden);
  options.decays = std::move(decays);
  nn::Adam adam(params, options);
  for (int i = 1; i <= 3; ++i) {
    const std::string step = fmt::format("step{}/", i);
    adam.step(
        gradients_of({{W, golden[step + "g_W"].to(dtype)}, {b, golden[step + "g_b"].to(dtype)}}));
    CHECK(difference(W.value().to(DType::f64), wanted[step + "W"]) < tolerance);
    CHECK(difference(b.value().to(DType::f64), wanted[step + "b"]) < tolerance);
  }
}

TEST_CASE("AdamW: three steps are PyTorch's, where all parameters decay") {
  check_adamw("all/", {}, DType::f64, 1e-13);
  check_adamw("all/", {}, DType::f32, 1e-6);
}

TEST_CASE("AdamW: three steps are PyTorch's, where matrices decay and a bias does not") {
  check_adamw("matrices/", nn::matrices_only, DType::f64, 1e-13);
  check_adamw("matrices/", nn::matrices_only, DType::f32, 1e-6);
  const auto by_name = [](const NamedVariable& parameter) { return parameter.name == "W"; };
  check_adamw("matrices/", by_name, DType::f64, 1e-13);
}

TEST_CASE("AdamW: where nothing decays, every bit is Adam's") {
  nn::Parameters plain(4), none(4);
  const auto add = [](nn::Parameters& params) {
    return params.add("w", {7, 11}, nn::init::normal(1));
  };
  const Var w = add(plain), same = add(none);
  nn::Adam adam(plain, {.rate = 0.01});
  nn::Adam adamw(none,
                 {.rate = 0.01, .weight_decay = 0.5, .decays = [](const auto&) { return false; }});
  for (std::uint64_t i = 1; i <= 4; ++i) {
    const Tensor g = randn({7, 11}, DType::f32, i);
    adam.step(gradients_of({{w, g}}));
    adamw.step(gradients_of({{same, g}}));
    CHECK(identical(w.value(), same.value()));
  }
}

TEST_CASE("AdamW: with gradients of zero, w shrinks by the rate times the decay, at the new rate") {
  nn::Parameters params(1, DType::f64);
  const Var w = params.add("w", {3}, nn::init::constant(8));
  nn::Adam adam(params, {.rate = 0.25, .weight_decay = 0.5});
  adam.step(gradients_of({{w, zeros({3}, DType::f64)}}));
  CHECK(identical(w.value(), full({3}, 7, DType::f64)));
  adam.set_rate(0.5);
  adam.step(gradients_of({{w, zeros({3}, DType::f64)}}));
  CHECK(identical(w.value(), full({3}, 5.25, DType::f64)));
}

TEST_CASE("AdamW: the decay does not go into the moments") {
  nn::Parameters params(1, DType::f64);
  const Var w = params.add("w", {2}, nn::init::constant(100));
  nn::Adam adam(params, {.weight_decay = 0.5});
  adam.step(gradients_of({{w, Tensor::of({2}, {1., -2.})}}));
  Safetensors file;
  adam.save(file);
  CHECK(difference(*file.find("adam.m.w"), Tensor::of({2}, {0.1, -0.2})) < 1e-15);
  CHECK(difference(*file.find("adam.v.w"), Tensor::of({2}, {0.001, 0.004})) < 1e-15);
}

TEST_CASE("AdamW: a parameter that the loss did not depend on does not decay") {
  nn::Parameters params;
  const Var used = params.add("used", {2}, nn::init::constant(1));
  const Var unused = params.add("unused", {3}, nn::init::constant(1));
  nn::Adam adam(params, {.weight_decay = 0.5});
  adam.step(gradients_of({{used, ones({2})}}));
  CHECK(identical(unused.value(), ones({3})));
}

TEST_CASE("AdamW: which parameters decay is asked once for each, by path") {
  nn::Parameters params;
  const nn::Scope scope = nn::Scope(params) / "encoder";
  scope.add("W_x", {2, 3}, nn::init::zeros());
  const Var b = scope.add("b", {3}, nn::init::zeros());
  std::vector<std::string> asked;
  nn::Adam adam(params, {.weight_decay = 0.5, .decays = [&](const NamedVariable& parameter) {
                           asked.push_back(parameter.name);
                           return true;
                         }});
  for (int i = 0; i < 2; ++i) adam.step(gradients_of({{b, ones({3})}}));
  CHECK(asked == std::vector<std::string>{"encoder.W_x", "encoder.b"});
}

TEST_CASE("AdamW: a decay out of range is an error") {
  nn::Parameters params;
  const auto make = [&](double decay) { nn::Adam adam(params, {.weight_decay = decay}); };
  CHECK_THROWS_WITH_AS(make(-0.5), "Adam: weight_decay = -0.5 is not in [0, inf)", Error);
  CHECK_THROWS_AS(make(std::numeric_limits<double>::quiet_NaN()), Error);
  CHECK_THROWS_AS(make(std::numeric_limits<double>::infinity()), Error);
}

}  // namespace
