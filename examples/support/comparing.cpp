#include "support/comparing.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <attune/tensor/file.hpp>
#include <attune/tensor/threads.hpp>

#include "support/output.hpp"
#include "support/processes.hpp"
#include "support/run_directory.hpp"

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

std::vector<std::vector<double>> measure_runs(
    const std::vector<std::filesystem::path>& out, Index jobs, int digits,
    const std::function<std::vector<double>(std::size_t)>& measure) {
  std::vector<std::vector<double>> measures(out.size());
  const auto begin = std::chrono::steady_clock::now();
  std::size_t ended = 0;
  in_processes(
      out.size(), static_cast<int>(jobs),
      [&](std::size_t i) {
        set_threads(1);
        return reading(out[i], [&] { return fmt::format("{}", fmt::join(measure(i), " ")); });
      },
      [&](std::size_t i, const std::string& numbers) {
        char* rest = nullptr;
        for (const char* at = numbers.c_str(); *at != '\0'; at = rest)
          measures[i].push_back(std::strtod(at, &rest));
        std::string text;
        for (const double value : measures[i]) text += fmt::format("{:.{}f}  ", value, digits);
        ++ended;
        const double left = seconds_since(begin) / static_cast<double>(ended) *
                            static_cast<double>(out.size() - ended);
        say("{:>3}/{}  {:<24}  {}{} left\n", ended, out.size(), out[i].filename().string(), text,
            duration(left));
      });
  return measures;
}

TableRows print_table(const std::string& title, const std::vector<std::string>& columns,
                      const std::vector<std::string>& names,
                      const std::vector<std::vector<Spread>>& rows, int digits) {
  TableRows table{{title}};
  table[0].insert(table[0].end(), columns.begin(), columns.end());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& row = table.emplace_back(std::vector{names[i]});
    for (const Spread& spread : rows[i]) row.push_back(spread.text(digits));
  }
  say("\n");
  print_rows(table);
  return table;
}

}  // namespace attune
