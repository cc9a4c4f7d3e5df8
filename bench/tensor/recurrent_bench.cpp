// Whole sequences through LSTM and GRU, forward and backward with the weight's gradient.

#include <attune/tensor/matmul.hpp>
#include <attune/tensor/random.hpp>
#include <attune/tensor/recurrent.hpp>

#include "support/counters.hpp"

namespace attune {
namespace {

constexpr Index steps = 20, batch = 64;

Tensor random(const Shape& shape) { return randn(shape); }

/// dw += Σ_t h_{t-1}ᵀ d_t, of the steps that have a predecessor.
void add_state_products(const Tensor& h, const Tensor& d, Tensor& dw) {
  const Index rows = (steps - 1) * batch;
  add_product(h.slice(0, steps - 1).reshape({rows, -1}), d.slice(1, steps).reshape({rows, -1}), dw);
}

/// Multiply-adds of the products with w_h, of which backward has two, each two operations.
double flops(const Tensor& w_h, bool training) {
  return 2.0 * static_cast<double>(steps * batch * w_h.size()) * (training ? 3 : 1);
}

void lstm(benchmark::State& state) {
  const Index hidden = state.range(0);
  const bool training = state.range(1) != 0;
  const RecurrentInput in{.xw = random({steps, batch, 4 * hidden}),
                          .w_h = random({hidden, 4 * hidden}),
                          .cell = Cell::lstm};
  const Tensor dh = random({steps, batch, hidden});
  Tensor dw = zeros(in.w_h.shape());
  for (auto _ : state) {
    const RecurrentStates out = recurrent_forward(in);
    benchmark::DoNotOptimize(out.h);
    if (training) add_state_products(out.h, recurrent_backward(in, out, dh).dhw, dw);
  }
  bench::set_flops(state, flops(in.w_h, training));
}
BENCHMARK(lstm)
    ->ArgNames({"H", "training"})
    ->ArgsProduct({{128, 256, 512}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void gru(benchmark::State& state) {
  const Index hidden = state.range(0);
  const bool training = state.range(1) != 0;
  const RecurrentInput in{.xw = random({steps, batch, 3 * hidden}),
                          .w_h = random({hidden, 3 * hidden}),
                          .cell = state.range(2) == 0 ? Cell::gru : Cell::gru_reset_before};
  const Tensor dh = random({steps, batch, hidden});
  Tensor dw = zeros(in.w_h.shape());
  for (auto _ : state) {
    const RecurrentStates out = recurrent_forward(in);
    benchmark::DoNotOptimize(out.h);
    if (!training) continue;
    add_state_products(out.h, recurrent_backward(in, out, dh).dhw, dw);
  }
  bench::set_flops(state, flops(in.w_h, training));
}
BENCHMARK(gru)
    ->ArgNames({"H", "training", "reset_before"})
    ->ArgsProduct({{128, 256, 512}, {0, 1}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace attune
