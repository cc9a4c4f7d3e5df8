// Trainings of several variants with several seeds, in one table.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/tensor/check.hpp>

#include "support/output.hpp"

namespace attune {

/// A measure over seeds.
struct Spread {
  std::vector<double> values;
  /// "0.352 ± 0.004": the mean and, of several, the standard deviation.
  std::string text(int digits = 3) const;
};

/// The names of variants, in their order.
template <class Variant>
std::vector<std::string> names_of(const std::vector<Variant>& variants) {
  std::vector<std::string> names;
  for (const Variant& one : variants) names.push_back(one.name);
  return names;
}

/// Throws where there is none of that name.
template <class Variant>
const Variant& variant_named(const std::vector<Variant>& variants, const std::string& name) {
  const auto at = std::ranges::find(variants, name, &Variant::name);
  if (at != variants.end()) return *at;
  fail("--variants",
       fmt::format("'{}' is not one of {}", name, fmt::join(names_of(variants), ", ")));
}

/// Throws where one is given twice: two runs may not have one directory.
template <class T>
void check_each_once(const char* option, std::vector<T> values) {
  std::ranges::sort(values);
  const auto twice = std::ranges::adjacent_find(values);
  if (twice != values.end()) fail(option, fmt::format("{} is given twice", *twice));
}

/// Sends what this process prints to progress.txt in that directory, which is made.
void print_to_progress_file(const std::filesystem::path& directory);

/// Trains, or goes on with a run that is not finished; its progress goes to a file beside the
/// weights. Throws when the directory has a run with another number of steps, unless `resume` asks
/// for more of them, as of a run alone.
template <class Options>
void train_or_go_on(Options options, const auto& train,
                    Options (*stored_options)(const std::filesystem::path&)) {
  const std::filesystem::path last = options.out / "last.safetensors";
  const bool may_be_longer = options.resume;
  options.resume = std::filesystem::exists(last);
  const Index steps = options.resume ? stored_options(last).steps : options.steps;
  const bool longer = steps > 0 && steps < options.steps;  // 0 is what the data ask for
  if (steps != options.steps && !(longer && may_be_longer)) {
    fail("--out",
         fmt::format("{} was trained for {} steps, not {}", last.string(), steps, options.steps));
  }
  print_to_progress_file(options.out);
  const int status = train(options);
  flush_output();  // the process ends without
  if (status != 0) fail("train", fmt::format("it ended with status {}", status));
}

/// Trains and measures some runs, so many at once, each in a process of its own and on one thread:
/// `measure(i)` returns the measures of one, whose files are below `out(i)`. `done(i, measures,
/// ended, left)` is called as they end, and prints; see Countdown.
void measure_runs(
    std::size_t runs, int jobs, const std::function<std::filesystem::path(std::size_t)>& out,
    const std::function<std::vector<double>(std::size_t)>& measure,
    const std::function<void(std::size_t, const std::vector<double>& measures,
                             const std::string& ended, const std::string& left)>& done);

/// How many of some runs have ended, and how long the others will take.
class Countdown {
 public:
  explicit Countdown(std::size_t runs) : runs_(runs) {}
  /// Of one more: " 3/12" and "4 min left".
  std::pair<std::string, std::string> next();

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::size_t runs_, ended_ = 0;
};

}  // namespace attune
