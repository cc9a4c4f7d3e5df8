// dates: an attention model that turns dates as people write them ("Wednesday June 27 2001",
// "16.01.75") into ISO dates (2001-06-27, 1975-01-16).
#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/tensor/check.hpp>

#include "commands.hpp"
#include "compare.hpp"
#include "support/command_line.hpp"
#include "support/program.hpp"
#include "train.hpp"

namespace attune::dates {
namespace {

/// Everything the command line can say.
struct CommandLine {
  TrainOptions train;
  PredictArguments predict;
  EvaluateArguments evaluate;
  CompareArguments compare;
  AlignArguments align;
  ReportArguments report;
  std::filesystem::path model = "dates-model/best.safetensors";
  int threads = 0;
};

void add_train(CLI::App& app, TrainOptions& o) {
  add_run(app, o);
  add_grouped_fields(app, train_fields(), o);
  app.get_option("--locales")->excludes(app.get_option("--train"));
  add_model(app, o.model, model_options);
}

void add_compare(CLI::App& app, CompareArguments& o) {
  o.train.out = "dates-compare", o.train.rate = 3e-3;  // at which all that attend learn
  app.add_option("--out", o.train.out,
                 "directory, with one in it for each variant; those that are finished are not "
                 "trained again");
  app.add_option("--variants", o.variants,
                 fmt::format("which to compare, with commas between them: {}",
                             fmt::join(variant_names(), ", ")))
      ->delimiter(',')
      ->default_str("all")
      ->type_name("LIST");
  app.add_flag("--markdown", o.markdown, "the table in Markdown");
  add_grouped_fields(app, train_fields(), o.train);
  add_grouped_fields(app, compare_fields(), o);
}

void add_align(CLI::App& app, CommandLine& line) {
  app.add_option("file", line.align.file, "TSV file: source TAB target, a line each")->required();
  add_checkpoint(app, line.model);
  add_field(app, swap_field<AlignArguments>(&AlignArguments::columns), line.align);
  add_field(app, align_format_field(&AlignArguments::output), line.align);
  add_field(
      app,
      models::choice_field<AlignArguments, report::AlignedWord>(
          "rule",
          "which character the weights of a step speak of: the one that it writes, or the "
          "one before",
          &AlignArguments::rule,
          {{report::AlignedWord::current, "current"}, {report::AlignedWord::previous, "previous"}}),
      line.align);
  app.add_option("--out", line.align.output.out, "file to write (default: standard output)");
  add_width(app, line.align.output.width);
}

void add_predict(CLI::App& app, CommandLine& line) {
  app.add_option("dates", line.predict.sources, "dates; without any, lines of standard input");
  add_checkpoint(app, line.model);
  app.add_option("--beam", line.predict.beam,
                 "hypotheses kept by the search, up to 100; 1 is greedy")
      ->check(in_range(1, 100));
  app.add_flag("--json", line.predict.json,
               "one JSON object a line: source, prediction, probability, attention");
  add_field(app, show_field<PredictArguments>(), line.predict);
  add_width(app, line.predict.attention.width);
}

void add_evaluate(CLI::App& app, CommandLine& line) {
  app.add_option("file", line.evaluate.file,
                 "TSV file: source TAB target [TAB gold spans \"y:7-11 m:3-6 d:0-2\"]")
      ->required();
  add_checkpoint(app, line.model);
  app.add_option("--beam", line.evaluate.beam,
                 "hypotheses kept by the search, up to 100; 1 is greedy")
      ->check(in_range(1, 100));
  add_field(app, swap_field<EvaluateArguments>(&EvaluateArguments::columns), line.evaluate);
  app.add_flag("--json", line.evaluate.json,
               "one JSON object: examples, exact_match, character_accuracy, gold_attention");
}

void add_report(CLI::App& app, CommandLine& line) {
  add_checkpoint(app, line.model, "checkpoint; log.jsonl beside it gives the learning curves");
  app.add_option("--out", line.report.out,
                 "HTML file to write (default: report.html beside the model)");
  app.add_option("--file", line.report.file,
                 "TSV file with examples to show (default: held-out dates)");
  add_field(app, swap_field<ReportArguments>(&ReportArguments::columns), line.report);
  app.add_option("--examples", line.report.examples, "how many heat maps")
      ->check(in_range(1, 1000));
}

void parse(int argc, char** argv, CommandLine& line, std::unique_ptr<CLI::App>& app) {
  app =
      make_app("dates", "Turns dates as people write them into ISO dates, with an attention model.",
               "dates train && dates predict \"3 May 79\"");
  CLI::App* train = add_command(*app, "train", "train a model, on generated dates or on files",
                                "--locales de,ja --steps 4000");
  CLI::App* predict =
      add_command(*app, "predict", "write the ISO date, with its probability and the attention",
                  "\"3 May 79\" 16.01.75 --attention always");
  CLI::App* evaluate =
      add_command(*app, "evaluate", "measure a model on a file", "FILE.tsv --beam 4");
  CLI::App* compare = add_command(
      *app, "compare", "train published models one after the other and print a table of them",
      "--variants bahdanau,luong-general --steps 1000");
  CLI::App* align = add_command(*app, "align",
                                "attention of a model for given pairs, and their log-probabilities",
                                "FILE.tsv --format html --out attention.html");
  CLI::App* report = add_command(*app, "report",
                                 "write an HTML page: learning curves, attention, the model's card",
                                 "--model dates-model --examples 20");
  for (CLI::App* sub : {train, predict, evaluate, compare, align, report}) {
    add_threads(*sub, line.threads);
  }
  add_train(*train, line.train);
  add_predict(*predict, line);
  add_evaluate(*evaluate, line);
  add_compare(*compare, line.compare);
  add_align(*align, line);
  add_report(*report, line);
  parse_arguments(*app, {argv + 1, argv + argc});
}

int run(int argc, char** argv) {
  CommandLine line;
  const std::string name = read_command(argc, argv, parse, line, stored_options);
  if (name.empty()) return 0;
  if (name == "train" && !line.train.resume)  // a run that goes on has the options it had
    check_effects(argc, argv, models::seq2seq_fields(), line.train.model.network);
  use_threads(line.threads);
  line.predict.model = line.evaluate.model = line.align.model = line.report.model = line.model;
  return name == "train"      ? train(with_steps(line.train))
         : name == "predict"  ? predict(line.predict)
         : name == "evaluate" ? evaluate_file(line.evaluate)
         : name == "compare"  ? compare(line.compare)
         : name == "align"    ? align(line.align)
                              : report(line.report);
}

}  // namespace
}  // namespace attune::dates

int main(int argc, char** argv) {
  return attune::run_program("dates", [&] { return attune::dates::run(argc, argv); });
}
