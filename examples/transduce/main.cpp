// transduce: learns from pairs of anything written, such as words and their pronunciations.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <attune/tensor/check.hpp>

#include "commands.hpp"
#include "support/command_line.hpp"
#include "support/program.hpp"

namespace attune::transduce {
namespace {

/// Everything the command line can say.
struct CommandLine {
  TrainOptions train;
  TrainArguments several;  // but for its options, which are `train`
  PredictArguments predict;
  EvaluateArguments evaluate;
  ReportArguments report;
  ModelPaths models = {"transduce-model"};
  int threads = 0;
};

void add_train(CLI::App& app, CommandLine& line) {
  TrainOptions& o = line.train;
  app.add_option("--out", o.out,
                 "directory for best.safetensors, last.safetensors, log.jsonl and report.html");
  app.add_flag("--resume", o.resume, "go on from last.safetensors, where there is one");
  app.add_option("--seeds", line.several.seeds,
                 "trainings, each with a seed and a directory of its own; those that are finished "
                 "are not trained again")
      ->check(in_range(1, 1000));
  line.several.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  app.add_option("--jobs", line.several.jobs,
                 "of several trainings, runs at once, each on one thread")
      ->check(in_range(1, 1024))
      ->needs(app.get_option("--seeds"));
  add_grouped_fields(app, train_fields(), o);
  app.get_option("--held-out")->excludes(app.get_option("--valid"));
  add_model(app, o.model, model_options);
}

void add_models(CLI::App& app, CommandLine& line) {
  app.add_option("--model", line.models,
                 "checkpoint, or directory of a training; given several times, or with a directory "
                 "of several trainings, an ensemble")
      ->allow_extra_args(false)
      ->default_str("transduce-model");
}

void add_beam(CLI::App& app, Index& beam) {
  app.add_option("--beam", beam, "hypotheses kept by the search, up to 100; 1 is greedy")
      ->check(in_range(1, 100));
}

void add_predict(CLI::App& app, PredictArguments& o) {
  app.add_option("sources", o.sources, "what to read; without any, lines of standard input")
      ->default_str("");
  add_beam(app, o.how.beam);
  app.add_option("--best", o.how.best, "hypotheses of each source")->check(in_range(1, 100));
  app.add_flag("--json", o.json,
               "one JSON object a line: source, best, and the attention of the first of them");
  add_field(app, show_field<PredictArguments>(), o);
  add_width(app, o.attention.width);
}

void add_evaluate(CLI::App& app, EvaluateArguments& o) {
  app.add_option("files", o.files, "files of pairs (default: those that the model was chosen by)")
      ->default_str("");
  add_field(app, swap_field<EvaluateArguments>(&EvaluateArguments::columns), o);
  add_beam(app, o.beam);
  app.add_flag("--json", o.json, "a line of JSON for each file");
}

void add_report(CLI::App& app, ReportArguments& o) {
  app.add_option("--out", o.out, "HTML file to write (default: report.html beside the model)")
      ->default_str("");
  app.add_option("--file", o.file, "file of pairs (default: those that the model was chosen by)")
      ->default_str("");
  add_field(app, swap_field<ReportArguments>(&ReportArguments::columns), o);
  app.add_option("--examples", o.examples, "sources to show")->check(in_range(1, 1000));
  add_beam(app, o.beam);
}

void parse(int argc, char** argv, CommandLine& line, std::unique_ptr<CLI::App>& app) {
  app = make_app("transduce",
                 "Learns from pairs of anything written, such as words and their pronunciations: "
                 "what is read and what is to be written, a TAB between them.",
                 "transduce train --train PAIRS.tsv && transduce predict WORD");
  CLI::App* train = add_command(*app, "train", "train a model on a file of pairs",
                                "--train fre_train.tsv --valid fre_dev.tsv --seeds 5");
  CLI::App* predict =
      add_command(*app, "predict", "write what belongs to each source", "bonjour --best 3");
  CLI::App* evaluate =
      add_command(*app, "evaluate", "measure a model on files of pairs", "fre_dev.tsv --json");
  CLI::App* report =
      add_command(*app, "report", "write an HTML page: errors, attention, learning curves",
                  "--file fre_dev.tsv --examples 20");
  for (CLI::App* sub : {train, predict, evaluate, report}) add_threads(*sub, line.threads);
  for (CLI::App* sub : {predict, evaluate, report}) add_models(*sub, line);
  add_train(*train, line);
  add_predict(*predict, line.predict);
  add_evaluate(*evaluate, line.evaluate);
  add_report(*report, line.report);
  parse_arguments(*app, {argv + 1, argv + argc});
}

int run(int argc, char** argv) {
  CommandLine line;
  const std::string name = read_command(argc, argv, parse, line, stored_options);
  if (name.empty()) return 0;
  if (name == "train" && !line.train.resume) {  // a run that goes on has the options it had
    check_effects(argc, argv, train_fields(), line.train);
    check_effects(argc, argv, models::seq2seq_fields(), line.train.model.network);
  }
  line.several.options = line.train;
  // Several seeds have processes of their own, each on one thread.
  if (name != "train" || line.several.seeds == 1) use_threads(line.threads);
  if (line.threads > 0) line.several.jobs = std::min(line.several.jobs, line.threads);
  line.predict.models = line.evaluate.models = line.report.models = line.models;
  return name == "train"      ? train_seeds(line.several)
         : name == "predict"  ? predict(line.predict)
         : name == "evaluate" ? evaluate_files(line.evaluate)
                              : report(line.report);
}

}  // namespace
}  // namespace attune::transduce

int main(int argc, char** argv) {
  return attune::run_program("transduce", [&] { return attune::transduce::run(argc, argv); });
}
