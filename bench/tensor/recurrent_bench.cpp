// LSTM and GRU kernels over whole sequences, forward, and backward with the gradient of the weight.

#include <attune/tensor/kernels/recurrent.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/random.hpp>

#include "support/counters.hpp"
#include "support/randn.hpp"

namespace attune {
namespace {

constexpr Index steps = 20, batch = 64;

/// dw += Σ_t h_{t-1}ᵀ d_t, for all steps but the first.
void add_state_products(const Tensor& h, const Tensor& d, Tensor& dw) {
  const Index rows = (steps - 1) * batch;
  add_product(h.slice(0, steps - 1).reshape({rows, -1}), d.slice(1, steps).reshape({rows, -1}), dw);
}

/// Operations of the products with w_h, two for each multiply-add. Backward has two products.
double flops(const Tensor& w_h, bool training) {
  return 2.0 * static_cast<double>(steps * batch * w_h.size()) * (training ? 3 : 1);
}

void recurrent(benchmark::State& state, Index gates, Cell cell) {
  const Index hidden = state.range(0);
  const bool training = state.range(1) != 0;
  const Tensor xw = randn({steps, batch, gates * hidden}), w_h = randn({hidden, gates * hidden});
  const Tensor dh = randn({steps, batch, hidden});
  Tensor dw = zeros(w_h.shape());
  for (auto _ : state) {
    const RecurrentActivations out = recurrent_forward(xw, w_h, {.cell = cell});
    benchmark::DoNotOptimize(out.h);
    if (!training) continue;
    add_state_products(out.h, recurrent_backward(xw, w_h, {.cell = cell}, out, dh).dhw, dw);
  }
  bench::set_flops(state, flops(w_h, training));
}

void with_sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"H", "training"})
      ->ArgsProduct({{128, 256, 512}, {0, 1}})
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(recurrent, lstm, 4, Cell::lstm)->Apply(with_sizes);
BENCHMARK_CAPTURE(recurrent, gru, 3, Cell::gru)->Apply(with_sizes);
BENCHMARK_CAPTURE(recurrent, gru_reset_before, 3, Cell::gru_reset_before)->Apply(with_sizes);

}  // namespace
}  // namespace attune
