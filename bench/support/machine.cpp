#include "support/machine.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

#include <attune/tensor/matmul.hpp>

namespace attune::bench {
namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
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

double probe_gflops() {
  constexpr Index n = 1024;
  const Tensor a = ones({n, n});
  matmul(a, a);
  std::array<double, 5> seconds;
  for (double& s : seconds) {
    const double start = wall_seconds();
    matmul(a, a);
    s = wall_seconds() - start;
  }
  std::ranges::sort(seconds);
  return 2e-9 * n * n * n / seconds[2];
}

long peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

CpuUse::CpuUse() : wall_(wall_seconds()), own_(own_seconds()), all_(busy_seconds()) {}

double CpuUse::own() const { return (own_seconds() - own_) / (wall_seconds() - wall_); }

double CpuUse::others() const {
  const double all = (busy_seconds() - all_) / (wall_seconds() - wall_);
  return std::max(0.0, all - own());
}

}  // namespace attune::bench
