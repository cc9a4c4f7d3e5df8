#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include <attune/tensor/threads.hpp>

#include "commands.hpp"
#include "support/comparing.hpp"
#include "support/processes.hpp"
#include "support/report_page.hpp"
#include "support/workers.hpp"

namespace attune::transduce {
namespace {

/// Percent of the pairs that it was chosen by; several models write together.
double measured_error(const ModelPaths& paths) {
  const std::vector<Model> models = load_models(paths);
  const NamedRows data = rows_for(models, "");
  return 100 * word_error(total(evaluate(models, data.rows, WriteOptions().beam).counts));
}

/// Throws, before the long work, where the page of the end would replace what is no page.
void check_report(const std::filesystem::path& out) {
  if (std::filesystem::is_directory(out)) page_path("", out);
}

/// What to do with what was trained.
void finish(const std::filesystem::path& out) {
  report({.models = {out}, .out = out / "report.html", .file = ""});
  say("Try it:  transduce predict --model {} WORD...\n", out.string());
}

bool has_best(const std::filesystem::path& directory) {
  return std::filesystem::exists(directory / "best.safetensors");
}

/// The trainings of several seeds that a directory has.
std::vector<std::filesystem::path> seeds_in(const std::filesystem::path& out) {
  std::vector<std::filesystem::path> found;
  if (!std::filesystem::is_directory(out)) return found;
  for (const auto& entry : std::filesystem::directory_iterator(out))
    if (has_best(entry.path())) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

int train_one(const TrainOptions& options) {
  if (!has_best(options.out) && !seeds_in(options.out).empty()) {
    fail("--out", fmt::format("{} is another training in it, another directory was expected",
                              seeds_in(options.out).front().string()));
  }
  check_report(options.out);
  const int status = train(options);
  if (status != 0 || !is_first_worker()) return status;
  if (!has_best(options.out)) return status;
  say("word error with a beam of {}: {:.2f} %\n", WriteOptions().beam,
      measured_error({options.out}));
  finish(options.out);
  return status;
}

/// Throws where a model in the directory would be taken for one of these, or they for it.
void check_directory(const TrainArguments& arguments, const auto& run_of) {
  const std::filesystem::path& out = arguments.options.out;
  std::vector<std::filesystem::path> others = seeds_in(out);
  if (has_best(out)) others.push_back(out);
  for (Index i = 0; i < arguments.seeds; ++i)
    std::erase(others, run_of(static_cast<std::size_t>(i)).out);
  if (others.empty()) return;
  fail("--out", fmt::format("{} has a training that is not one of these, another directory was "
                            "expected",
                            others.front().string()));
}

int train_several(const TrainArguments& arguments) {
  const auto run_of = [&](std::size_t i) {
    TrainOptions options = arguments.options;
    options.seed += i;
    options.out /= fmt::format("seed-{}", options.seed);
    return options;
  };
  check_directory(arguments, run_of);
  check_report(arguments.options.out);
  const std::filesystem::path& out = arguments.options.out;
  say("{} trainings, {} at a time; what each one prints is in {}\n", arguments.seeds,
      std::min<Index>(arguments.jobs, arguments.seeds), (out / "seed-*" / "progress.txt").string());
  std::fflush(stdout);
  Spread errors;
  Countdown countdown(static_cast<std::size_t>(arguments.seeds));
  in_processes(
      static_cast<std::size_t>(arguments.seeds), arguments.jobs,
      [&](std::size_t i) {
        set_threads(1);
        const TrainOptions options = run_of(i);
        return reading(options.out, [&] {
          train_or_go_on(options, train, stored_options);
          return fmt::format("{}", measured_error({options.out}));
        });
      },
      [&](std::size_t i, const std::string& text) {
        errors.values.push_back(std::stod(text));
        const auto [ended, left] = countdown.next();
        say("{}  seed {}: word error {:.2f} %  {}\n", ended, run_of(i).seed, errors.values.back(),
            left);
        std::fflush(stdout);
      });
  say("word error, {} models alone: {} %\n", arguments.seeds, errors.text(2));
  say("word error, together: {:.2f} %\n", measured_error({out}));
  finish(out);
  return 0;
}

}  // namespace

int train_seeds(const TrainArguments& arguments) {
  return arguments.seeds > 1 ? train_several(arguments) : train_one(arguments.options);
}

}  // namespace attune::transduce
