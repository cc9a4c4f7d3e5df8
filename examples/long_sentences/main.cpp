// long_sentences: what attention is for. Models with and without it are trained on one task, and
// tested on sentences of 5 to 60 words (Cho et al., 2014, "On the properties of neural machine
// translation"; Bahdanau et al., 2014, figure 2; Luong et al., 2015, figure 7).
#include <algorithm>
#include <cstdio>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/tensor/check.hpp>
#include <attune/version.hpp>

#include "experiment.hpp"
#include "support/command_line.hpp"
#include "support/program.hpp"

namespace attune::long_sentences {
namespace {

/// The options of the experiment, and what the command line has beside them.
struct CommandLine {
  Options options;
  std::string setting = "both";
  bool quick = false;
};

std::vector<std::string> names_of_variants() {
  std::vector<std::string> names;
  for (const Variant& one : variants()) names.push_back(one.name);
  return names;
}

void add_options(CLI::App& app, CommandLine& line) {
  Options& o = line.options;
  app.set_version_flag("--version", ATTUNE_VERSION, "print the version");
  set_option_defaults(app);
  app.footer("Everything takes about 16 minutes of processor time, and --quick one.");
  app.add_option(
      "--out", o.out,
      "directory for results.jsonl, report.html and charts; runs that it has already are "
      "not made again");
  add_field(app,
            models::choice_field<CommandLine, std::string>(
                "setting",
                "lengths to train on: up to 20 (a), up to 60 (b), or both; all are tested up to "
                "60. One of",
                &CommandLine::setting, {{"a", "a"}, {"b", "b"}, {"both", "both"}}),
            line);
  app.add_option(
         "--variants", o.variants,
         fmt::format("models, with commas between: {}", fmt::join(names_of_variants(), ", ")))
      ->delimiter(',')
      ->allow_extra_args(false)
      ->default_str("all");
  app.add_option("--seeds", o.seeds, "seeds from 1 on, of everything that is drawn")
      ->check(in_range(1, 1000));
  app.add_option("--steps", o.budget.steps, "batches to train on")
      ->check(in_range(1L, 1000000000L));
  app.add_option("--hidden", o.budget.hidden, "units of a layer; a multiple of 8")
      ->check(in_range(8, 4096));
  app.add_option("--jobs", o.jobs, "runs at once")->check(in_range(1, 1024));
  app.add_option("--threads", o.threads, "threads of a run")->check(in_range(1, 1024));
  app.add_flag("--quick", line.quick,
               "a quick run: setting b, one seed of encoder-decoder, bahdanau, luong-general and "
               "luong-local-m, unless other options are given");
}

/// What was not given.
void fill_in(const CLI::App& app, CommandLine& line) {
  Options& o = line.options;
  if (line.quick) {
    if (app.count("--setting") == 0) line.setting = "b";
    if (app.count("--seeds") == 0) o.seeds = 1;
    if (o.variants.empty()) {
      o.variants = {"encoder-decoder", "bahdanau", "luong-general", "luong-local-m"};
    }
  }
  o.settings = line.setting == "both" ? std::vector<std::string>{"a", "b"}
                                      : std::vector<std::string>{line.setting};
  if (o.variants.empty()) o.variants = names_of_variants();
  for (const std::string& name : o.variants) {
    variant(name);
    if (std::ranges::count(o.variants, name) > 1) {
      fail("--variants", fmt::format("'{}' is given twice", name));
    }
  }
  if (o.budget.hidden % 8 != 0) {
    fail("--hidden", fmt::format("{} is not a multiple of 8", o.budget.hidden));
  }
}

int run_command_line(int argc, char** argv) {
  CLI::App app("Accuracy by sentence length, of models with and without attention.",
               "long_sentences");
  CommandLine line;
  line.options.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  add_options(app, line);
  if (!parsed(&app, [&] { app.parse(argc, argv); })) return 0;
  fill_in(app, line);
  experiment(line.options);
  return 0;
}

}  // namespace
}  // namespace attune::long_sentences

int main(int argc, char** argv) {
  return attune::run_program("long_sentences",
                             [&] { return attune::long_sentences::run_command_line(argc, argv); });
}
