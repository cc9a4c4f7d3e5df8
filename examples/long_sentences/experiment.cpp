#include "experiment.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/threads.hpp>

#include "report.hpp"
#include "support/directory_lock.hpp"
#include "support/processes.hpp"
#include "support/progress.hpp"

namespace attune::long_sentences {
namespace {

bool same_run(const Record& a, const Record& b) {
  return a.setting == b.setting && a.variant == b.variant && a.seed == b.seed;
}

/// All runs, without results: first all with seed 1, then all with seed 2, ..., so that there is
/// soon a table of all variants.
std::vector<Record> wanted(const Options& options) {
  std::vector<Record> runs;
  for (int seed = 1; seed <= options.seeds; ++seed) {
    for (const std::string& variant : options.variants) {
      for (const std::string& setting : options.settings) {
        runs.push_back({setting, variant, static_cast<std::uint64_t>(seed), {}});
      }
    }
  }
  return runs;
}

/// Takes what is known of the runs into `done`, and returns the others.
std::vector<Record> left_of(const std::vector<Record>& runs, const std::vector<Record>& known,
                            std::vector<Record>& done) {
  std::vector<Record> left;
  for (const Record& run : runs) {
    const auto at = std::ranges::find_if(known, [&](auto& other) { return same_run(run, other); });
    at == known.end() ? left.push_back(run) : done.push_back(*at);
  }
  return left;
}

const Setting& setting(const std::string& name) {
  return *std::ranges::find(settings, name, &Setting::name);
}

/// A result on its way between two processes of this program.
std::string bytes_of(const Result& result) {
  return {reinterpret_cast<const char*>(&result), sizeof result};
}
Result result_from(const std::string& bytes) {
  Result result;
  if (bytes.size() != sizeof result) fail("run", "its process ended without a result");
  std::memcpy(&result, bytes.data(), sizeof result);
  return result;
}

std::string status(const Record& run) {
  const auto& accuracy = run.result.accuracy;
  return fmt::format("{} {:16} seed {}  at {}: {:5.1f} %  at {}: {:5.1f} %  {:4.0f} s", run.setting,
                     run.variant, run.seed, lengths.front(), 100 * accuracy.front(), lengths.back(),
                     100 * accuracy.back(), run.result.seconds);
}

void make_runs(const Options& options, std::vector<Record>& left, std::vector<Record>& done,
               report::LogWriter& log) {
  Progress progress(static_cast<long>(done.size()), static_cast<long>(done.size() + left.size()),
                    "run");
  const auto work = [&](std::size_t i) {
    const Record& one = left[i];
    set_threads(options.threads);
    try {
      return bytes_of(run(setting(one.setting), variant(one.variant), one.seed, options.budget));
    } catch (const Error& error) {
      throw Error(
          fmt::format("{} {} seed {}: {}", one.setting, one.variant, one.seed, error.what()));
    }
  };
  in_processes(left.size(), options.jobs, work, [&](std::size_t i, const std::string& bytes) {
    left[i].result = result_from(bytes);
    log.write(fields_of(left[i], options.budget));
    done.push_back(left[i]);
    progress.show(static_cast<long>(done.size()), status(left[i]), true);
  });
}

}  // namespace

void experiment(const Options& options) {
  make_directories(options.out);
  const DirectoryLock lock(options.out);
  const std::filesystem::path file = options.out / "results.jsonl";
  report::LogWriter log(file.string(), /*append=*/true);
  std::vector<Record> done;
  std::vector<Record> left = left_of(wanted(options), read_records(file, options.budget), done);
  fmt::print("{} runs of {} steps, {} at once; {} are in {}\n", done.size() + left.size(),
             options.budget.steps, options.jobs, done.size(), file.string());
  make_runs(options, left, done, log);
  for (const Setting& setting : settings) {
    const std::vector<Row> rows = rows_of(done, setting.name);
    if (rows.empty()) continue;
    fmt::print("\n{}: trained on lengths up to {}. Words right by length, percent{}\n\n{}\n{}",
               setting.name, setting.longest,
               options.seeds > 1 ? ": mean ± standard deviation over seeds" : "", table(rows),
               plot(rows));
  }
  write_report(options.out, done, options.budget);
  fmt::print("\n{}\n", (options.out / "report.html").string());
}

}  // namespace attune::long_sentences
