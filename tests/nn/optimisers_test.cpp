#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <tuple>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/nn/clipping.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/errors.hpp>

#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"

namespace {

using namespace attune;
using attune::nan;  // ::nan is a function

/// Gradients with these values.
Gradients gradients_of(std::initializer_list<std::pair<Var, Tensor>> wanted) {
  Var loss = Var(scalar(0, wanted.begin()->second.dtype()));
  for (const auto& [w, g] : wanted) loss = loss + test::weighted(w, g);
  return backward(loss);
}

using Made = std::unique_ptr<nn::Optimiser>;

struct Kind {
  std::string name;
  std::function<Made(nn::Parameters&)> make;
};

template <class AnyOptimiser, class Options>
Kind kind(const char* name, const Options& options) {
  return {name, [=](nn::Parameters& params) -> Made {
            return std::make_unique<AnyOptimiser>(params, options);
          }};
}

const std::vector<Kind> kinds = {
    kind<nn::Adam>("Adam", nn::AdamOptions{.rate = 0.01}),
    kind<nn::Adam>("Adam", nn::AdamOptions{.rate = 0.01, .weight_decay = 0.5}),
    kind<nn::Sgd>("Sgd", nn::SgdOptions{.rate = 0.01}),
    kind<nn::Sgd>("Sgd", nn::SgdOptions{.rate = 0.01, .momentum = 0.9, .weight_decay = 0.5}),
};

/// Two parameters and an optimiser of one kind.
struct Two {
  explicit Two(const Kind& kind, DType dtype = DType::f32)
      : params(9, dtype),
        a(params.add("a", {2, 3}, nn::init::normal(1))),
        b(params.add("cell.b", {5}, nn::init::normal(1))),
        optimiser(kind.make(params)) {}

  /// Of Σ (a - 1)² / 2 + Σ (b + 2)² / 2.
  Gradients quadratic() const {
    return backward(0.5 * sum((a - 1.0) * (a - 1.0)) + 0.5 * sum((b + 2.0) * (b + 2.0)));
  }
  void step() { optimiser->step(quadratic()); }

  /// A copy of all state that a step changes.
  Safetensors state() const {
    Safetensors file;
    nn::save_parameters(params, file);
    optimiser->save(file);
    for (auto& [name, tensor] : file.tensors) tensor = tensor.clone();
    return file;
  }
  void load(const Safetensors& file) {
    nn::load_parameters(file, params);
    optimiser->load(file);
  }

