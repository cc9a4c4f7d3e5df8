// attune: learns from pairs of texts (translations, pronunciations, dates), and predicts targets.
#include <attune/tensor/check.hpp>

#include "commands.hpp"
#include "support/commands.hpp"
#include "support/processes.hpp"

namespace attune::pairs {
namespace {

/// Options that --help shows; --help-all shows all.
const std::set<std::string> basic = {"valid",  "valid-target",   "swap",     "tokens", "pieces",
                                     "model",  "embedding",      "hidden",   "score",  "dropout",
                                     "epochs", "steps",          "minutes",  "batch",  "rate",
                                     "seed",   "validate-every", "patience", "metric", "out",
                                     "resume", "seeds",          "jobs",     "config"};

/// Sets everything: to `defaults`, then as the config file says. True, for what was typed is to be
/// set once more.
bool set_defaults(TrainOptions& o, TrainOptions defaults) {
  defaults.out = o.out, defaults.config = o.config, defaults.typed_model = o.typed_model;
  o = std::move(defaults);
  if (!o.config.empty()) read_config(o);
  return true;
}

void add_train(Commands& commands, TrainOptions& o, std::optional<Survey>& survey) {
  Command& train = commands.add("train", "train a model on a TSV of pairs, or on two text files",
                                "train.en train.de --valid val.en --valid-target val.de",
                                [&] { return pairs::train(o, survey); });
  train.argument("pairs", "a TSV, source TAB target, or a text file of sources", o.train, false)
      .argument("targets", "text file of their targets", o.train_target, false);
  std::string help = "what to train; sizes are set to suit the data";
  for (const models::ModelKind& kind : models::model_kinds())
    help += fmt::format("\n- {}: {}", kind.name, kind.what);
  for (const auto& [heading, fields] : train_groups()) {
    train.add(fields, o, heading);
    if (heading != std::string("Data")) continue;
    // Before the options of the model, which are then set for this one.
    train
        .add({models::OptionField<TrainOptions>{
                 .name = "model",
                 .help = help,
                 .choices = {},
                 .type = "NAME",
                 .get = [](const TrainOptions& options) { return options.model.name; },
                 .set =
                     [](TrainOptions& options, const std::string& name) {
                       set_model(options, options.typed_model = name);
                     }}},
             o, "Model")
        .add_last(models::all_model_fields(), o.model, "Model");
  }
  train.basic(basic).in_processes([&o] { return o.seeds > 1; });
  // First the config file, which may name the run and the data, then what suits these.
  train.reread([&o] { return !o.config.empty() && set_defaults(o, train_options(true)); });
  train.reread([&o] { return o.resumes() && set_defaults(o, stored_options(o.last())); });
  train.set_last().reread([&o, &survey] {
    if (o.resumes()) return false;
    check_files(o);
    survey = survey_of(o);
    return !survey->has_sentences() && set_defaults(o, train_options(false));
  });
}

void add_uses(Commands& commands, UseOptions& o) {
  const auto add = [&](const char* name, unsigned bit, const char* what, const char* example,
                       int (*run)(const UseOptions&)) -> Command& {
    Command& command = commands.add(name, what, example, [&o, run] { return run(o); });
    return command.add(use_fields(bit), o).reread([&o, bit] {
      if (o.config.empty()) return false;
      const UseOptions given = o;
      o = {};
      o.config = given.config;
      read_config(o, bit);
      return true;
    });
  };
  const auto add_model = [&](Command& command) {
    command.arguments(
        "--model",
        "checkpoint, or directory of a training (default: the model trained last); given "
        "several times, or a directory of --seeds: an ensemble",
        o.models);
  };
  const auto add_pairs = [&](Command& command, const char* otherwise) {
    command
        .argument(
            "file",
            fmt::format("pairs: a TSV, source TAB target, or a text file of sources{}", otherwise),
            o.file, false)
        .argument("targets", "text file of their targets", o.target, false);
    add_model(command);
  };
  constexpr const char* chosen = " (default: the pairs that the model was chosen by)";
  Command& predict = add("predict", predict_command, "write what belongs to each source",
                         "\"3 May 79\" --best 3", pairs::predict);
  predict.arguments("sources", "what to read (default: lines of standard input)", o.sources);
  add_model(predict);
  Command& evaluate = add("evaluate", evaluate_command,
                          "measure a model: exact matches, token errors, BLEU, chrF, perplexity",
                          "test.tsv --json", evaluate_pairs);
  add_pairs(evaluate, chosen);
  evaluate.arguments("--reference", "text file of other targets; may be given several times",
                     o.references);
  add_pairs(add("align", align_command, "show what the model attends to for each target token",
                "test.tsv --format html --out attention.html", pairs::align),
            "; without targets, the model writes its own");
  add_pairs(add("score", score_command, "print the log-probability of given targets", "test.tsv",
                pairs::score),
            "");
  add_pairs(add("compare", compare_command, "print a table of models measured on the same pairs",
                "test.tsv --model first-model --model second-model", pairs::compare),
            chosen);
  add_pairs(add("report", report_command,
                "write an HTML page: errors, learning curves, attention, predictions",
                "test.tsv --out test.html", pairs::report),
            chosen);
  add("average", average_command, "write a model with the mean weights of several checkpoints",
      "a.safetensors b.safetensors --out mean.safetensors", pairs::average)
      .arguments("models", "checkpoints of one training", o.sources);
  add("inspect", inspect_command, "print what is in a checkpoint", "attune-model", pairs::inspect)
      .argument("model", "checkpoint, or directory of a training (default: the one trained last)",
                o.file, false);
}

int run(int argc, char** argv) {
  TrainOptions train = train_options(true);
  std::optional<Survey> survey;
  UseOptions use;
  Commands commands("attune",
                    "Learns from pairs of texts with attention (translations, pronunciations, "
                    "dates), and predicts targets.",
                    "attune train PAIRS.tsv && attune predict");
  add_train(commands, train, survey);
  add_uses(commands, use);
  return commands.run(argc, argv);
}

}  // namespace
}  // namespace attune::pairs

int main(int argc, char** argv) {
  return attune::run_program("attune", [&] { return attune::pairs::run(argc, argv); });
}
