#include "support/timed.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "support/machine.hpp"

namespace attune::bench {

double rounded(double x, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(x * scale) / scale;
}

Times timed(int steps, int warmup, const std::function<void(int)>& f) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < warmup; ++i) f(i);
  Times times;
  const CpuUse use;
  for (int i = 0; i < steps; ++i) {
    const auto start = Clock::now();
    f(i);
    times.seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  times.cpus_used = use.own();
  times.cpus_others = use.others();
  std::ranges::sort(times.seconds);
  return times;
}

void print(Json line, const Times& times) {
  line.update({{"ms_median", rounded(1e3 * times.median(), 3)},
               {"ms_min", rounded(1e3 * times.seconds.front(), 3)},
               {"steps", times.seconds.size()},
               {"probe_gflops", rounded(probe_gflops(), 1)},
               {"cpus_used", rounded(times.cpus_used, 2)},
               {"cpus_others", rounded(times.cpus_others, 2)},
               {"peak_rss_mib", peak_rss_mib()}});
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

}  // namespace attune::bench
