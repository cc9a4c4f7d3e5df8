#include "support/comparing.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <attune/tensor/file.hpp>
#include <attune/tensor/threads.hpp>

#include "support/checkpoint.hpp"
#include "support/processes.hpp"
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

void measure_runs(
    std::size_t runs, int jobs, const std::function<std::filesystem::path(std::size_t)>& out,
    const std::function<std::vector<double>(std::size_t)>& measure,
    const std::function<void(std::size_t, const std::vector<double>& measures,
                             const std::string& ended, const std::string& left)>& done) {
  Countdown countdown(runs);
  in_processes(
      runs, jobs,
      [&](std::size_t i) {
        set_threads(1);
        return reading(out(i), [&] { return fmt::format("{}", fmt::join(measure(i), " ")); });
      },
      [&](std::size_t i, const std::string& text) {
        std::vector<double> measures;
        char* rest = nullptr;
        for (const char* at = text.c_str(); *at != '\0'; at = rest)
          measures.push_back(std::strtod(at, &rest));
        const auto [ended, left] = countdown.next();
        done(i, measures, ended, left);
        std::fflush(stdout);
      });
}

std::pair<std::string, std::string> Countdown::next() {
  const double seconds = seconds_since(begin_);
  ++ended_;
  return {fmt::format("{:>3}/{}", ended_, runs_),
          fmt::format("{} left", duration(seconds / static_cast<double>(ended_) *
                                          static_cast<double>(runs_ - ended_)))};
}

}  // namespace attune
