#include "support/timed.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "support/peak.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for every instruction set.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attune::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Computes `rounds` fused multiply-adds in each of twelve registers. Twelve independent chains
/// hide the latency of the instruction. Returns the number of floating-point operations.
double MultiplyAdds(long rounds, float* sum) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, 0.999f), b = hn::Set(d, 0.001f);
  // Different values, so that the compiler does not merge the chains.
  auto c0 = hn::Set(d, 0.0f), c1 = hn::Set(d, 0.1f), c2 = hn::Set(d, 0.2f);
  auto c3 = hn::Set(d, 0.3f), c4 = hn::Set(d, 0.4f), c5 = hn::Set(d, 0.5f);
  auto c6 = hn::Set(d, 0.6f), c7 = hn::Set(d, 0.7f), c8 = hn::Set(d, 0.8f);
  auto c9 = hn::Set(d, 0.9f), c10 = hn::Set(d, 1.1f), c11 = hn::Set(d, 1.2f);
  for (long i = 0; i < rounds; ++i) {
    c0 = hn::MulAdd(c0, a, b), c1 = hn::MulAdd(c1, a, b), c2 = hn::MulAdd(c2, a, b);
    c3 = hn::MulAdd(c3, a, b), c4 = hn::MulAdd(c4, a, b), c5 = hn::MulAdd(c5, a, b);
    c6 = hn::MulAdd(c6, a, b), c7 = hn::MulAdd(c7, a, b), c8 = hn::MulAdd(c8, a, b);
    c9 = hn::MulAdd(c9, a, b), c10 = hn::MulAdd(c10, a, b), c11 = hn::MulAdd(c11, a, b);
  }
  const auto low = hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)), hn::Add(c4, c5));
  const auto high = hn::Add(hn::Add(hn::Add(c6, c7), hn::Add(c8, c9)), hn::Add(c10, c11));
  *sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(low, high)));
  return 2.0 * 12 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

}  // namespace attune::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <chrono>
#include <numeric>
#include <vector>

#include <attune/tensor/threads.hpp>

namespace attune::bench {

HWY_EXPORT(MultiplyAdds);

double peak_gflops() {
  double best = 0;
  for (int attempt = 0; attempt < 30; ++attempt) {
    std::vector<double> operations(static_cast<std::size_t>(threads()));
    std::vector<float> sums(operations.size());
    const auto start = std::chrono::steady_clock::now();
    parallel_for(threads(), [&](Index i) {
      const auto thread = static_cast<std::size_t>(i);
      operations[thread] = HWY_DYNAMIC_DISPATCH(MultiplyAdds)(10'000'000, &sums[thread]);
    });
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    const double all = std::accumulate(operations.begin(), operations.end(), 0.0);
    best = std::max(best, 1e-9 * all / time.count());
  }
  return best;
}

}  // namespace attune::bench
#endif  // HWY_ONCE
