// forecast: attention models that forecast measurements over time.

#include <CLI/CLI.hpp>

#include <attune/tensor/check.hpp>

#include "commands.hpp"
#include "support/checkpoint.hpp"
#include "support/command_line.hpp"
#include "support/program.hpp"

namespace attune::forecast {
namespace {

/// Everything the command line can say.
struct CommandLine {
  TrainOptions train;
  PredictArguments predict;
  EvaluateArguments evaluate;
  CompareArguments compare;
  ReportArguments report;
  std::filesystem::path model = "forecast-model/best.safetensors";
  int threads = 0;
};

void add_train(CLI::App& app, TrainOptions& o) {
  add_run(app, o);
  add_fields(app, train_fields(), o, "Training");
  add_fields(app, network_fields(), o.network, "Model");
}

void add_compare(CLI::App& app, CompareArguments& o) {
  add_comparison(app, o, "forecast-compare", variant_names());
  app.add_option("--horizons", o.horizons, "rows to forecast, with commas between them")
      ->delimiter(',')
      ->check(in_range(1, 1 << 16))
      ->default_str("24,48,96,168,192,336,720")
      ->type_name("LIST");
  for (const auto& field : train_fields()) {
    if (field.name != "seed")
      add_field(app, field, o.train)->group("Training, where a variant says nothing else");
  }
}

void parse(int argc, char** argv, CommandLine& line, std::unique_ptr<CLI::App>& app) {
  app = make_app("forecast", "Forecasts measurements over time, with attention.",
                 "forecast train --csv ETTh1.csv --protocol ett && forecast report");
  CLI::App* train =
      add_command(*app, "train", "train a model on a CSV file", "--csv ETTh1.csv --protocol ett");
  CLI::App* predict =
      add_command(*app, "predict", "write what comes after the last row of a file", "ETTh1.csv");
  CLI::App* evaluate =
      add_command(*app, "evaluate", "measure a model on the test part", "--csv ETTh1.csv --json");
  CLI::App* compare =
      add_command(*app, "compare", "train models for several horizons and seeds, and print a table",
                  "--csv ETTh1.csv --protocol ett --horizons 24,48");
  CLI::App* report = add_command(*app, "report", "write an HTML page: forecasts, attention, errors",
                                 "--examples 4");
  for (CLI::App* sub : {train, predict, evaluate, report}) {
    add_threads(*sub, line.threads);
  }
  for (CLI::App* sub : {predict, evaluate, report}) add_checkpoint(*sub, line.model);
  add_train(*train, line.train);
  add_compare(*compare, line.compare);
  predict
      ->add_option("csv", line.predict.csv, "file with the columns that the model was trained on")
      ->required();
  const char* csv = "file with the columns that the model was trained on (default: that file)";
  evaluate->add_option("--csv", line.evaluate.csv, csv)->default_str("");
  evaluate->add_flag("--json", line.evaluate.json, "one JSON object");
  report->add_option("--csv", line.report.csv, csv)->default_str("");
  report
      ->add_option("--out", line.report.out,
                   "file to write (default: report.html beside the model)")
      ->default_str("");
  report->add_option("--examples", line.report.examples, "windows to draw")
      ->check(in_range(1, 100));
  app->parse(argc, argv);
}

int run(int argc, char** argv) {
  CommandLine line;
  const std::string name = read_command(argc, argv, parse, line, stored_options);
  if (name.empty()) return 0;
  if (name == "train" && !line.train.resume)  // a run that goes on has the options it had
    check_effects(argc, argv, network_fields(), line.train.network);
  if (name == "compare") return compare(line.compare);  // whose runs are processes of their own
  use_threads(line.threads);
  line.predict.model = line.evaluate.model = line.report.model = line.model;
  return name == "train"      ? train(line.train)
         : name == "predict"  ? predict(line.predict)
         : name == "evaluate" ? evaluate(line.evaluate)
                              : report(line.report);
}

}  // namespace
}  // namespace attune::forecast

int main(int argc, char** argv) {
  return attune::run_program("forecast", [&] { return attune::forecast::run(argc, argv); });
}
