// Speed of the vector functions, per element, in the L1 cache and beyond it.

#include <random>
#include <vector>

#include <benchmark/benchmark.h>

#include <attune/tensor/kernels/simd/dispatch.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>

namespace attune::simd {
namespace {

template <typename T, void (*function)(const T*, T*, Index)>
void Run(benchmark::State& state) {
  std::vector<T> x(state.range(0)), y(x.size());
  std::mt19937 random(1);
  std::normal_distribution<T> gate(0, 3);
  for (T& v : x) v = gate(random);
  for (auto _ : state) {
    function(x.data(), y.data(), std::ssize(x));
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetLabel(target());
}

BENCHMARK(Run<float, exp<float>>)->Name("exp/float")->Arg(1024)->Arg(1 << 20);
BENCHMARK(Run<float, tanh<float>>)->Name("tanh/float")->Arg(1024)->Arg(1 << 20);
BENCHMARK(Run<float, sigmoid<float>>)->Name("sigmoid/float")->Arg(1024)->Arg(1 << 20);
BENCHMARK(Run<double, exp<double>>)->Name("exp/double")->Arg(1024)->Arg(1 << 20);
BENCHMARK(Run<double, tanh<double>>)->Name("tanh/double")->Arg(1024)->Arg(1 << 20);
BENCHMARK(Run<double, sigmoid<double>>)->Name("sigmoid/double")->Arg(1024)->Arg(1 << 20);

}  // namespace
}  // namespace attune::simd
