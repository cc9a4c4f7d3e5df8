#include "support/timed.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <attune/tensor/matmul.hpp>

namespace attune::bench {
namespace {

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double own_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Of all CPUs, from the first line of /proc/stat: user nice system idle iowait irq softirq steal.
double busy_seconds() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  stat >> cpu;
  double ticks = 0, value = 0;
  for (int field = 0; field < 8 && stat >> value; ++field) {
    if (field != 3 && field != 4) ticks += value;
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

double rounded(double x, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(x * scale) / scale;
}

Times timed(int steps, int warmup, const std::function<void(int)>& f) {
  for (int i = 0; i < warmup; ++i) f(i);
  Times times;
  const double own = own_seconds(), busy = busy_seconds();
  const double wall = seconds_of([&] {
    for (int i = 0; i < steps; ++i) times.seconds.push_back(seconds_of([&] { f(i); }));
  });
  times.cpus_used = (own_seconds() - own) / wall;
  times.cpus_others = std::max(0.0, (busy_seconds() - busy) / wall - times.cpus_used);
  std::ranges::sort(times.seconds);
  return times;
}

double probe_gflops() {
  constexpr Index n = 1024;
  const Tensor a = ones({n, n});
  matmul(a, a);
  std::array<double, 5> seconds;
  for (double& s : seconds) s = seconds_of([&] { matmul(a, a); });
  std::ranges::sort(seconds);
  return 2e-9 * n * n * n / seconds[2];
}

void print(Json line, const Times& times) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  line.update({{"ms_median", rounded(1e3 * times.median(), 3)},
               {"ms_min", rounded(1e3 * times.seconds.front(), 3)},
               {"steps", times.seconds.size()},
               {"probe_gflops", rounded(probe_gflops(), 1)},
               {"cpus_used", rounded(times.cpus_used, 2)},
               {"cpus_others", rounded(times.cpus_others, 2)},
               {"peak_rss_mib", usage.ru_maxrss / 1024}});
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

}  // namespace attune::bench
