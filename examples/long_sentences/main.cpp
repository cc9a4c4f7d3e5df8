// long_sentences: what attention is for. Models with and without it are trained on one task, and
// tested on sentences of 5 to 60 words (Cho et al., 2014, "On the properties of neural machine
// translation"; Bahdanau et al., 2014, figure 2; Luong et al., 2015, figure 7).
#include <algorithm>
#include <cstring>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/threads.hpp>

#include "results.hpp"
#include "support/commands.hpp"
#include "support/comparing.hpp"
#include "support/output.hpp"
#include "support/processes.hpp"
#include "support/run_directory.hpp"

namespace attune::long_sentences {
namespace {

struct Options {
  std::filesystem::path out = "long-sentences";
  std::string setting = "both";
  std::vector<std::string> settings = {};  // by name, as `setting` says
  std::vector<std::string> variants = {};  // by name
  Index seeds = 3;                         // 1 .. seeds
  Budget budget = {};
  Index jobs = std::max(1u, std::thread::hardware_concurrency());  // runs at once, in processes
  Index threads = 1;                                               // of a run
  bool quick = false;
};

bool same_run(const Record& a, const Record& b) {
  return a.setting == b.setting && a.variant == b.variant && a.seed == b.seed;
}

/// All runs, without results: first all with seed 1, then all with seed 2, ..., so that there is
/// soon a table of all variants.
std::vector<Record> wanted(const Options& options) {
  std::vector<Record> runs;
  for (Index seed = 1; seed <= options.seeds; ++seed) {
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
    set_threads(static_cast<int>(options.threads));
    return reading(fmt::format("{} {} seed {}", one.setting, one.variant, one.seed), [&] {
      return bytes_of(run(setting(one.setting), variant(one.variant), one.seed, options.budget));
    });
  };
  in_processes(left.size(), static_cast<int>(options.jobs), work,
               [&](std::size_t i, const std::string& bytes) {
                 left[i].result = result_from(bytes);
                 log.write(fields_of(left[i], options.budget));
                 done.push_back(left[i]);
                 progress.show(static_cast<long>(done.size()), status(left[i]), true);
               });
}

/// Makes the runs that DIR/results.jsonl does not have yet, one line there for each as it ends;
/// then prints tables and plots and writes DIR/report.html and charts.
void experiment(const Options& options) {
  make_directories(options.out);
  const DirectoryLock lock(options.out);
  const std::filesystem::path file = options.out / "results.jsonl";
  report::LogWriter log(file.string(), /*append=*/true);
  std::vector<Record> done;
  std::vector<Record> left = left_of(wanted(options), read_records(file, options.budget), done);
  say("{} runs of {} steps, {} at once; {} are in {}\n", done.size() + left.size(),
      options.budget.steps, options.jobs, done.size(), file.string());
  make_runs(options, left, done, log);
  for (const Setting& setting : settings) {
    const std::vector<Row> rows = rows_of(done, setting.name);
    if (rows.empty()) continue;
    say("\n{}: trained on lengths up to {}. Words right by length, percent{}\n\n{}\n{}",
        setting.name, setting.longest,
        options.seeds > 1 ? ": mean ± standard deviation over seeds" : "", table(rows), plot(rows));
  }
  write_report(options.out, done, options.budget);
  say("\n{}\n", (options.out / "report.html").string());
}

std::vector<models::OptionField<Options>> option_fields() {
  using models::number_field;
  std::vector<std::string> names;
  for (const Variant& one : variants()) names.push_back(one.name);
  const auto budget = [](Index Budget::*member) {
    return [member](Options& o) -> Index& { return o.budget.*member; };
  };
  return {
      models::text_field<Options>("out",
                                  "directory for results.jsonl, report.html and charts; runs that "
                                  "it has already are not made again",
                                  &Options::out),
      models::choice_field<Options, std::string>(
          "setting",
          "lengths to train on: up to 20 (a), up to 60 (b), or both; all are tested up to 60",
          &Options::setting, {{"a", "a"}, {"b", "b"}, {"both", "both"}}),
      list_field<Options, std::string>(
          "variants",
          fmt::format("models, with commas between (default: all): {}", fmt::join(names, ", ")),
          &Options::variants),
      number_field<Options>("seeds", "seeds from 1 on, of everything that is drawn",
                            &Options::seeds, 1, 1000),
      number_field<Options>("steps", "batches to train on", budget(&Budget::steps), 1, 1e9),
      number_field<Options>("hidden", "units of a layer; a multiple of 8", budget(&Budget::hidden),
                            8, 4096),
      number_field<Options>("jobs", "runs at once", &Options::jobs, 1, 1024),
      number_field<Options>("threads", "threads of a run", &Options::threads, 1, 1024),
      models::flag_field<Options, bool>(
          "quick",
          "a quick run: setting b, one seed of encoder-decoder, bahdanau, luong-general and "
          "luong-local-m, unless other options are given",
          &Options::quick, false, true)};
}

/// What was not given, and what cannot be.
void complete(Options& o) {
  o.settings = o.setting == "both" ? std::vector<std::string>{"a", "b"}
                                   : std::vector<std::string>{o.setting};
  if (o.variants.empty())
    for (const Variant& one : variants()) o.variants.push_back(one.name);
  for (const std::string& name : o.variants) variant(name);
  check_each_once("--variants", o.variants);
  if (o.budget.hidden % 8 != 0)
    fail("--hidden", fmt::format("{} is not a multiple of 8", o.budget.hidden));
}

int run_command_line(int argc, char** argv) {
  Options o;
  Commands commands("long_sentences",
                    "Accuracy by sentence length, of models with and without attention. Everything "
                    "takes about 16 minutes of processor time, and --quick one.",
                    "long_sentences --quick");
  commands
      .only("--quick",
            [&] {
              complete(o);
              experiment(o);
              return 0;
            })
      .add(option_fields(), o)
      .in_processes()
      .reread([&] {
        if (!o.quick) return false;
        o = {};
        o.setting = "b", o.seeds = 1;
        o.variants = {"encoder-decoder", "bahdanau", "luong-general", "luong-local-m"};
        return true;
      });
  return commands.run(argc, argv);
}

}  // namespace
}  // namespace attune::long_sentences

int main(int argc, char** argv) {
  return attune::run_program("long_sentences",
                             [&] { return attune::long_sentences::run_command_line(argc, argv); });
}
