// Trainings of several variants with several seeds, in one table.
#pragma once

#include <thread>

#include "support/commands.hpp"
#include "support/output.hpp"
#include "support/training_options.hpp"

namespace attune {

/// What a comparison of variants with several seeds has, beside the options of each run.
struct Comparison {
  std::vector<std::string> variants;
  Index seeds = 3;
  Index jobs = std::max(1u, std::thread::hardware_concurrency());
  std::uint64_t first = 1;  // of the seeds
};

/// Its options on a command line; the runs' directories are in `train.out`.
template <class Arguments>
Fields<Arguments> comparison_fields(const std::vector<std::string>& variants) {
  using models::number_field, models::text_field;
  return {text_field<Arguments>(
              "out", "directory, with one in it for each run",
              [](Arguments & o) -> auto& { return o.train.out; }),
          list_field<Arguments, std::string>(
              "variants",
              fmt::format("with commas between them (default: all): {}", fmt::join(variants, ", ")),
              &Arguments::variants),
          number_field<Arguments>("seeds", "seeds from 1 on", &Arguments::seeds, 1, 1000),
          number_field<Arguments>("jobs", "runs at once, each on one thread", &Arguments::jobs, 1,
                                  1024)};
}

/// Changes of options by name, under which they stand in a table of results.
struct Variant {
  std::string name;
  std::vector<std::pair<std::string, std::string>> changes = {};
};

template <class Options>
Options changed(const Fields<Options>& fields, Options options, const Variant& variant) {
  for (const auto& [name, value] : variant.changes)
    models::set_field(std::span<const models::OptionField<Options>>(fields), options, name, value);
  return options;
}

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
       fmt::format("{} is not one of {}", in_quotes(name), fmt::join(names_of(variants), ", ")));
}

/// Throws where one is given twice: two runs may not have one directory.
template <class T>
void check_each_once(const char* option, std::vector<T> values) {
  std::ranges::sort(values);
  const auto twice = std::ranges::adjacent_find(values);
  if (twice != values.end()) fail(option, fmt::format("{} is given twice", *twice));
}

/// Measures the runs of some directories, so many at once, each in a process of its own and on one
/// thread. Prints a line with the measures as each ends.
std::vector<std::vector<double>> measure_runs(
    const std::vector<std::filesystem::path>& out, Index jobs, int digits,
    const std::function<std::vector<double>(std::size_t)>& measure);
/// What this process prints goes to progress.txt in that directory, which is made.
void print_to_progress_file(const std::filesystem::path& directory);

/// Trains, or continues a run that is not finished; its progress goes to a file beside the weights.
/// Throws when the directory has a run with another number of steps, unless `resume` asks for more
/// of them, as of a run alone.
template <class Options>
void train_or_go_on(Options options, const auto& train,
                    Options (*stored_options)(const std::filesystem::path&)) {
  const bool may_be_longer = options.resume;
  options.resume = std::filesystem::exists(options.last());
  const Index steps = options.resume ? stored_options(options.last()).steps : options.steps;
  const bool longer = steps > 0 && steps < options.steps;  // 0 is what the data ask for
  if (steps != options.steps && !(longer && may_be_longer)) {
    fail("--out", fmt::format("{} was trained for {} steps, not {}", options.last().string(), steps,
                              options.steps));
  }
  print_to_progress_file(options.out);
  const int status = train(options);
  flush_output();  // the process ends without
  if (status != 0) fail("train", fmt::format("it ended with status {}", status));
}

/// The directory of a run with a seed.
inline std::filesystem::path run_path(const std::filesystem::path& out, const std::string& name,
                                      std::uint64_t seed) {
  return out / fmt::format("{}-{}", name, seed);
}

/// Trains every run, a name and its options, with each seed, as far as that is not done yet, in its
/// run_path, and measures it. Returns the spread of each measure of each run.
template <class Options>
std::vector<std::vector<Spread>> compare_runs(
    const std::vector<std::pair<std::string, Options>>& runs, const Comparison& comparison,
    int digits, const auto& train, Options (*stored_options)(const std::filesystem::path&),
    const std::function<std::vector<double>(const Options&)>& measure) {
  std::vector<Options> all;
  std::vector<std::filesystem::path> out;
  for (const auto& [name, options] : runs) {
    for (Index i = 0; i < comparison.seeds; ++i) {
      Options& one = all.emplace_back(options);
      one.seed = comparison.first + static_cast<std::uint64_t>(i);
      out.push_back(one.out = run_path(one.out, name, one.seed));
    }
  }
  const auto measures = measure_runs(out, comparison.jobs, digits, [&](std::size_t i) {
    train_or_go_on(all[i], train, stored_options);
    return measure(all[i]);
  });
  std::vector<std::vector<Spread>> spreads(runs.size());
  for (std::size_t i = 0; i < measures.size(); ++i) {
    auto& row = spreads[i / static_cast<std::size_t>(comparison.seeds)];
    row.resize(measures[i].size());
    for (std::size_t m = 0; m < row.size(); ++m) row[m].values.push_back(measures[i][m]);
  }
  return spreads;
}

/// Prints a table whose rows have these names, and returns it.
TableRows print_table(const std::string& title, const std::vector<std::string>& columns,
                      const std::vector<std::string>& names,
                      const std::vector<std::vector<Spread>>& rows, int digits);

}  // namespace attune
