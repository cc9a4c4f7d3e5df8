// One step of attention. With a window, the time does not depend on the source length S.

#include <chrono>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/attention.hpp>
#include <attune/tensor/random.hpp>

#include "support/counters.hpp"
#include "support/randn.hpp"

namespace attune {
namespace {

constexpr Index batch = 64, size = 256, half_width = 10;

struct Setting {
  nn::Parameters parameters{1};
  nn::Attention attention;
  Var state;
  nn::Memory memory;

  Setting(const char* kind, nn::Window window, Index steps)
      : attention(nn::make_score(parameters, size, size, {.kind = kind, .attention = size}),
                  parameters, size, {.window = window, .half_width = half_width}),
        state(variable(randn({batch, size}, DType::f32, 2))) {
    const NoGrad no_grad;  // backward stops at memory and keys
    memory = attention.precompute(randn({steps, batch, size}), ones({steps, batch}));
    memory.h = variable(memory.h.value());
    memory.keys.k = variable(memory.keys.k.value());
  }

  /// Seconds for this number of steps, forward and backward.
  double seconds(Index steps) const {
    const auto begin = std::chrono::steady_clock::now();
    Var total = scalar(0);
    for (Index t = 0; t < steps; ++t) {
      const nn::AttentionResult read = attention({.state = state, .past = {.steps = t}}, memory);
      total = total + sum(read.context);
    }
    benchmark::DoNotOptimize(backward(total));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
};

void forward(benchmark::State& state, const char* kind, nn::Window window) {
  const NoGrad no_grad;
  const Setting s(kind, window, state.range(0));
  Index step = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        s.attention({.state = s.state, .past = {.steps = step++ % state.range(0)}}, s.memory));
  }
}

/// (Time of 33 steps - time of 1 step) / 32. The difference excludes the zero initialisation of the
/// gradients of memory and keys, which happens once for all steps.
void forward_backward(benchmark::State& state, const char* kind, nn::Window window) {
  constexpr Index steps = 32;
  const Setting s(kind, window, state.range(0));
  for (auto _ : state) {
    const double one = s.seconds(1), all = s.seconds(1 + steps);
    state.SetIterationTime(std::max(0.0, all - one) / steps);
  }
}

const int registered = [] {
  using nn::Window;
  const std::pair<const char*, Window> windows[] = {{"global", Window::global},
                                                    {"local-m", Window::local_monotonic},
                                                    {"local-p", Window::local_predictive}};
  for (const auto& [name, window] : windows) {
    for (const char* kind : {"dot", "general", "additive"}) {
      const std::string suffix = std::string("/") + kind + "/" + name;
      const auto add = [&, window = window](const char* what, auto function) {
        return benchmark::RegisterBenchmark((what + suffix).c_str(), function, kind, window)
            ->ArgName("S")
            ->ArgsProduct({{32, 128, 512, 2048}})
            ->Unit(benchmark::kMicrosecond);
      };
      add("attention_forward", forward)->UseRealTime();
      add("attention_forward_backward", forward_backward)->UseManualTime()->Iterations(5);
    }
  }
  return 0;
}();

}  // namespace
}  // namespace attune
