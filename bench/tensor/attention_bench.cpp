// Attention of one decoder step over a batch of sentences.

#include <attune/tensor/kernels/normalize.hpp>
#include <attune/tensor/kernels/scores.hpp>
#include <attune/tensor/random.hpp>

#include "support/counters.hpp"
#include "support/randn.hpp"

namespace attune {
namespace {

constexpr Index batch = 64, source = 30;

struct Inputs {
  Tensor q, k, v, weights, memory;
  explicit Inputs(Index a)
      : q(randn({batch, a})),
        k(randn({source, batch, a}, DType::f32, 2)),
        v(randn({a}, DType::f32, 3)),
        weights(softmax(randn({source, batch}, DType::f32, 4), 0)),
        memory(randn({source, batch, a}, DType::f32, 5)) {}
};

/// An item is an element of tanh(q + k).
void set_items(benchmark::State& state, const Tensor& k) {
  state.SetItemsProcessed(state.iterations() * k.size());
}

void additive_scores(benchmark::State& state) {
  const Inputs in(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(additive_scores_forward(in.q, in.k, in.v));
  set_items(state, in.k);
}
BENCHMARK(additive_scores)->ArgName("A")->Arg(128)->Arg(512)->UseRealTime();

void additive_scores_gradients(benchmark::State& state) {
  const Inputs in(state.range(0));
  Tensor dk = zeros(in.k.shape());
  for (auto _ : state) {
    benchmark::DoNotOptimize(additive_scores_backward(in.q, in.k, in.v, in.weights, dk));
  }
  set_items(state, in.k);
}
BENCHMARK(additive_scores_gradients)->ArgName("A")->Arg(128)->Arg(512)->UseRealTime();

void weighted_sum(benchmark::State& state) {
  const Inputs in(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(weighted_sum_forward(in.weights, in.memory));
  bench::set_bytes(state, bench::bytes_of(in.memory));
}
BENCHMARK(weighted_sum)->ArgName("D")->Arg(256)->Arg(1024)->UseRealTime();

void weighted_sum_gradients(benchmark::State& state) {
  const Inputs in(state.range(0));
  const Tensor dc = randn({batch, state.range(0)}, DType::f32, 6);
  Tensor dmemory = zeros(in.memory.shape());
  for (auto _ : state) {
    benchmark::DoNotOptimize(weighted_sum_backward_weights(in.weights, in.memory, dc));
    weighted_sum_backward_memory(in.weights, dc, dmemory);
  }
  bench::set_bytes(state, 3 * bench::bytes_of(in.memory));  // read memory, update dmemory
}
BENCHMARK(weighted_sum_gradients)->ArgName("D")->Arg(256)->Arg(1024)->UseRealTime();

void masked_softmax(benchmark::State& state) {
  const Tensor scores = randn({source, batch}), mask = ones({source, batch});
  for (auto _ : state) benchmark::DoNotOptimize(softmax(scores, 0, mask));
  state.SetItemsProcessed(state.iterations() * scores.size());
}
BENCHMARK(masked_softmax)->UseRealTime();

}  // namespace
}  // namespace attune
