// The optimiser and clipping over 20 million parameters.

#include <attune/autograd/ops.hpp>
#include <attune/nn/optimisers.hpp>

#include "support/counters.hpp"

namespace attune {
namespace {

constexpr Index matrices = 20, elements = 1'000'000;

struct Model {
  nn::Parameters parameters;
  Gradients gradients;

  Model() {
    Var total = scalar(0);
    for (Index i = 0; i < matrices; ++i) {
      const Var w = parameters.add("w" + std::to_string(i), {1000, elements / 1000},
                                   nn::init::uniform(-0.1, 0.1));
      total = total + sum(w * w);
    }
    gradients = backward(total);
  }
};

constexpr double bytes = 4.0 * matrices * elements;

void adam_step(benchmark::State& state) {
  Model model;
  nn::Adam adam(model.parameters);
  for (auto _ : state) adam.step(model.gradients);
  bench::set_bytes(state, 7 * bytes);  // reads w, m, v and the gradient, writes w, m and v
  state.SetItemsProcessed(state.iterations() * matrices * elements);
}
BENCHMARK(adam_step)->UseRealTime()->Unit(benchmark::kMillisecond);

/// As after clipping.
void adam_step_known_norm(benchmark::State& state) {
  Model model;
  nn::Adam adam(model.parameters);
  model.gradients.global_norm();
  for (auto _ : state) adam.step(model.gradients);
  bench::set_bytes(state, 7 * bytes);
}
BENCHMARK(adam_step_known_norm)->UseRealTime()->Unit(benchmark::kMillisecond);

void global_norm(benchmark::State& state) {
  const Model model;  // which does not remember it
  for (auto _ : state) benchmark::DoNotOptimize(model.gradients.global_norm());
  bench::set_bytes(state, bytes);
}
BENCHMARK(global_norm)->UseRealTime()->Unit(benchmark::kMillisecond);

void clip(benchmark::State& state) {
  Model model;
  double norm = model.gradients.global_norm();
  model.gradients.all();  // from here on it is not remembered
  for (auto _ : state) norm = nn::clip_by_global_norm(model.gradients, 0.999 * norm);
  bench::set_bytes(state, 3 * bytes);  // reads for the norm, reads and writes for the scaling
}
BENCHMARK(clip)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace attune
