// dates: an attention model that turns dates as people write them ("Wednesday June 27 2001",
// "16.01.75") into ISO dates (2001-06-27, 1975-01-16).
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>

#include "commands.hpp"
#include "train.hpp"

namespace attune::dates {
namespace {

/// Everything the command line can say.
struct CommandLine {
  TrainOptions train;
  PredictOptions predict;
  EvaluateOptions evaluate;
  ReportOptions report;
  std::string model = "dates-model/best.safetensors";
  int threads = 0;
};

/// An option whose value is one of some names.
template <class T>
void add_choice(CLI::App& app, const std::string& option, T& value,
                const std::map<std::string, T>& names, const std::string& description) {
  std::string all, current;
  for (const auto& [name, meaning] : names) {
    all += all.empty() ? name : ", " + name;
    if (meaning == value) current = name;
  }
  const auto set = [&value, names, all](const std::string& text) {
    const auto at = names.find(text);
    if (at == names.end())
      throw CLI::ValidationError(fmt::format("'{}' is not one of {}", text, all));
    value = at->second;
  };
  app.add_option_function<std::string>(option, set, fmt::format("{}: {}", description, all))
      ->default_str(current)
      ->run_callback_for_default(false)
      ->type_name("NAME");
}

const std::map<std::string, nn::Cell> cells = {{"lstm", nn::Cell::lstm},
                                               {"gru", nn::Cell::gru},
                                               {"gru_reset_before", nn::Cell::gru_reset_before}};

void add_sizes(CLI::App& app, ModelOptions& o) {
  const CLI::Range size(1, 1 << 16, "1 - 65536");
  app.add_option("--embedding", o.embedding, "size of a character's vector")->check(size);
  app.add_option("--hidden", o.hidden,
                 "size of the states, of each encoder direction and of the decoder")
      ->check(size);
  app.add_option("--attention", o.attention, "size of the additive score's hidden layer")
      ->check(size);
  app.add_option("--readout", o.readout, "size of the layer before the softmax")->check(size);
  add_choice(app, "--encoder-cell", o.encoder_cell, cells, "kind of the encoder");
  add_choice(app, "--decoder-cell", o.decoder_cell, cells, "kind of the decoder");
  add_choice<models::Start>(app, "--start", o.start,
                            {{"zero", models::Start::zero}, {"bridge", models::Start::bridge}},
                            "decoder's first state, where a bridge comes from the encoder");
  add_choice<models::ReadoutKind>(
      app, "--readout-kind", o.readout_kind,
      {{"tanh", models::ReadoutKind::tanh}, {"maxout", models::ReadoutKind::maxout}},
      "layer before the softmax");
  add_choice<models::ReadoutState>(
      app, "--readout-state", o.readout_state,
      {{"current", models::ReadoutState::current}, {"previous", models::ReadoutState::previous}},
      "decoder state that the readout sees");
  app.add_option("--dropout", o.dropout, "rate on embeddings, annotations and readout")
      ->check(CLI::Range(0.0, 0.99, "0 - 0.99"));
}

void add_train(CLI::App& app, TrainOptions& o) {
  app.add_option("--out", o.out, "directory for best.safetensors, last.safetensors and log.jsonl")
      ->capture_default_str();
  app.add_flag("--resume", o.resume, "go on from last.safetensors, where there is one");
  app.add_option("--steps", o.steps, "batches to train on")
      ->check(CLI::Range(1L, 1000000000L, "1 - 1000000000"));
  app.add_option("--batch", o.batch, "examples in a batch")
      ->check(CLI::Range(1, 1 << 16, "1 - 65536"));
  app.add_option("--rate", o.rate,
                 "learning rate of Adam: constant for half of the steps, then down to 2 % of it")
      ->check(CLI::Range(1e-9, 10.0, "1e-9 - 10"));
  app.add_option("--clip", o.clip, "largest global norm of the gradients")
      ->check(CLI::Range(1e-9, 1e9, "1e-9 - 1e9"));
  app.add_option("--validate-every", o.validate_every,
                 "steps between validations, each of which saves a checkpoint")
      ->check(CLI::Range(1L, 1000000000L, "1 - 1000000000"));
  app.add_option("--seed", o.data.seed, "of initial values, examples and dropout");
  app.add_option("--locales", o.data.locales,
                 "whose dates to generate: en, a list such as en,de,ja, or all");
  app.add_option("--held-out", o.data.held_out, "dates kept for validation")
      ->check(CLI::Range(1, 36524, "1 - 36524"));
  app.add_option("--train", o.data.train_file, "TSV file (source TAB target) to train on instead");
  app.add_option("--valid", o.data.valid_file, "TSV file to validate on instead");
  add_sizes(app, o.model);
}

void add_predict(CLI::App& app, CommandLine& line) {
  app.add_option("dates", line.predict.sources, "dates; without any, lines of standard input");
  app.add_option("--model", line.model, "checkpoint");
  app.add_option("--beam", line.predict.beam, "hypotheses kept by the search; 1 is greedy")
      ->check(CLI::Range(1, 100, "1 - 100"));
  app.add_flag("--json", line.predict.json,
               "one JSON object a line: source, prediction, probability, attention");
  add_choice<Show>(app, "--attention", line.predict.attention,
                   {{"auto", Show::automatic}, {"always", Show::always}, {"never", Show::never}},
                   "when to draw the attention (auto: on a terminal)");
}

void add_evaluate(CLI::App& app, CommandLine& line) {
  app.add_option("file", line.evaluate.file,
                 "TSV file: source TAB target [TAB gold spans \"y:7-11 m:3-6 d:0-2\"]")
      ->required();
  app.add_option("--model", line.model, "checkpoint");
  app.add_option("--beam", line.evaluate.beam, "hypotheses kept by the search; 1 is greedy")
      ->check(CLI::Range(1, 100, "1 - 100"));
  app.add_flag("--json", line.evaluate.json,
               "one JSON object: examples, exact_match, character_accuracy, gold_attention");
}

void add_report(CLI::App& app, CommandLine& line) {
  app.add_option("--model", line.model,
                 "checkpoint; log.jsonl beside it gives the learning curves");
  app.add_option("--out", line.report.out,
                 "HTML file to write (default: report.html beside the model)");
  app.add_option("--file", line.report.file,
                 "TSV file with examples to show (default: held-out dates)");
  app.add_option("--examples", line.report.examples, "how many heat maps")
      ->check(CLI::Range(1, 1000, "1 - 1000"));
}

/// Options that were not given come from the checkpoint when a run is resumed.
void parse(int argc, char** argv, CommandLine& line, CLI::App*& command,
           std::unique_ptr<CLI::App>& app) {
  app = std::make_unique<CLI::App>(
      "Turns dates as people write them into ISO dates, with an attention model.", "dates");
  app->require_subcommand(1);
  app->option_defaults()->always_capture_default();
  app->footer("Example: dates train && dates predict \"3 May 79\"");
  CLI::App* train = app->add_subcommand("train", "train a model, on generated dates or on files");
  CLI::App* predict =
      app->add_subcommand("predict", "write the ISO date, with its probability and the attention");
  CLI::App* evaluate = app->add_subcommand("evaluate", "measure a model on a file");
  CLI::App* report = app->add_subcommand(
      "report", "write an HTML page: learning curves, attention, the model's card");
  for (CLI::App* sub : {train, predict, evaluate, report}) {
    sub->add_option("--threads", line.threads, "threads (default: ATTUNE_THREADS, or all CPUs)")
        ->check(CLI::Range(1, 1024, "1 - 1024"))
        ->default_str("");
  }
  add_train(*train, line.train);
  add_predict(*predict, line);
  add_evaluate(*evaluate, line);
  add_report(*report, line);
  app->parse(argc, argv);
  command = app->get_subcommands().front();
}

int run(int argc, char** argv) {
  CommandLine line;
  CLI::App* command = nullptr;
  std::unique_ptr<CLI::App> app;
  try {
    parse(argc, argv, line, command, app);
    const std::filesystem::path last = line.train.out / "last.safetensors";
    if (line.train.resume && std::filesystem::exists(last)) {
      const TrainOptions stored = stored_options(last);
      line = {};
      line.train = stored;
      parse(argc, argv, line, command, app);
      check_same(stored, line.train);
    }
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app->help());
    return 0;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "dates: {}\n", error.what());
    return 1;
  }
  if (line.threads > 0) set_threads(line.threads);
  line.predict.model = line.evaluate.model = line.report.model = line.model;
  const std::string name = command->get_name();
  if (name == "train") return train(line.train);
  if (name == "predict") return predict(line.predict);
  if (name == "evaluate") return evaluate_file(line.evaluate);
  return report(line.report);
}

}  // namespace
}  // namespace attune::dates

int main(int argc, char** argv) {
  try {
    return attune::dates::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "dates: {}\n", error.what());
    return 1;
  }
}