  nn::Parameters params;
  Var a, b;
  Made optimiser;
};

bool same(const Safetensors& a, const Safetensors& b) {
  return a.metadata == b.metadata &&
         std::ranges::equal(a.tensors, b.tensors, [](const auto& x, const auto& y) {
           return x.first == y.first && identical(x.second, y.second);
         });
}

TEST_CASE("optimisers: training continues from a saved state bit for bit") {
  for (const Kind& kind : kinds) {
    Two two(kind), resumed(kind);
    for (int i = 0; i < 5; ++i) two.step();
    resumed.load(two.state());
    CHECK(resumed.optimiser->steps() == 5);
    for (int i = 0; i < 5; ++i) two.step(), resumed.step();
    CHECK(same(two.state(), resumed.state()));
  }
}

TEST_CASE("optimisers: a state that does not fit is an error and changes nothing") {
  for (const Kind& kind : kinds) {
    Two two(kind);
    const Safetensors fresh = two.state();
    two.step();
    const Safetensors before = two.state();
    const auto refused = [&](const Safetensors& file) {
      CHECK_THROWS_AS(two.optimiser->load(file), Error);
      CHECK(same(two.state(), before));
    };
    const std::string steps = (kind.name == "Adam" ? "adam" : "sgd") + std::string(".steps");
    CHECK_ERROR("checkpoint: '" + steps + "' is missing", two.optimiser->load({}));
    for (const char* wrong : {"", "-1", "1.5", "many", "3 "}) {
      Safetensors file = fresh;
      file.metadata.at(steps) = wrong;
      refused(file);
    }
    for (const auto& [name, tensor] : fresh.tensors) {
      if (two.params.contains(name)) continue;
      Safetensors file = fresh;
      file.tensors[name] = zeros({4});
      refused(file);
      file.tensors.erase(name);
      refused(file);
      CHECK_ERROR("checkpoint: '" + name + "' " + to_string(tensor.shape()) + " is missing",
                  two.optimiser->load(file));
    }
    two.optimiser->load(fresh);
    CHECK(two.optimiser->steps() == 0);
  }
}

static_assert(!std::is_copy_constructible_v<nn::Adam> &&
              !std::is_copy_constructible_v<nn::MovingAverage>);

TEST_CASE("optimisers: the names of their state") {
  const auto names = [](const Kind& kind) {
    Safetensors file;
    Two(kind).optimiser->save(file);
    std::vector<std::string> all;
    for (const auto& [name, tensor] : file.tensors) all.push_back(name);
    std::ranges::sort(all);
    return all;
  };
  using Names = std::vector<std::string>;
  CHECK(names(kinds[0]) == Names{"adam.m.a", "adam.m.cell.b", "adam.v.a", "adam.v.cell.b"});
  CHECK(names(kinds[2]).empty());
  CHECK(names(kinds[3]) == Names{"sgd.v.a", "sgd.v.cell.b"});
}

TEST_CASE("optimisers: a parameter without gradient and its state do not change") {
  for (const Kind& kind : kinds) {
    Two two(kind, DType::f64);
    two.step();
    const Safetensors before = two.state();
    two.optimiser->step(gradients_of({{two.a, randn({2, 3}, DType::f64, 3)}}));
    for (const auto& [name, tensor] : two.state().tensors) {
      CAPTURE_BINDING(name);
      CHECK(identical(tensor, *before.find(name)) == name.ends_with("cell.b"));
    }
  }
}

TEST_CASE("optimisers: a gradient that is not finite is an error that names it; nothing changes") {
  for (const Kind& kind : kinds) {
    Two two(kind);
    two.step();
    const Safetensors before = two.state();
    const auto refused = [&](float bad, const std::string& what) {
      const Tensor of_b = Tensor::of({5}, {1.f, 2.f, 3.f, bad, bad});
      CHECK_ERROR(fmt::format("{}: {} of 'cell.b' (5), element (3) is {}: nothing was changed",
                              kind.name, what, bad > 0 ? infinity : static_cast<double>(bad)),
                  two.optimiser->step(gradients_of({{two.a, ones({2, 3})}, {two.b, of_b}})));
      CHECK(same(two.state(), before));
    };
    refused(std::numeric_limits<float>::quiet_NaN(), "the gradient");
    refused(-std::numeric_limits<float>::infinity(), "the gradient");
    if (kind.name == "Adam") refused(2e19f, "the square of the gradient");
    two.optimiser->step(gradients_of({{two.a, full({2, 3}, 1.8e19)}}));
    CHECK(two.optimiser->steps() == 2);
  }
}

TEST_CASE("optimisers: a gradient that became nan after clipping is an error too") {
  Two two(kinds[0]);
  Gradients gradients = two.quadratic();
  nn::clip_by_global_norm(gradients, 0.5);
  Tensor of_b = gradients[two.b];
  fill(of_b, nan);
  CHECK_THROWS_AS(two.optimiser->step(gradients), Error);
}

TEST_CASE("optimisers: gradients of other variables may be non-finite") {
  for (const Kind& kind : kinds) {
    Two two(kind);
    const Var other = variable(zeros({1}));
    two.optimiser->step(gradients_of({{two.a, ones({2, 3})}, {other, ones({1}) / 0.0}}));
    CHECK_ERROR(kind.name + ": no parameter has a gradient",
                two.optimiser->step(gradients_of({{other, ones({1})}})));
    CHECK(two.optimiser->steps() == 1);
  }
}

TEST_CASE("optimisers: a parameter that is added afterwards is an error") {
  for (const Kind& kind : kinds) {
    Two two(kind);
    const Tensor before = two.a.value().clone();
    two.params.add("late", {3}, nn::init::zeros());
    CHECK_ERROR(kind.name + ": parameters were added after its construction", two.step());
    CHECK(identical(two.a.value(), before));
  }
}

TEST_CASE("optimisers: a step between forward and backward is an error, not a wrong gradient") {
  for (const Kind& kind : kinds) {
    Two two(kind);
    const Var loss = sum(two.a * two.a);
    two.step();
    CHECK_THROWS_AS(std::ignore = backward(loss), Error);
  }
}

TEST_CASE("optimisers: options out of range are errors") {
  nn::Parameters params;
  const auto adam = [&](const nn::AdamOptions& o) {
    return error_of([&] { nn::Adam(params, o); });
  };
  const auto sgd = [&](const nn::SgdOptions& o) { return error_of([&] { nn::Sgd(params, o); }); };
  const auto range = [](const char* option, double value, const char* in) {
    return fmt::format(": {} = {} is not in {}", option, value, in);
  };
  for (const double bad : {0.0, -1.0, nan, infinity}) {
    CHECK(adam({.rate = bad}) == "Adam" + range("rate", bad, "(0, inf)"));
    CHECK(sgd({.rate = bad}) == "Sgd" + range("rate", bad, "(0, inf)"));
    CHECK(adam({.epsilon = bad}) == "Adam" + range("epsilon", bad, "(0, inf)"));
    CHECK_THROWS_AS(Two(kinds[0]).optimiser->set_rate(bad), Error);
  }
  for (const double bad : {1.0, -0.1, 1.5, nan}) {
    CHECK(adam({.beta1 = bad}) == "Adam" + range("beta1", bad, "[0, 1)"));
    CHECK(adam({.beta2 = bad}) == "Adam" + range("beta2", bad, "[0, 1)"));
    CHECK(sgd({.rate = 1, .momentum = bad}) == "Sgd" + range("momentum", bad, "[0, 1)"));
  }
  for (const double bad : {-0.5, nan, infinity}) {
    CHECK(adam({.weight_decay = bad}) == "Adam" + range("weight_decay", bad, "[0, inf)"));
    CHECK(sgd({.rate = 1, .weight_decay = bad}) == "Sgd" + range("weight_decay", bad, "[0, inf)"));
  }
  CHECK(adam({.beta1 = 0, .beta2 = 0}) == "no error");
  CHECK(adam({.beta1 = 1 - 1e-9}) == "Adam: f32 beta1 = 1 is not in [0, 1)");
  CHECK(adam({.beta2 = 1 - 1e-9}) == "Adam: f32 beta2 = 1 is not in [0, 1)");
}

nn::AdamOptions golden_adam(const Golden& golden) {
  return {.rate = golden.number("lr"),
          .beta1 = golden.number("beta1"),
          .beta2 = golden.number("beta2"),
          .epsilon = golden.number("eps")};
}

/// The parameters of a golden file, at the start.
struct FromGolden {
  explicit FromGolden(const Golden& golden, DType dtype = DType::f64) : params(1, dtype) {
    for (const char* name : {"W", "b"}) {
      const Tensor values = golden[name];
      params.add(name, values.shape(), [=](Tensor& w, Random&) { copy(values, w); });
    }
  }
  nn::Parameters params;
};

TEST_CASE("optimisers: three steps are PyTorch's") {
  struct Case {
    std::string file, prefix;
    std::function<Made(nn::Parameters&, const Golden& file, const Golden& wanted)> make;
  };
  std::vector<Case> cases;
  cases.push_back({"adam", "", [](nn::Parameters& params, const Golden& file, const Golden&) {
                     return std::make_unique<nn::Adam>(params, golden_adam(file));
                   }});
  const auto adamw = [&](const char* prefix, std::function<bool(const NamedVariable&)> decays) {
    cases.push_back({"adamw", prefix, [=](nn::Parameters& params, const Golden& file, auto&) {
                       nn::AdamOptions options = golden_adam(file);
                       options.weight_decay = file.number("weight_decay");
                       options.decays = decays;
                       return std::make_unique<nn::Adam>(params, options);
                     }});
  };
  adamw("all/", {});
  adamw("matrices/", nn::matrices_only);
  adamw("matrices/", [](const NamedVariable& parameter) { return parameter.name == "W"; });
  for (const std::string prefix : {"plain/", "decay/", "momentum/", "momentum_decay/"}) {
    cases.push_back({"sgd", prefix, [=](nn::Parameters& params, auto& file, const Golden& wanted) {
                       return std::make_unique<nn::Sgd>(
                           params, nn::SgdOptions{.rate = file.number("lr"),
                                                  .momentum = wanted.number("momentum"),
                                                  .weight_decay = wanted.number("weight_decay")});
                     }});
  }
  for (const Case& c : cases) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      const Golden golden(c.file), wanted = golden.at(c.prefix);
      FromGolden from(golden, dtype);
      const Made optimiser = c.make(from.params, golden, wanted);
      const Var W = from.params["W"], b = from.params["b"];
      for (int i = 1; i <= 3; ++i) {
        INFO(c.file, c.prefix, "step ", i);
        const std::string step = fmt::format("step{}/", i);
        optimiser->step(gradients_of(
            {{W, golden[step + "g_W"].to(dtype)}, {b, golden[step + "g_b"].to(dtype)}}));
        CHECK(optimiser->steps() == i);
        const double tolerance = dtype == DType::f64 ? 1e-13 : 1e-6;
        CHECK(difference(W.value().to(DType::f64), wanted[step + "W"]) < tolerance);
        CHECK(difference(b.value().to(DType::f64), wanted[step + "b"]) < tolerance);
      }
    }
  }
}

