#include <limits>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/nn/sgd.hpp>
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

constexpr auto make_sgd = [](nn::Parameters& params) {
  return nn::Sgd(params, {.rate = 0.01, .momentum = 0.9});
};

/// Three steps against a prefix of the golden file.
void check_golden(const std::string& prefix, bool nesterov, DType dtype, double tolerance) {
  const Golden golden("sgd"), wanted = golden.at(prefix);
  nn::Parameters params(1, dtype);
  const Var W = params.add("W", {3, 4}, nn::init::zeros());
  const Var b = params.add("b", {5}, nn::init::zeros());
  for (const auto& [name, w] : params) test::set(params, name, golden[name].to(dtype));
  nn::Sgd sgd(params, {.rate = golden.number("lr"),
                       .momentum = wanted.number("momentum"),
                       .nesterov = nesterov,
                       .weight_decay = wanted.number("weight_decay")});
  for (int i = 1; i <= 3; ++i) {
    INFO(prefix, "step ", i);
    const std::string step = fmt::format("step{}/", i);
    sgd.step(
        gradients_of({{W, golden[step + "g_W"].to(dtype)}, {b, golden[step + "g_b"].to(dtype)}}));
    CHECK(sgd.steps() == i);
    CHECK(difference(W.value().to(DType::f64), wanted[step + "W"]) < tolerance);
    CHECK(difference(b.value().to(DType::f64), wanted[step + "b"]) < tolerance);
  }
}

TEST_CASE("Sgd: three steps without momentum are PyTorch's") {
  for (const char* prefix : {"plain/", "decay/"}) {
    check_golden(prefix, false, DType::f64, 1e-13);
    check_golden(prefix, false, DType::f32, 1e-6);
  }
}

TEST_CASE("Sgd: three steps with momentum are PyTorch's") {
  for (const char* prefix : {"momentum/", "momentum_decay/"}) {
    check_golden(prefix, false, DType::f64, 1e-13);
    check_golden(prefix, false, DType::f32, 1e-6);
  }
}

TEST_CASE("Sgd: three steps with Nesterov's momentum are PyTorch's") {
  for (const char* prefix : {"nesterov/", "nesterov_decay/"}) {
    check_golden(prefix, true, DType::f64, 1e-13);
    check_golden(prefix, true, DType::f32, 1e-6);
  }
}

TEST_CASE("Sgd: a step is the rate against the gradient, however many tiles there are") {
  nn::Parameters params(1, DType::f64);
  const Index n = 20001;
  const Var w = params.add("w", {n}, nn::init::normal(1));
  const Tensor before = w.value().clone(), g = randn({n}, DType::f64, 2);
  nn::Sgd sgd(params, {.rate = 0.5});
  sgd.step(gradients_of({{w, g}}));
  CHECK(identical(w.value(), before - 0.5 * g));
}

TEST_CASE("Sgd: set_rate changes the rate of the steps after it, and not what is remembered") {
  nn::Parameters params(1, DType::f64);
  const Var w = params.add("w", {2}, nn::init::zeros());
  nn::Sgd sgd(params, {.rate = 1, .momentum = 0.5});
  const Tensor g = Tensor::of({2}, {4., -8.});
  sgd.step(gradients_of({{w, g}}));  // v = g
  sgd.set_rate(0.25);
  sgd.step(gradients_of({{w, g}}));  // v = 1.5 g
  CHECK(identical(w.value(), -1.375 * g));
  CHECK_THROWS_WITH_AS(sgd.set_rate(0), "Sgd: rate = 0 is not in (0, inf)", Error);
}

TEST_CASE("Sgd: a parameter that the loss did not depend on is left alone, its momentum too") {
  nn::Parameters params(5, DType::f64);
  const Var used = params.add("used", {2}, nn::init::normal(1));
  const Var unused = params.add("unused", {3}, nn::init::normal(1));
  nn::Sgd sgd(params, {.rate = 0.5, .momentum = 0.5, .weight_decay = 0.5});
  sgd.step(gradients_of({{used, randn({2}, DType::f64)}, {unused, randn({3}, DType::f64)}}));
  Safetensors file;
  sgd.save(file);
  const Tensor w = unused.value().clone(), v = file.find("sgd.v.unused")->clone();
  const Tensor v_used = file.find("sgd.v.used")->clone();
  sgd.step(gradients_of({{used, randn({2}, DType::f64, 3)}}));
  CHECK(identical(unused.value(), w));
  CHECK(identical(*file.find("sgd.v.unused"), v));
  CHECK_FALSE(identical(*file.find("sgd.v.used"), v_used));
}

