#include <cmath>
#include <fstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/loss.hpp>
#include <attune/nn/clipping.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/errors.hpp>

#include "nn/tools.hpp"

namespace {

using namespace attune;
using attune::nan;  // ::nan is a function

/// Gradients of two variables.
struct Pair {
  Pair(const Tensor& of_a, const Tensor& of_b)
      : a(variable(zeros(of_a.shape(), of_a.dtype()))),
        b(variable(zeros(of_b.shape(), of_b.dtype()))),
        gradients(backward(test::weighted(a, of_a) + test::weighted(b, of_b))) {}

  Var a, b;
  Gradients gradients;
};

const Tensor of_a = reals({3}, {3, 0, -4}), of_b = reals({1, 1}, {12});  // their norm is 13

TEST_CASE("clip_by_global_norm: all gradients are scaled by one factor, to the norm requested") {
  Pair p(of_a, of_b);
  const Gradients held = p.gradients;
  CHECK(nn::clip_by_global_norm(p.gradients, 6.5) == doctest::Approx(13).epsilon(1e-15));
  CHECK(difference(p.gradients[p.a], reals({3}, {1.5, 0, -2})) < 1e-15);
  CHECK(difference(p.gradients[p.b], reals({1, 1}, {6})) < 1e-15);
  CHECK(p.gradients.global_norm() == doctest::Approx(6.5).epsilon(1e-14));
  // Shared tensors are not changed.
  CHECK(identical(held[p.a], of_a));
  CHECK(identical(held[p.b], of_b));
}

TEST_CASE("clip_by_global_norm: gradients within the limit are not changed") {
  Pair p(of_a, of_b);
  const Tensor a = p.gradients[p.a], b = p.gradients[p.b];
  CHECK(nn::clip_by_global_norm(p.gradients, 13.5) == doctest::Approx(13).epsilon(1e-15));
  CHECK(nn::clip_by_global_norm(p.gradients, infinity) > 12.9);
  CHECK(identical(p.gradients[p.a], of_a));
  CHECK(identical(p.gradients[p.b], of_b));
  CHECK(p.gradients[p.a].shares_buffer_with(a));
  CHECK(p.gradients[p.b].shares_buffer_with(b));
}

TEST_CASE("clip_by_global_norm: a norm that is not finite is an error, and nothing is scaled") {
  for (const double bad : {nan, infinity}) {
    Pair p(reals({2}, {1, bad}), reals({1}, {8}));
    CHECK_ERROR(fmt::format("clip_by_global_norm: the norm of the gradients is {}: gradient of a "
                            "variable (2), element (1) is {}",
                            bad, bad),
                nn::clip_by_global_norm(p.gradients, 1));
    CHECK(p.gradients[p.b].item() == 8);
  }
}

TEST_CASE("clip_by_global_norm: gradients whose squares overflow have a norm") {
  Pair f32(Tensor::of({2}, {3e30f, -4e30f}), zeros({1})),
      f64(reals({2}, {3e200, 0}), reals({1}, {-4e200}));
  CHECK(nn::clip_by_global_norm(f32.gradients, 5) == doctest::Approx(5e30));
  CHECK(difference(f32.gradients[f32.a], Tensor::of({2}, {3.f, -4.f})) < 1e-6);
  Pair largest(Tensor::of({2}, {1.8e38f, -2.4e38f}), zeros({1}));
  CHECK(nn::clip_by_global_norm(largest.gradients, 1e-3) == doctest::Approx(3e38));
  CHECK(difference(largest.gradients[largest.a] * 1e3, Tensor::of({2}, {0.6f, -0.8f})) < 1e-6);
  CHECK(nn::clip_by_global_norm(f64.gradients, 5) == doctest::Approx(5e200).epsilon(1e-14));
  CHECK(difference(f64.gradients[f64.a], reals({2}, {3, 0})) < 1e-14);
  CHECK(difference(f64.gradients[f64.b], reals({1}, {-4})) < 1e-14);
}

/// Runs code, and checks that autograd/backward.hpp contains it literally.
#define DOCUMENTED(...)                                               \
  __VA_ARGS__;                                                        \
  std::ifstream header(ATTUNE_SOURCE "/autograd/backward.hpp");       \
  const std::string text(std::istreambuf_iterator<char>(header), {}); \
  CHECK(text.find(#__VA_ARGS__) != std::string::npos)

TEST_CASE("Gradients: the documented loop over parts of a batch gives the gradient of all of it") {
  struct Batch {
    Tensor x, next, mask;
  };
  const Var w = variable(randn({3, 5}, DType::f64));
  const auto tokens = [](const Batch& batch) { return sum(batch.mask).item(); };
  const auto loss = [&](const Batch& batch) {
    return cross_entropy(matmul(batch.x, w), batch.next, batch.mask);
  };
  const Batch all{
      randn({9, 2, 3}, DType::f64, 2),
      Tensor::of<std::int32_t>({9, 2}, {1, 2, 3, 4, 0, 1, 1, 2, 3, 4, 0, 1, 1, 2, 3, 4, 0, 1}),
      mask_of(9, {9, 2})};
  std::vector<Batch> parts;
  for (Index b = 0; b < 2; ++b)
    parts.push_back(
        {slice(all.x, 1, b, b + 1), slice(all.next, 1, b, b + 1), slice(all.mask, 1, b, b + 1)});
  Gradients total;
  DOCUMENTED(for (const Batch& part
                  : parts) total += backward(loss(part) * (tokens(part) / tokens(all))));
  CHECK(difference(total[w], backward(loss(all))[w]) < 1e-14);
}

TEST_CASE("Gradients: a sum shares no elements with what was added") {
  Pair p(of_a, of_b);
  Gradients total;
  total += p.gradients;
  for (Tensor gradient : total.all()) fill(gradient, 7);
  CHECK(identical(p.gradients[p.a], of_a));
  CHECK(identical(p.gradients[p.b], of_b));
}

TEST_CASE("clip_by_global_norm: a limit that is not positive is an error") {
  Pair p(of_a, of_b);
  for (const double bad : {0.0, -1.0, nan}) {
    CHECK_ERROR(fmt::format("clip_by_global_norm: the largest norm {} is not positive", bad),
                nn::clip_by_global_norm(p.gradients, bad));
  }
}

TEST_CASE("non_finite_gradient: the first parameter and its first element") {
  nn::Parameters parameters(1, DType::f64);
  const Var a = parameters.add("a", {2}, nn::init::zeros());
  const Var b = parameters.add("b.W", {2, 3}, nn::init::zeros());
  const Var other = variable(zeros({1}, DType::f64));
  const auto found = [&](double in_b, double in_other) {
    Tensor of_b = Tensor::of({2, 3}, {1., 2., 3., 4., in_b, in_b});
    return nn::non_finite_gradient(parameters,
                                   backward(test::weighted(b, of_b) + sum(a) +
                                            test::weighted(other, scalar(in_other, DType::f64))));
  };
  CHECK(found(5, 6) == "");
  CHECK(found(1e300, 6) == "");
  CHECK(found(5, infinity) == "");  // no parameter
  CHECK(found(-infinity, infinity) == "the gradient of 'b.W' (2, 3), element (1, 1) is -inf");
}

void set_all(nn::Parameters& params, double value) {
  for (const auto& [name, w] : params) {
    Tensor to = w.value();
    fill(to, value);
  }
}

TEST_CASE("MovingAverage: its values follow the recurrence of its definition") {
  nn::Parameters params(1, DType::f64);
  const Var w = params.add("w", {2, 3}, nn::init::zeros());
  nn::MovingAverage average(params, 0.3);
  double expected = 0;
  for (int t = 1; t <= 6; ++t) {
    set_all(params, t * t);
    average.update();
    const double beta = std::min(0.3, (1.0 + t) / (10.0 + t));
    expected = beta * expected + (1 - beta) * t * t;
  }
  const nn::ScopedAverage scope(average);
  CHECK(difference(w.value(), full({2, 3}, expected, DType::f64)) <= 1e-14 * expected);
}

TEST_CASE("MovingAverage: the weights are restored after the scope") {
  nn::Parameters params(1);
  const Var w = params.add("w", {5}, nn::init::normal(1)),
            b = params.add("b", {2}, nn::init::zeros());
  nn::MovingAverage average(params, 0.9);
  const Tensor before = w.value().clone();
  set_all(params, 3);
  average.update();
  {
    const nn::ScopedAverage scope(average);
    CHECK(!identical(w.value(), full({5}, 3)));
  }
  CHECK(identical(w.value(), full({5}, 3)));
  CHECK(identical(b.value(), full({2}, 3)));
}

TEST_CASE("MovingAverage: continues from a saved state exactly") {
  nn::Parameters params(1), others(2);
  for (nn::Parameters* p : {&params, &others}) p->add("w", {4, 2}, nn::init::normal(1));
  nn::MovingAverage average(params, 0.99), other(others, 0.99);
  average.update();
  Safetensors file;
  average.save(file);
  for (auto& [name, tensor] : file.tensors) tensor = tensor.clone();
  other.load(file);
  for (int i = 0; i < 3; ++i) {
    set_all(params, i), set_all(others, i);
    average.update(), other.update();
  }
  average.swap(), other.swap();
  CHECK(identical(params["w"].value(), others["w"].value()));
  CHECK_ERROR("checkpoint: 'average.steps' is missing", other.load({}));
  file.tensors.clear();
  CHECK_THROWS_AS(other.load(file), Error);
}

TEST_CASE("MovingAverage: a decay out of range is an error") {
  nn::Parameters params;
  for (double decay : {0.0, 1.0, -0.5, std::nan("")}) {
    CHECK_THROWS_AS(nn::MovingAverage(params, decay), Error);
  }
}

/// A monitor, and steps of any loss and gradient.
struct Watched {
  nn::Parameters params{1};
  Var w = params.add("w", {2}, nn::init::zeros());
  nn::DivergenceMonitor monitor;

  nn::DivergenceMonitor::Step step(double loss, double gradient = 1) {
    Gradients gradients = backward(test::weighted(w, full({2}, gradient)));
    return monitor.observe(loss, params, gradients);
  }
  /// The messages of some steps, one after another.
  std::string steps(int n, double loss) {
    std::string messages;
    for (int i = 0; i < n; ++i) messages += step(loss).message;
    return messages;
  }
};

TEST_CASE("DivergenceMonitor: a non-finite loss or gradient is reported, counted, not usable") {
  Watched t;
  CHECK(t.step(2.5).usable);
  CHECK(t.monitor.skipped() == 0);
  auto [usable, message] = t.step(2.5, nan);
  CHECK_FALSE(usable);
  CHECK(message ==
        "the update is skipped: the loss is 2.5, the norm of the gradients nan: the gradient of "
        "'w' (2), element (0) is nan");
  CHECK(t.step(infinity, -infinity).message ==
        "the update is skipped: the loss is inf, the norm of the gradients inf: the gradient of "
        "'w' (2), element (0) is -inf");
  CHECK(t.step(-nan, 8).message ==
        "the update is skipped: the loss is nan, the norm of the gradients 11.31");
  CHECK(t.monitor.skipped() == 3);
  CHECK(t.monitor.skipped_in_a_row() == 3);
  CHECK(t.step(2.5, 1e30).message == "");
  CHECK(t.monitor.skipped() == 3);
  CHECK(t.monitor.skipped_in_a_row() == 0);
}

TEST_CASE("DivergenceMonitor: fifty steps in a row beyond twice the first loss are reported once") {
  Watched t;
  t.step(nan);  // is no first loss
  CHECK(t.steps(1, 2.5) == "");
  CHECK(t.steps(49, 697532) == "");
  CHECK(t.steps(1, 4.5) == "");  // spikes end
  CHECK(t.steps(49, 5.01) == "");
  t.step(infinity);
  CHECK_FALSE(t.monitor.diverges());
  CHECK(t.steps(1, 697532.25) ==
        "training diverges: the loss, 6.975e+05, has been more than 2 times the first step's, 2.5, "
        "for 50 steps");
  CHECK(t.monitor.diverges());
  CHECK(t.steps(1000, 8) == "");
  CHECK(t.monitor.diverges());
  t.step(5);
  CHECK_FALSE(t.monitor.diverges());
  CHECK(t.steps(50, 5.5) != "");
}

TEST_CASE("DivergenceMonitor: a first loss that is not positive is no reference") {
  for (const double first : {0.0, -1.0}) {
    Watched t;
    t.step(first);
    CHECK(t.steps(40, -0.5) + t.steps(40, -0.25) == "");
  }
}

TEST_CASE("DivergenceMonitor: continues from a saved state exactly") {
  Watched t, resumed;
  t.step(0.1), t.step(nan), t.steps(30, 7), t.step(nan), t.step(nan);
  Safetensors file;
  t.monitor.save(file);
  resumed.monitor.load(file);
  CHECK(resumed.monitor.skipped() == 3);
  CHECK(resumed.monitor.skipped_in_a_row() == 2);
  CHECK(resumed.steps(19, 0.2000001) == "");
  CHECK(resumed.steps(1, 0.2000001) != "");
}

TEST_CASE("DivergenceMonitor: an invalid state is an error and changes nothing") {
  Watched t;
  t.step(nan);
  Safetensors file;
  CHECK_ERROR("checkpoint: 'divergence.first_loss' is missing", t.monitor.load(file));
  nn::DivergenceMonitor().save(file);
  for (const auto& [name, wrong] : {std::pair{"divergence.first_loss", "nan"},
                                    {"divergence.above", "-1"},
                                    {"divergence.skipped", "1.5"},
                                    {"divergence.in_a_row", "many"}}) {
    auto other = file;
    other.metadata[name] = wrong;
    CHECK_THROWS_AS(t.monitor.load(other), Error);
    other.metadata.erase(name);
    CHECK_THROWS_AS(t.monitor.load(other), Error);
  }
  CHECK(t.monitor.skipped() == 1);
}

}  // namespace
