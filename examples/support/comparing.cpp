#include "support/comparing.hpp"

#include <cmath>
#include <cstdio>

#include <attune/tensor/file.hpp>

#include "support/progress.hpp"

namespace attune {

std::string Spread::text(int digits) const {
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  if (values.size() < 2) return fmt::format("{:.{}f}", mean, digits);
  return fmt::format("{:.{}f} ± {:.{}f}", mean, digits,
                     std::sqrt(squares / static_cast<double>(values.size() - 1)), digits);
}

void print_to_progress_file(const std::filesystem::path& directory) {
  make_directories(directory);
  if (!std::freopen((directory / "progress.txt").c_str(), "w", stdout))
    fail(directory.string(), "progress.txt cannot be written");
}

std::pair<std::string, std::string> Countdown::next() {
  const double seconds = seconds_since(begin_);
  ++ended_;
  return {fmt::format("{:>3}/{}", ended_, runs_),
          fmt::format("{} left", duration(seconds / static_cast<double>(ended_) *
                                          static_cast<double>(runs_ - ended_)))};
}

}  // namespace attune
