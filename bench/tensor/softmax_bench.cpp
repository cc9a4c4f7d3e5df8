// Softmax and cross-entropy over a vocabulary.

#include <attune/tensor/kernels/normalize.hpp>
#include <attune/tensor/random.hpp>

#include "support/counters.hpp"
#include "support/randn.hpp"

namespace attune {
namespace {

constexpr Index rows = 1280, vocabulary = 10'000;

struct Inputs {
  Tensor logits = randn({rows, vocabulary});
  Tensor targets = zeros({rows}, DType::i32);
  Tensor mask = ones({rows});
};

void set_rates(benchmark::State& state, const Tensor& logits, double passes) {
  bench::set_bytes(state, passes * bench::bytes_of(logits));
  state.SetItemsProcessed(state.iterations() * logits.size());
}

void cross_entropy(benchmark::State& state) {
  const Inputs in;
  for (auto _ : state) {
    benchmark::DoNotOptimize(cross_entropy_forward(in.logits, in.targets, in.mask));
  }
  set_rates(state, in.logits, 1);
}
BENCHMARK(cross_entropy)->UseRealTime()->Unit(benchmark::kMillisecond);

void cross_entropy_gradient(benchmark::State& state) {
  const Inputs in;
  const CrossEntropy forward = cross_entropy_forward(in.logits, in.targets, in.mask);
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        cross_entropy_backward(in.logits, in.targets, in.mask, forward.norms, 1e-3));
  }
  set_rates(state, in.logits, 2);
}
BENCHMARK(cross_entropy_gradient)->UseRealTime()->Unit(benchmark::kMillisecond);

void softmax_rows(benchmark::State& state) {
  const Inputs in;
  for (auto _ : state) benchmark::DoNotOptimize(softmax(in.logits, -1));
  set_rates(state, in.logits, 2);
}
BENCHMARK(softmax_rows)->UseRealTime()->Unit(benchmark::kMillisecond);

void log_softmax_row(benchmark::State& state) {
  const Tensor logits = randn({1, vocabulary});
  for (auto _ : state) benchmark::DoNotOptimize(log_softmax(logits, -1));
  set_rates(state, logits, 2);
}
BENCHMARK(log_softmax_row)->UseRealTime();

}  // namespace
}  // namespace attune
