// Rates that the benchmarks report in addition to time.
#pragma once

#include <benchmark/benchmark.h>

#include <attune/tensor/tensor.hpp>

namespace attune::bench {

inline void set_rate(benchmark::State& state, const char* name, double per_iteration) {
  state.counters[name] =
      benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

/// Floating-point operations of one iteration, as GFLOP/s.
inline void set_flops(benchmark::State& state, double flops) { set_rate(state, "GFLOP/s", flops); }

/// Bytes read and written by one iteration, as GB/s.
inline void set_bytes(benchmark::State& state, double bytes) { set_rate(state, "GB/s", bytes); }

inline double bytes_of(const Tensor& x) {
  return static_cast<double>(x.size()) * static_cast<double>(size_of(x.dtype()));
}

}  // namespace attune::bench
