#include <cstdio>

#include <fmt/format.h>

#include <attune/tensor/threads.hpp>

#include "commands.hpp"
#include "support/comparing.hpp"
#include "support/processes.hpp"
#include "support/workers.hpp"

namespace attune::transduce {
namespace {

/// Percent of the pairs that it was chosen by; several models write together.
double measured_error(const ModelPaths& paths) {
  const std::vector<Model> models = load_models(paths);
  const NamedRows data = rows_for(models.front(), "");
  return 100 * word_error(total(evaluate(models, data.rows, WriteOptions().beam).counts));
}

/// What to do with what was trained.
void finish(const std::filesystem::path& out) {
  report({.models = {out}, .out = out / "report.html", .file = ""});
  say("Try it:  transduce predict --model {} WORD...\n", out.string());
}

int train_one(const TrainOptions& options) {
  const int status = train(options);
  if (status != 0 || !is_first_worker()) return status;
  if (!std::filesystem::exists(options.out / "best.safetensors")) return status;
  say("word error with a beam of {}: {:.2f} %\n", WriteOptions().beam,
      measured_error({options.out}));
  finish(options.out);
  return status;
}

int train_several(const TrainArguments& arguments) {
  const auto run_of = [&](std::size_t i) {
    TrainOptions options = arguments.options;
    options.seed += i;
    options.out /= fmt::format("seed-{}", options.seed);
    return options;
  };
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
  const std::filesystem::path& out = arguments.options.out;
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