TEST_CASE("Adam: three steps with clipped gradients are PyTorch's") {
  const Golden golden("adam");
  const double largest = golden.number("max_norm");
  FromGolden from(golden);
  const Var W = from.params["W"], b = from.params["b"];
  nn::Adam adam(from.params, golden_adam(golden));
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

/// A parameter after steps against the gradient g at rates 0.5 and 0.25.
template <class Optimiser, class Options>
Tensor two_steps(const Tensor& w, const Tensor& g, const Options& options) {
  nn::Parameters params(1, DType::f64);
  const Var x = params.add("w", w.shape(), [=](Tensor& to, Random&) { copy(w, to); });
  Optimiser optimiser(params, options);
  optimiser.step(gradients_of({{x, g}}));
  optimiser.set_rate(0.25);
  optimiser.step(gradients_of({{x, g}}));
  return x.value();
}

TEST_CASE("optimisers: set_rate changes the rate of later steps, and of the decay, not momentum") {
  const Tensor w = randn({20'001}, DType::f64), g = randn({20'001}, DType::f64, 2);  // some tiles
  CHECK(identical(two_steps<nn::Sgd>(w, g, nn::SgdOptions{.rate = 0.5}), w - 0.5 * g - 0.25 * g));
  CHECK(difference(two_steps<nn::Sgd>(w, g, nn::SgdOptions{.rate = 0.5, .momentum = 0.5}),
                   w - 0.5 * g - 0.375 * g) < 1e-14);  // v = g, then 1.5 g
  // With a constant gradient, each of Adam's steps is the rate.
  const Tensor sign = map(g, [](auto v) { return v < 0 ? decltype(v)(-1) : 1; });
  CHECK(difference(two_steps<nn::Adam>(w, sign, nn::AdamOptions{.rate = 0.5, .epsilon = 1e-12}),
                   w - 0.75 * sign) < 1e-10);
  const Tensor none = zeros({20'001}, DType::f64);
  CHECK(difference(two_steps<nn::Adam>(w, none, nn::AdamOptions{.rate = 0.5, .weight_decay = 0.5}),
                   w * (0.75 * 0.875)) < 1e-15);
}

TEST_CASE("Adam: a gradient of 1e-30, whose square is 0 in f32, is divided by epsilon") {
  nn::Parameters params;
  const Var w = params.add("w", {1}, nn::init::zeros());
  nn::Adam adam(params, {.rate = 1});
  for (int i = 0; i < 2; ++i) adam.step(gradients_of({{w, full({1}, 1e-30)}}));
  CHECK(w.item() / -2e-22 == doctest::Approx(1).epsilon(1e-5));
}

TEST_CASE("AdamW: without decaying parameters it is Adam bit for bit") {
  const auto nothing = [](const NamedVariable&) { return false; };
  Two adam(kinds[0]), adamw(kind<nn::Adam>(
                          "", nn::AdamOptions{.rate = 0.01, .weight_decay = 1, .decays = nothing}));
  for (int i = 0; i < 4; ++i) adam.step(), adamw.step();
  CHECK(same(adam.state(), adamw.state()));
}

TEST_CASE("AdamW: the constructor calls `decays` once per parameter") {
  std::vector<std::string> asked;
  Two two(kind<nn::Adam>("Adam", nn::AdamOptions{.decays = [&](const NamedVariable& parameter) {
                           asked.push_back(parameter.name);
                           return true;
                         }}));
  two.step(), two.step();
  CHECK(asked == std::vector<std::string>{"a", "cell.b"});
}

}  // namespace
