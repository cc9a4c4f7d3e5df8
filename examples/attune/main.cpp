// attune: learns from pairs of texts (translations, pronunciations, dates), and predicts targets.
#include <attune/tensor/check.hpp>

#include "commands.hpp"
#include "support/commands.hpp"
#include "support/program.hpp"

namespace attune::pairs {
namespace {

/// Sets what was not given: for a run that is resumed as it was, otherwise by the config file, and
/// as suits the data, of which it returns a survey.
std::optional<Survey> set_defaults(TrainOptions& o) {
  const std::filesystem::path last = o.out / "last.safetensors", config = o.config;
  if (o.resume && std::filesystem::exists(last)) {
    const TrainOptions given = o;
    o = stored_options(last);
    o.out = given.out, o.config = config;
    if (!config.empty()) read_config(o);
    return std::nullopt;
  }
  TrainOptions files = train_options(true);
  files.config = config;
  if (!config.empty()) read_config(files);
  // What was given names other files than the config does.
  const TrainOptions initial = train_options(true);
  for (const auto path : {&TrainOptions::train, &TrainOptions::train_target, &TrainOptions::valid,
                          &TrainOptions::valid_target})
    if (!(o.*path).empty()) files.*path = o.*path;
  for (const auto text : {&TrainOptions::alignments, &TrainOptions::source_vocabulary,
                          &TrainOptions::target_vocabulary, &TrainOptions::source_pieces,
                          &TrainOptions::target_pieces})
    if (!(o.*text).empty()) files.*text = o.*text;
  if (o.columns != initial.columns) files.columns = o.columns;
  if (o.held_out != initial.held_out) files.held_out = o.held_out;
  files.out = o.out, files.resume = o.resume;
  check_files(files);
  const Survey survey = survey_of(files);
  o = train_options(survey.has_sentences());
  o.config = config;
  if (!config.empty()) read_config(o);
  return survey;
}

void add_train(Commands& commands, TrainOptions& o, std::optional<Survey>& survey) {
  Command& train = commands.add("train", "train a model on a TSV of pairs, or on two text files",
                                "train.en train.de --valid val.en --valid-target val.de",
                                [&] { return pairs::train(o, survey); });
  train.argument("pairs", "a TSV, source TAB target, or a text file of sources", o.train, false)
      .argument("targets", "text file of their targets", o.train_target, false);
  std::set<std::string> basic = {"model", "embedding", "hidden", "score", "dropout"};
  const auto add = [&](const std::string& heading) {
    std::vector<models::OptionField<TrainOptions>> fields;
    for (const TrainField& field : train_fields()) {
      if (field.heading != heading) continue;
      fields.push_back(field);
      if (!field.rare) basic.insert(field.name);
    }
    train.add(fields, o, heading);
  };
  add("Data");
  std::string help = "what to train; sizes are set to suit the data";
  std::vector<std::string> names;
  for (const models::ModelKind& kind : models::model_kinds()) {
    help += fmt::format("\n- {}: {}", kind.name, kind.what);
  }
  // Before the options of the model, which are then set for this one.
  train.add({models::OptionField<TrainOptions>{
                .name = "model",
                .help = help,
                .choices = {},
                .type = "NAME",
                .get = [](const TrainOptions& options) { return options.model.name; },
                .set = set_model}},
            o, "Model");
  train.add(models::all_model_fields(), o.model, "Model");
  for (const char* heading : {"Training", "Validation", "Run"}) add(heading);
  train.in_processes([&o] { return o.seeds > 1; });
  train.basic(std::move(basic)).reread([&] {
    survey = set_defaults(o);
    return true;
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
    command.list("model",
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
  evaluate.list("reference", "text file of other targets; may be given several times",
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
