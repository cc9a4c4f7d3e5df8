// attune: trains models on pairs of texts (translations, pronunciations, dates), and predicts.
#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include <attune/tensor/matmul.hpp>
#include <attune/tensor/threads.hpp>
#include <attune/version.hpp>

#include "commands.hpp"
#include "output.hpp"
#include "processes.hpp"

namespace attune::pairs {
namespace {

/// Positional arguments, as in --help, and their maximum number.
struct Positional {
  const char* names;
  std::size_t most;
};
constexpr std::size_t any_number = -1;
constexpr Positional files{"[PAIRS] [TARGETS]", 2}, sources{"[SOURCE]...", any_number},
    checkpoints{"[MODEL]...", any_number}, checkpoint{"[MODEL]", 1};

/// A command. `train` has no `bit` and `run`, as it has other options.
struct Command {
  const char *name, *what, *example;
  Positional positional;
  unsigned bit = 0;
  int (*run)(const UseOptions&) = nullptr;
};

const Command commands[] = {
    {"train", "train a model on a TSV of pairs, or on two text files",
     "train.en train.de --valid val.en --valid-target val.de", files},
    {"predict", "predict a target for each source (default: for each line of standard input)",
     "\"3 May 79\" --best 3", sources, predict_command, predict},
    {"evaluate",
     "measure a model: exact matches, token errors, BLEU, chrF, perplexity (default: on its "
     "validation pairs)",
     "test.tsv --json", files, evaluate_command, evaluate_pairs},
    {"align",
     "show the attention weights of each target token; without targets, of each predicted token",
     "test.tsv --format html --out attention.html", files, align_command, align},
    {"score", "print the log-probability of given targets", "test.tsv", files, score_command,
     score},
    {"compare",
     "print a table of models measured on the same pairs (default: their validation pairs)",
     "test.tsv --model first-model --model second-model", files, compare_command, compare},
    {"report", "write an HTML report: errors, learning curves, attention, predictions",
     "test.tsv --out test.html", files, report_command, report},
    {"average", "write a checkpoint with the mean weights of several checkpoints",
     "a.safetensors b.safetensors --out mean.safetensors", checkpoints, average_command, average},
    {"inspect", "print the contents of a checkpoint", "attune-model", checkpoint, inspect_command,
     inspect}};

/// Options of `train` that --help shows; --help-all shows all.
const std::set<std::string> basic = {
    "valid",  "valid-target", "swap",           "tokens",   "pieces", "model",   "embedding",
    "hidden", "score",        "dropout",        "epochs",   "steps",  "minutes", "batch",
    "rate",   "seed",         "validate-every", "patience", "metric", "out",     "resume",
    "from",   "seeds",        "jobs",           "config",   "threads"};

/// The arguments of a command: options (those of config files first), then positional ones.
struct Typed {
  std::vector<Given> given;
  std::vector<std::string> others;
  bool help = false, help_all = false;
};

/// Parses the arguments of a command, and reads its config files.
Typed read_arguments(const std::vector<std::string>& arguments, const models::OptionList& options,
                     const Positional& positional) {
  Typed typed;
  const examples::Arguments split = examples::split_arguments(arguments, options);
  typed.others = split.others;
  std::vector<Given> on_line;
  for (const Given& one : split.options) {
    typed.help_all |= one.name == "help-all";
    typed.help |= one.name == "help" || typed.help_all;
    if (one.name == "config")
      std::ranges::move(read_config(one.value), std::back_inserter(typed.given));
    if (one.name != "help" && one.name != "help-all") on_line.push_back(one);
  }
  std::ranges::move(on_line, std::back_inserter(typed.given));
  if (typed.others.size() > positional.most)
    throw Error("unexpected argument " + in_quotes(typed.others[positional.most]));
  return typed;
}

int show_help(const Command& command, const examples::AnyOptions& options, bool more) {
  const auto& [name, what, example, positional, bit, run] = command;
  say("{}\nUsage: attune {} [OPTIONS] {}\n{}\n{}Example: attune {} {}\n", what, name,
      positional.names, examples::help_of(options),
      more ? fmt::format("More options: attune {} --help-all\n", name) : "", name, example);
  return 0;
}

/// 0: ATTUNE_THREADS or its default. Throws if ATTUNE_THREADS (without --threads) or ATTUNE_PRODUCTS
/// is invalid. Later, the error would name the layer that computes first.
void use_threads(Index given) {
  if (given > 0) set_threads(given);
  threads(), matmul_backends();
}

/// Throws if the file of a positional argument is also given by an option of the command line.
void require_once(const Typed& typed, std::size_t argument, const std::string& option) {
  const bool both =
      typed.others.size() > argument && std::ranges::any_of(typed.given, [&](const Given& given) {
        return given.name == option && given.place.empty();
      });
  if (both)
    fail("--" + option, "is also given as the argument " + in_quotes(typed.others[argument]));
}

/// Throws if workers were started with different arguments.
void check_workers(const std::string& command, const Typed& typed) {
  Texts texts;
  for (const auto& [name, value, place] : typed.given) texts.push_back(name + " = " + value);
  texts.insert(texts.end(), typed.others.begin(), typed.others.end());
  require_equal(command, texts);
}

int run_train(const Command& command, const std::vector<std::string>& arguments) {
  TrainOptions defaults = train_options(true);
  const Typed typed = read_arguments(arguments, options_of(defaults), command.positional);
  require_once(typed, 0, "train"), require_once(typed, 1, "train-target");
  check_workers(command.name, typed);
  const auto with_given = [&](TrainOptions o) {
    set_given(o, typed.given);
    if (!typed.others.empty()) o.train = typed.others[0];
    if (typed.others.size() > 1) o.train_target = typed.others[1];
    return o;
  };
  TrainOptions o = defaults;
  for (const Given& given : typed.given)  // first: a checkpoint selects the model
    if (given.name == "out" || given.name == "resume" || given.name == "from")
      set_given(o, {given});
  const bool resumes = o.resumes(), continues = resumes || !o.from.empty();
  const TrainOptions before = resumes     ? stored_options(o.last())
                              : continues ? options_to_start_from(o)
                                          : defaults;
  o = with_given(before);
  if (typed.help) {
    models::OptionTable<TrainOptions> shown = options_of(o);
    if (!typed.help_all)
      std::erase_if(shown, [](const models::Option& one) { return !basic.contains(one.name); });
    return show_help(command, {shown, o}, !typed.help_all);
  }
  if (o.seeds > 1 && workers().count() > 1)
    fail("--seeds", "expected one process, but mpirun started {} workers", workers().count());
  std::optional<Survey> survey;
  if (!resumes) {  // defaults depend on the data
    check_files(o);
    if (continues) check_same(before, o);
    survey = survey_of(o);
    if (!continues && !survey->has_sentences()) o = with_given(train_options(false));
    o.learns_subwords = continues || learns_subwords(o, *survey);
  }
  examples::check_effects({options_of(o), o}, typed.given);
  use_threads(o.threads);
  return train(o, survey);
}

int run_use(const Command& command, const std::vector<std::string>& arguments) {
  UseOptions o;
  const models::OptionTable<UseOptions> options = options_of(o, command.bit);
  const Typed typed = read_arguments(arguments, options, command.positional);
  if (typed.help) return show_help(command, {options, o}, false);
  require_once(typed, 1, "target");
  check_workers(command.name, typed);
  constexpr unsigned shared = predict_command | evaluate_command | compare_command | report_command;
  if (!is_first_worker() && (command.bit & shared) == 0) return 0;
  std::vector<Given> given = typed.given;
  std::erase_if(given, [&](const Given& in_file) {  // options that can be repeated would add up
    return !in_file.place.empty() && std::ranges::any_of(typed.given, [&](const Given& g) {
      return g.place.empty() && g.name == in_file.name;
    });
  });
  set_given(o, command.bit, given);
  if (command.positional.most == any_number) {
    o.sources = typed.others;
  } else {
    if (!typed.others.empty()) o.file = typed.others[0];
    if (typed.others.size() > 1) o.target = typed.others[1];
  }
  examples::check_effects({options, o}, given);
  use_threads(o.threads);
  return command.run(o);
}

int show_commands() {
  say("attune trains sequence-to-sequence models with attention on pairs of texts (translations, "
      "pronunciations, dates).\nUsage: attune COMMAND [OPTIONS] ...\n\n");
  for (const Command& one : commands) say("  {:<12}{}\n", one.name, one.what);
  say("\nattune help COMMAND lists the options of a command, attune --version the version.\n"
      "Example: attune train PAIRS.tsv && attune predict\n");
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (const Command& one : commands) names.push_back(one.name);
  const std::string expected = fmt::format(
      "{} or {} was expected", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
  if (arguments.empty()) throw Error("no command: " + expected + "; attune help describes them");
  const std::string& name = arguments.front();
  if (name == "help" && arguments.size() > 1) return run({arguments[1], "--help"});
  for (const char* help : {"help", "-h", "--help", "--help-all"})
    if (name == help) return show_commands();
  if (name == "--version") return say("attune {}\n", ATTUNE_VERSION), 0;
  const std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  for (const Command& one : commands)
    if (name == one.name) return one.run ? run_use(one, rest) : run_train(one, rest);
  throw Error(in_quotes(name) + " is not a command" +
              examples::did_you_mean(name, names, ": " + expected));
}

}  // namespace
}  // namespace attune::pairs

int main(int argc, char** argv) {
  return attune::run_workers("attune", [&] {
    return attune::pairs::run(std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
  });
}
