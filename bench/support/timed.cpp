#include "support/timed.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>
#include <sys/resource.h>

namespace attune::bench {
namespace {

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double rounded(double x, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(x * scale) / scale;
}

Times timed(int steps, int warmup, const std::function<void(int)>& f) {
  for (int i = 0; i < warmup; ++i) f(i);
  Times times;
  for (int i = 0; i < steps; ++i) times.seconds.push_back(seconds_of([&] { f(i); }));
  std::ranges::sort(times.seconds);
  return times;
}

void print(Json line, const Times& times) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  line.update({{"ms_median", rounded(1e3 * times.median(), 3)},
               {"ms_min", rounded(1e3 * times.seconds.front(), 3)},
               {"steps", times.seconds.size()},
               {"peak_rss_mib", usage.ru_maxrss / 1024}});
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

}  // namespace attune::bench
