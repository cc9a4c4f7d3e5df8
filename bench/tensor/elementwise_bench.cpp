// Elementwise functions, broadcasting and sums, which are limited by memory or vector units.

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/index.hpp>
#include <attune/tensor/random.hpp>
#include <attune/tensor/reduce.hpp>

#include "support/counters.hpp"
#include "support/randn.hpp"

namespace attune {
namespace {

/// The gates of one step (64, 2048) and of a whole sequence (1280, 2048).
const std::vector<std::int64_t> row_counts{64, 1280};
constexpr Index columns = 2048;

void with_rows(benchmark::internal::Benchmark* b) {
  b->ArgName("rows")->ArgsProduct({row_counts})->UseRealTime();
}

Tensor gates(benchmark::State& state) { return randn({state.range(0), columns}); }

void add(benchmark::State& state) {
  const Tensor a = gates(state), b = a.clone();
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
  bench::set_bytes(state, 3 * bench::bytes_of(a));
}
BENCHMARK(add)->Apply(with_rows);

void add_bias(benchmark::State& state) {
  const Tensor a = gates(state), b = randn({columns}, DType::f32, 2);
  for (auto _ : state) benchmark::DoNotOptimize(a + b);
  bench::set_bytes(state, 2 * bench::bytes_of(a));
}
BENCHMARK(add_bias)->Apply(with_rows);

void multiply_column(benchmark::State& state) {
  const Tensor a = gates(state), b = randn({state.range(0), 1}, DType::f32, 2);
  for (auto _ : state) benchmark::DoNotOptimize(a * b);
  bench::set_bytes(state, 2 * bench::bytes_of(a));
}
BENCHMARK(multiply_column)->Apply(with_rows);

template <Tensor (*f)(const Tensor&)>
void unary(benchmark::State& state) {
  const Tensor x = gates(state);
  for (auto _ : state) benchmark::DoNotOptimize(f(x));
  state.SetItemsProcessed(state.iterations() * x.size());
  bench::set_bytes(state, 2 * bench::bytes_of(x));
}
BENCHMARK(unary<tanh>)->Name("tanh")->Apply(with_rows);
BENCHMARK(unary<sigmoid>)->Name("sigmoid")->Apply(with_rows);
BENCHMARK(unary<softplus>)->Name("softplus")->Apply(with_rows);

/// Axis 0 computes the gradient of a bias.
void sum_axis(benchmark::State& state) {
  const Tensor x = gates(state);
  const int axis = static_cast<int>(state.range(1));
  for (auto _ : state) benchmark::DoNotOptimize(sum(x, {axis}));
  bench::set_bytes(state, bench::bytes_of(x));
}
BENCHMARK(sum_axis)->ArgNames({"rows", "axis"})->ArgsProduct({row_counts, {0, 1}})->UseRealTime();

/// Lookup in an embedding of 10,000 words by 256, and its gradient.
void embedding(benchmark::State& state) {
  const Tensor table = randn({10'000, 256});
  Tensor ids = zeros({1280}, DType::i32);
  for (Index i = 0; i < ids.size(); ++i) {
    ids.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7919 % 10'000);
  }
  Tensor dtable = zeros(table.shape());
  for (auto _ : state) {
    const Tensor rows = gather(table, ids);
    scatter_add_in_place(dtable, ids, rows);
  }
  bench::set_bytes(state, 5.0 * 1280 * 256 * 4);  // gather: read, write; scatter: 2 reads, write
}
BENCHMARK(embedding)->UseRealTime();

}  // namespace
}  // namespace attune
