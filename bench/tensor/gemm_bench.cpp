// Matrix products at the shapes of recurrent networks.

#include <optional>

#include <attune/tensor/kernels/blas.hpp>
#include <attune/tensor/kernels/gemm.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/random.hpp>
#include <attune/tensor/threads.hpp>

#include "support/counters.hpp"
#include "support/randn.hpp"

namespace attune {
namespace {

/// The precision; if the CPU does not accelerate it, skips the benchmark and returns f32.
Precision or_skip(benchmark::State& state, Precision precision) {
  if (fastest_precision(precision) == precision) return precision;
  state.SkipWithError("this CPU does not accelerate this precision");
  return Precision::f32;
}

void step_sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"M", "K", "N", "transposed"})
      ->ArgsProduct({{64}, {128, 256, 512, 1024}, {512, 1024, 2048, 4096}, {0, 1}})
      ->ArgsProduct({{64}, {64, 192}, {64}, {0, 1}})
      ->ArgsProduct({{1280}, {256}, {1536, 10000}, {0, 1}})
      ->UseRealTime();
}

/// One step of 64 sentences: product with W (K, N), or with Wᵀ as in backward. W is constant, so it
/// is packed once.
void step_product(benchmark::State& state, Precision precision) {
  const InPrecision in(or_skip(state, precision));
  const Index m = state.range(0), k = state.range(1), n = state.range(2);
  const Transpose transpose{.b = state.range(3) != 0};
  const Tensor a = randn({m, k}), b = randn(transpose.b ? Shape{n, k} : Shape{k, n});
  for (auto _ : state) benchmark::DoNotOptimize(matmul(a, b, transpose));
  bench::set_flops(state, 2.0 * static_cast<double>(m * k * n));
}
BENCHMARK_CAPTURE(step_product, f32, Precision::f32)->Apply(step_sizes);
BENCHMARK_CAPTURE(step_product, bf16, Precision::bf16)->Apply(step_sizes);

void whole_product_sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"M", "K", "N", "transposed"})
      ->Args({1024, 1280, 1536, 1})  // gradients of weights
      ->Args({512, 1280, 2048, 1})
      ->Args({512, 256, 10000, 1})
      ->Args({2000, 2400, 3000, 1})
      ->Args({1280, 256, 1536, 0})  // inputs of the gates, logits, gradient of the logits' input
      ->Args({2400, 512, 3000, 0})
      ->Args({256, 512, 10000, 0})
      ->Args({256, 10000, 512, 0})
      ->Args({1024, 1024, 1024, 0})
      ->UseRealTime();
}

/// Product of unpacked matrices, by attune's kernels or by OpenBLAS.
template <bool by_blas>
void whole_product(benchmark::State& state) {
  std::optional<detail::Blas> blas;
  try {
    if (by_blas) blas.emplace("openblas");
  } catch (const Error& error) {
    return state.SkipWithError(error.what());
  }
  const Index m = state.range(0), k = state.range(1), n = state.range(2);
  const bool transposed = state.range(3) != 0;
  const Tensor a = randn(transposed ? Shape{k, m} : Shape{m, k}), b = randn({k, n});
  Tensor c = zeros({m, n});
  const MatrixView<const float> from_a{a.data<float>(), m, k, transposed ? m : k, transposed};
  const MatrixView<const float> from_b{b.data<float>(), k, n, n};
  const MatrixView<float> to{c.mutable_data<float>(), m, n, n};
  for (auto _ : state) {
    by_blas ? blas->gemm(from_a, from_b, to, Into::add) : gemm(from_a, from_b, to, Into::add);
    benchmark::ClobberMemory();
  }
  bench::set_flops(state, 2.0 * static_cast<double>(m * k * n));
}
BENCHMARK(whole_product<false>)->Apply(whole_product_sizes);
BENCHMARK(whole_product<true>)->Apply(whole_product_sizes);

void packed_product_sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"K", "N"})
      ->Args({128, 512})
      ->Args({512, 2048})
      ->Args({1024, 3072})
      ->UseRealTime();
}

/// A tile of a recurrence: 32 sentences, with a packed weight.
void packed_product(benchmark::State& state, Precision precision) {
  const InPrecision in(or_skip(state, precision));
  const Index m = 32, k = state.range(0), n = state.range(1);
  const Tensor a = randn({m, k}), b = randn({k, n});
  Tensor c = zeros({m, n});
  const MatrixView<const float> from{a.data<float>(), m, k, k};
  const MatrixView<float> to{c.mutable_data<float>(), m, n, n};
  const PackedMatrix<float> packed({b.data<float>(), k, n, n});
  for (auto _ : state) {
    gemm<float>(from, packed, to);
    benchmark::ClobberMemory();
  }
  bench::set_flops(state, 2.0 * static_cast<double>(m * k * n));
}
BENCHMARK_CAPTURE(packed_product, f32, Precision::f32)->Apply(packed_product_sizes);
BENCHMARK_CAPTURE(packed_product, bf16, Precision::bf16)->Apply(packed_product_sizes);

/// One sentence: product of a row vector and a matrix, limited by reading the weight.
void row_product(benchmark::State& state) {
  const Index k = state.range(0), n = state.range(1);
  const Transpose transpose{.b = state.range(2) != 0};
  const Tensor a = randn({1, k}), b = randn(transpose.b ? Shape{n, k} : Shape{k, n});
  for (auto _ : state) benchmark::DoNotOptimize(matmul(a, b, transpose));
  bench::set_flops(state, 2.0 * static_cast<double>(k * n));
  bench::set_bytes(state, bench::bytes_of(b));
}
BENCHMARK(row_product)
    ->ArgNames({"K", "N", "transposed"})
    ->ArgsProduct({{512}, {512, 2048}, {0, 1}})
    ->UseRealTime();

void weight_gradient_sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "K", "N"})
      ->ArgsProduct({{64, 1280}, {256, 512}, {1024, 2048}})
      ->UseRealTime();
}

/// dW += xᵀ·dy over the rows of one step (64) or of all steps (1280).
void weight_gradient(benchmark::State& state, Precision precision) {
  const InPrecision in(or_skip(state, precision));
  const Index rows = state.range(0), k = state.range(1), n = state.range(2);
  const Tensor x = randn({rows, k}), dy = randn({rows, n});
  Tensor dw = zeros({k, n});
  for (auto _ : state) {
    add_product(x, dy, dw);
    benchmark::ClobberMemory();
  }
  bench::set_flops(state, 2.0 * static_cast<double>(rows * k * n));
}
BENCHMARK_CAPTURE(weight_gradient, f32, Precision::f32)->Apply(weight_gradient_sizes);
BENCHMARK_CAPTURE(weight_gradient, bf16, Precision::bf16)->Apply(weight_gradient_sizes);

}  // namespace
}  // namespace attune
