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

void detail::print_to_progress_file(const std::filesystem::path& directory) {
  make_directories(directory);
  if (!std::freopen((directory / "progress.txt").c_str(), "w", stdout))
    fail(directory.string(), "progress.txt cannot be written");
}

std::vector<std::vector<double>> detail::measure_runs(
    const std::vector<std::string>& names, const std::vector<std::filesystem::path>& out,
    Index jobs, int digits, const std::function<std::vector<double>(std::size_t)>& measure) {
  std::vector<std::vector<double>> measures(names.size());
  Countdown countdown(names.size());
  in_processes(
      names.size(), static_cast<int>(jobs),
      [&](std::size_t i) {
        set_threads(1);
        return reading(out[i], [&] { return fmt::format("{}", fmt::join(measure(i), " ")); });
      },
      [&](std::size_t i, const std::string& text) {
        std::string shown;
        char* rest = nullptr;
        for (const char* at = text.c_str(); *at != '\0'; at = rest) {
          measures[i].push_back(std::strtod(at, &rest));
          shown += fmt::format("{:.{}f}  ", measures[i].back(), digits);
        }
        const auto [ended, left] = countdown.next();
        say("{}  {}: {}{}\n", ended, names[i], shown, left);
        std::fflush(stdout);
      });
  return measures;
}

void print_table(const std::string& title, const std::vector<std::string>& columns,
                 const std::vector<std::string>& names,
                 const std::vector<std::vector<Spread>>& rows, int digits, int width) {
  say("\n{:<22}", title);
  for (const std::string& column : columns) say("{:>{}}", column, width);
  say("\n");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    say("{:<22}", names[i]);
    for (const Spread& spread : rows[i]) say("{:>{}}", spread.text(digits), width);
    say("\n");
  }
}

std::pair<std::string, std::string> Countdown::next() {
  const double seconds = seconds_since(begin_);
  ++ended_;
  return {fmt::format("{:>3}/{}", ended_, runs_),
          fmt::format("{} left", duration(seconds / static_cast<double>(ended_) *
                                          static_cast<double>(runs_ - ended_)))};
}

}  // namespace attune
