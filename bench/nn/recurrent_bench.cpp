// Recurrent layers over whole sequences; backward is with respect to weights, input, initial state.

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/recurrent.hpp>

#include "support/counters.hpp"
#include "support/randn.hpp"

namespace attune {
namespace {

constexpr Index steps = 20, batch = 64;

void recurrent(benchmark::State& state, nn::Cell cell) {
  const Index hidden = state.range(0);
  nn::Parameters params(/*seed=*/1);
  const nn::Recurrent layer(params, hidden, hidden, {.cell = cell});
  const Var x = variable(randn({steps, batch, hidden}, DType::f32, 2));
  nn::RunOptions<> options{.initial = {.h = variable(randn({batch, hidden}, DType::f32, 3))}};
  if (cell == nn::Cell::lstm) options.initial.c = variable(randn({batch, hidden}, DType::f32, 4));
  const Tensor dh = randn({steps, batch, hidden}, DType::f32, 5);
  for (auto _ : state) benchmark::DoNotOptimize(backward(layer(x, options).h, dh));
  // Two products with matrices (H, gates · H); backward has two products for each of them.
  bench::set_flops(state, 12.0 * steps * batch * hidden * hidden * layer.gates());
}

void with_sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"H"})->ArgsProduct({{128, 256, 512}})->UseRealTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(recurrent, lstm, nn::Cell::lstm)->Apply(with_sizes);
BENCHMARK_CAPTURE(recurrent, gru, nn::Cell::gru)->Apply(with_sizes);
BENCHMARK_CAPTURE(recurrent, gru_reset_before, nn::Cell::gru_reset_before)->Apply(with_sizes);

}  // namespace
}  // namespace attune
