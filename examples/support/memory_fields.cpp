#include "support/memory_fields.hpp"

#include <cmath>
#include <fstream>

#include <unistd.h>

#include <attune/tensor/buffer.hpp>

namespace attune {
namespace {

double mib(double bytes) { return std::round(10 * bytes / (1 << 20)) / 10; }

double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

report::LogFields memory_fields() {
  const BufferStatistics tensors = buffer_statistics();
  return {{"rss_mib", mib(resident_bytes())},
          {"in_use_mib", mib(static_cast<double>(tensors.in_use))},
          {"peak_mib", mib(static_cast<double>(tensors.peak))},
          {"cached_mib", mib(static_cast<double>(tensors.cached))}};
}

}  // namespace attune
