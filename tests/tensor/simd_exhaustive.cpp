// Proves the accuracy of the float functions on every one of the 2^32 inputs, under every
// instruction set this CPU has. Prints the largest error of each, in ulp of the exact value, and
// fails if one is over 2. Takes a few minutes, so it is not a part of the unit tests.

#include <algorithm>
#include <array>
#include <barrier>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <limits>
#include <thread>
#include <vector>

#include <hwy/targets.h>

#include <attune/tensor/simd/dispatch.hpp>
#include <attune/tensor/simd/kernels.hpp>

namespace {

constexpr double kLimit = 2;
constexpr std::size_t kBlock = std::size_t{1} << 14;
constexpr std::size_t kThreads = 2;

struct Function {
  const char* name;
  void (*computed)(const float*, float*, attune::Index);
  double (*exact)(double);
};

constexpr Function kFunctions[] = {
    {"exp", attune::simd::exp<float>, [](double x) { return std::exp(x); }},
    {"tanh", attune::simd::tanh<float>, [](double x) { return std::tanh(x); }},
    // Accurate on both sides of 0, and far from under- or overflow for every float.
    {"sigmoid", attune::simd::sigmoid<float>,
     [](double x) {
       const double e = std::exp(-std::abs(x));
       return (x > 0 ? 1 : e) / (1 + e);
     }},
};

struct Worst {
  double ulp = 0;
  float x = 0;
};

// Infinity counts as the number after the largest finite one.
constexpr double kInfinity = 0x1p128;

struct Exact {
  double value;
  double ulps;  // 1 / (the float spacing at value)
};

Exact ToExact(double value) {
  value = std::min(value, kInfinity);
  // Exponents, biased as in a double.
  const auto biased = std::bit_cast<std::uint64_t>(value) >> 52 & 0x7ff;
  const auto exponent = std::clamp<std::uint64_t>(biased, 1023 - 126, 1023 + 127);
  return {value, std::bit_cast<double>((2 * 1023 + 23 - exponent) << 52)};
}

// |computed - exact| in units of the float spacing at exact, NaN if either is NaN.
double UlpError(float computed, const Exact& exact) {
  return std::abs(std::min(double{computed}, kInfinity) - exact.value) * exact.ulps;
}

void UseTarget(std::int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

int main() {
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  using Result = std::vector<std::array<Worst, std::size(kFunctions)>>;
  std::vector<Result> results(kThreads, Result(targets.size()));

  // The instruction set is a global choice: the threads go from one to the next together.
  std::size_t next = 0;
  std::barrier next_target(kThreads, [&]() noexcept {
    UseTarget(targets[next]);
    next = (next + 1) % targets.size();
  });
  const auto work = [&](std::size_t thread) {
    std::vector<float> x(kBlock), computed(kBlock);
    std::vector<Exact> exact[std::size(kFunctions)];
    for (auto& e : exact) e.resize(kBlock);
    for (std::uint64_t first = thread * kBlock; first >> 32 == 0; first += kThreads * kBlock) {
      for (std::size_t i = 0; i < kBlock; ++i) {
        x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first + i));
        for (std::size_t f = 0; f < std::size(kFunctions); ++f) {
          exact[f][i] = ToExact(kFunctions[f].exact(double{x[i]}));
        }
      }
      for (auto& result : results[thread]) {
        next_target.arrive_and_wait();
        for (std::size_t f = 0; f < std::size(kFunctions); ++f) {
          kFunctions[f].computed(x.data(), computed.data(), kBlock);
          for (std::size_t i = 0; i < kBlock; ++i) {
            const double ulp = UlpError(computed[i], exact[f][i]);
            if (ulp <= result[f].ulp) continue;
            if (std::isnan(computed[i]) && std::isnan(exact[f][i].value)) continue;
            result[f] = {std::isnan(ulp) ? std::numeric_limits<double>::infinity() : ulp, x[i]};
          }
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) threads.emplace_back(work, thread);
  for (std::thread& thread : threads) thread.join();

  bool failed = false;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    UseTarget(targets[t]);
    for (std::size_t f = 0; f < std::size(kFunctions); ++f) {
      Worst worst;
      for (const Result& result : results) {
        if (result[t][f].ulp > worst.ulp) worst = result[t][f];
      }
      std::printf("%-8s %-8s %.4f ulp at %a\n", attune::simd::target(), kFunctions[f].name,
                  worst.ulp, double{worst.x});
      failed |= worst.ulp > kLimit;
    }
  }
  return failed ? 1 : 0;
}
