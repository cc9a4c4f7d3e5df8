// speech: attention models that listen.
#include <set>

#include <CLI/CLI.hpp>

#include <attune/tensor/check.hpp>

#include "commands.hpp"
#include "support/command_line.hpp"
#include "support/program.hpp"

namespace attune::speech {
namespace {

/// Everything the command line can say.
struct CommandLine {
  TrainOptions train;
  RecogniseArguments recognise;
  EvaluateArguments evaluate;
  AlignArguments align;
  ReportArguments report;
  CompareArguments compare;
  std::filesystem::path model = "speech-model/best.safetensors";
  int threads = 0;
};

/// But for those that are `left_out`.
void add_training(CLI::App& app, TrainOptions& o, const std::set<std::string>& left_out = {}) {
  for (const auto& field : train_fields())
    if (!left_out.contains(field.name)) add_field(app, field, o)->group("Training");
  for (const auto& field : recogniser_fields())
    if (!left_out.contains(field.name)) add_field(app, field, o.network)->group("Model");
  add_fields(app, log_mel_fields(), o.features, "Features");
}

void add_train(CLI::App& app, TrainOptions& o) {
  add_run(app, o);
  add_training(app, o);
}

void add_compare(CLI::App& app, CompareArguments& o) {
  add_comparison(app, o, "speech-compare", variant_names());
  // What the variants and the seeds say.
  add_training(app, o.train,
               {"list", "valid-list", "tokens", "seed", "attends", "score", "window"});
}

void add_hearing(CLI::App& app, HearOptions& o) {
  app.add_option("--beam", o.beam, "hypotheses kept by the search; 1 is greedy")
      ->check(in_range(1, 100));
  app.add_flag_callback(
      "--no-ctc", [&o] { o.ctc = false; }, "search by attention alone");
}

void add_recognise(CLI::App& app, RecogniseArguments& o) {
  app.add_option("files", o.files,
                 "recordings (WAV, FLAC, Ogg); without any, raw samples of 16 bits, little-endian, "
                 "of one channel are read from standard input")
      ->default_str("");
  app.add_option("--rate", o.rate, "samples per second of standard input (default: the model's)")
      ->check(in_range(1000, 192000))
      ->default_str("");
  app.add_option("--pause", o.pause,
                 "seconds of quiet after which a line is written for what was said until then on "
                 "standard input; 0: one line at its end")
      ->check(in_range(0.0, 60.0));
  app.add_flag("--json", o.json, "one JSON object a line: text, probability, tokens with times");
}

void add_evaluate(CLI::App& app, EvaluateArguments& o) {
  app.add_option("lists", o.lists, "files: RECORDING TAB TRANSCRIPT, a line each")->default_str("");
  app.add_option("--digits", o.digits,
                 "instead of lists: directory of the Free Spoken Digit Dataset, whose recordings "
                 "are measured one by one, and joined to strings")
      ->default_str("");
  app.add_option("--first", o.first, "number of the first recording; weights are chosen by 5 to 9")
      ->check(in_range(0, 1'000'000));
  app.add_option("--last", o.last, "number of the last recording")->check(in_range(0, 1'000'000));
  app.add_option("--max-digits", o.longest, "digits of a string at most")->check(in_range(1, 100));
  app.add_option("--strings", o.strings, "of each length")->check(in_range(1, 10000));
  app.add_flag("--json", o.json, "a line of JSON for each of them");
}

void add_align(CLI::App& app, AlignArguments& o) {
  app.add_option("list", o.list, "file: RECORDING TAB TRANSCRIPT, a line each")->required();
  add_field(app,
            models::choice_field<AlignArguments, AlignFormat>(
                "format", "of the times; textgrid, Praat's, is a file for each recording",
                &AlignArguments::format,
                {{AlignFormat::json, "json"},
                 {AlignFormat::textgrid, "textgrid"},
                 {AlignFormat::tsv, "tsv"}}),
            o);
  app.add_option("--out", o.out, "file to write (default: standard output), or directory")
      ->default_str("");
}

void add_report(CLI::App& app, ReportArguments& o) {
  app.add_option("--out", o.out, "file to write (default: report.html beside the model)")
      ->default_str("");
  app.add_option("--list", o.list, "file with utterances (default: what the model was chosen by)")
      ->default_str("");
  app.add_option("--examples", o.examples, "utterances to draw")->check(in_range(1, 1000));
}

void parse(int argc, char** argv, CommandLine& line, std::unique_ptr<CLI::App>& app) {
  app = make_app("speech", "Writes what was said, with attention.",
                 "speech train --digits recordings && speech recognise 7_jackson_5.wav");
  CLI::App* train =
      add_command(*app, "train", "train a model on recordings", "--digits recordings");
  CLI::App* recognise =
      add_command(*app, "recognise", "write what is said in recordings", "7_jackson_5.wav --json");
  CLI::App* evaluate = add_command(*app, "evaluate", "measure a model, by length",
                                   "--digits recordings --first 0 --last 4");
  CLI::App* align = add_command(*app, "align", "when each word of a transcript was said",
                                "list.tsv --format textgrid --out times");
  CLI::App* report =
      add_command(*app, "report", "write an HTML page: attention above spectrograms, errors",
                  "--list list.tsv --examples 5");
  CLI::App* compare =
      add_command(*app, "compare", "train kinds of attention with several seeds; a table",
                  "--digits recordings --seeds 2");
  for (CLI::App* sub : {train, recognise, evaluate, align, report}) {
    add_threads(*sub, line.threads);
  }
  for (CLI::App* sub : {recognise, evaluate, align, report}) add_checkpoint(*sub, line.model);
  add_hearing(*recognise, line.recognise.hear);
  add_hearing(*evaluate, line.evaluate.hear);
  add_train(*train, line.train);
  add_recognise(*recognise, line.recognise);
  add_evaluate(*evaluate, line.evaluate);
  add_align(*align, line.align);
  add_report(*report, line.report);
  add_compare(*compare, line.compare);
  parse_arguments(*app, {argv + 1, argv + argc});
}

int run(int argc, char** argv) {
  CommandLine line;
  const std::string name = read_command(argc, argv, parse, line, stored_options);
  if (name.empty()) return 0;
  if (name == "train" && !line.train.resume)  // a run that goes on has the options it had
    check_effects(argc, argv, recogniser_fields(), line.train.network);
  if (name == "compare") return compare(line.compare);  // whose runs are processes of their own
  use_threads(line.threads);
  line.recognise.model = line.evaluate.model = line.align.model = line.report.model = line.model;
  return name == "train"       ? train(line.train)
         : name == "recognise" ? recognise(line.recognise)
         : name == "evaluate"  ? evaluate(line.evaluate)
         : name == "align"     ? align(line.align)
                               : report(line.report);
}

}  // namespace
}  // namespace attune::speech

int main(int argc, char** argv) {
  return attune::run_program("speech", [&] { return attune::speech::run(argc, argv); });
}