TEST_CASE("Sgd: options out of range are errors") {
  nn::Parameters params;
  const auto make = [&](const nn::SgdOptions& options) { nn::Sgd sgd(params, options); };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH_AS(make({.rate = 0}), "Sgd: rate = 0 is not in (0, inf)", Error);
  CHECK_THROWS_AS(make({.rate = nan}), Error);
  CHECK_THROWS_AS(make({.rate = infinity}), Error);
  CHECK_THROWS_WITH_AS(make({.rate = 1, .momentum = 1}), "Sgd: momentum = 1 is not in [0, 1)",
                       Error);
  CHECK_THROWS_AS(make({.rate = 1, .momentum = -0.1}), Error);
  CHECK_THROWS_AS(make({.rate = 1, .momentum = nan}), Error);
  CHECK_THROWS_WITH_AS(make({.rate = 1, .nesterov = true}), "Sgd: nesterov needs momentum > 0",
                       Error);
  CHECK_THROWS_WITH_AS(make({.rate = 1, .weight_decay = -1}),
                       "Sgd: weight_decay = -1 is not in [0, inf)", Error);
  CHECK_THROWS_AS(make({.rate = 1, .weight_decay = infinity}), Error);
  CHECK_NOTHROW(make({.rate = 1, .momentum = 0.9, .nesterov = true}));
}

TEST_CASE("Sgd: a parameter that is added afterwards is an error") {
  test::check_late_parameter("Sgd", make_sgd);
}

TEST_CASE("Sgd: a step between forward and backward is an error, not a wrong gradient") {
  test::check_step_before_backward(make_sgd);
}

TEST_CASE("Sgd: a gradient that is not finite is an error, and nothing changes, unless told so") {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    nn::Parameters params(9, DType::f64);
    const Var a = params.add("a", {1}, nn::init::zeros());
    const Var b = params.add("b", {2}, nn::init::zeros());
    nn::Sgd sgd(params, {.rate = 0.5, .momentum = 0.5});
    const auto gradients = [&](double of_b) {
      return backward(sum(a) + test::weighted(b, Tensor::of({2}, {1., of_b})));
    };
    CHECK_THROWS_WITH_AS(
        sgd.step(gradients(bad)),
        fmt::format("Sgd: the gradient of 'b' (2), element (1) is {}: nothing was changed", bad)
            .c_str(),
        Error);
    CHECK(sgd.steps() == 0);
    CHECK(a.value().item() == 0);
    sgd.step(gradients(1));
    CHECK(identical(b.value(), Tensor::of({2}, {-0.5, -0.5})));  // v was 0
    nn::Sgd unchecked(params, {.rate = 0.5, .check_gradients = false});
    unchecked.step(gradients(bad));
    CHECK_FALSE(std::isfinite(b.value().to_vector<double>()[1]));
  }
}

TEST_CASE("Sgd: finds the minimum of a quadratic, with weight decay one nearer to zero") {
  for (const double decay : {0.0, 0.25}) {
    nn::Parameters params(1, DType::f64);
    add_two(params);
    nn::Sgd sgd(params, {.rate = 0.125, .momentum = 0.75, .nesterov = true, .weight_decay = decay});
    for (int i = 0; i < 400; ++i) sgd.step(quadratic(params));
    // w - target + λ w = 0
    CHECK(difference(params["a"].value(), full({2, 3}, 1 / (1 + decay), DType::f64)) < 1e-12);
    CHECK(difference(params["b"].value(), full({5}, -2 / (1 + decay), DType::f64)) < 1e-12);
  }
}

TEST_CASE("Sgd: training goes on from a saved state bit for bit") { test::check_goes_on(make_sgd); }

TEST_CASE("Sgd: without momentum the state is the step count alone") {
  nn::Parameters params(9);
  add_two(params);
  nn::Sgd sgd(params, {.rate = 0.01});
  sgd.step(quadratic(params));
  Safetensors file;
  sgd.save(file);
  CHECK(file.tensors.empty());
  CHECK(file.metadata.at("sgd.steps") == "1");
  nn::Sgd other(params, {.rate = 0.01}), with_momentum(params, {.rate = 0.01, .momentum = 0.5});
  other.load(file);
  CHECK(other.steps() == 1);
  CHECK_THROWS_WITH_AS(with_momentum.load(file), "checkpoint: there is no 'sgd.v.a' (2, 3) in it",
                       Error);
}

TEST_CASE("Sgd: a state that does not fit is an error and changes nothing") {
  nn::Parameters params(9);
  add_two(params);
  const nn::SgdOptions options{.rate = 0.01, .momentum = 0.5};
  nn::Sgd sgd(params, options), fresh(params, options);
  CHECK_THROWS_WITH_AS(sgd.load({}), "checkpoint: there is no 'sgd.steps' in it", Error);
  sgd.step(quadratic(params));
  Safetensors before, file;
  sgd.save(before);
  for (auto& [name, tensor] : before.tensors) tensor = tensor.clone();
  fresh.save(file);
  const auto refused = [&](const Safetensors& wrong) {
    CHECK_THROWS_AS(sgd.load(wrong), Error);
    Safetensors now;
    sgd.save(now);
    CHECK(sgd.steps() == 1);
    for (const auto& [name, tensor] : now.tensors) CHECK(identical(tensor, *before.find(name)));
  };
  Safetensors missing = file, other_shape = file;
  missing.tensors.erase(missing.tensors.begin());
  refused(missing);
  other_shape.tensors.begin()->second = zeros({4});
  refused(other_shape);
  for (const char* steps : {"", "-1", "1.5", "many", "3 "}) {
    Safetensors wrong = file;
    wrong.metadata["sgd.steps"] = steps;
    refused(wrong);
  }
  sgd.load(file);
  CHECK(sgd.steps() == 0);
}

}  // namespace
