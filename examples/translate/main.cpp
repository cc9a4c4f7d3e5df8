// Translation: from two text files to a translator.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <attune/tensor/check.hpp>

#include "commands.hpp"
#include "config_file.hpp"
#include "support/command_line.hpp"
#include "support/program.hpp"
#include "support/text_model.hpp"
#include "train.hpp"

namespace attune::translate {
namespace {

struct CommandLine {
  TrainOptions train;
  TranslateArguments translate;
  EvaluateArguments evaluate;
  CompareArguments compare;
  ScoreArguments score;
  AlignArguments align;
  AverageArguments average;
  ExportArguments exported;
  ReportArguments report;
  CurvesArguments curves;
  std::filesystem::path inspect = "translate-model/best.safetensors";
  int threads = 0;
};

template <class Options>
CLI::Option* add_swap(CLI::App& app, Options& o) {
  return add_field(app, swap_field<Options>(&Options::columns), o);
}

void add_train(CLI::App& app, TrainOptions& o) {
  add_run(app, o);
  app.add_option("--config", o.config,
                 "file with options of Training and Model, NAME = VALUE on each line; those of the "
                 "command line win");
  add_fields(app, train_fields(), o, "Training");
  app.get_option("--swap")->excludes(app.get_option("--target"));
  add_model(app, o.model, model_options);
}

void add_search(CLI::App& app, models::SearchOptions& o) {
  app.add_option("--beam", o.beam, "hypotheses that are followed at a time")
      ->check(in_range(1, 1000));
  app.add_option("--length-penalty", o.length_penalty,
                 "α: log-probabilities are divided by length^α")
      ->check(in_range(0.0, 10.0));
  app.add_option("--coverage-penalty", o.coverage_penalty,
                 "β, against source words that are left out")
      ->check(in_range(0.0, 10.0));
  app.add_option("--max-length", o.max_length, "most tokens of a translation")
      ->check(in_range(1, 100000));
}

void add_models(CLI::App& app, std::vector<std::filesystem::path>& models) {
  app.add_option("--model", models,
                 "checkpoint, or the directory of its training; given several times, an ensemble")
      ->transform(best_of_directory())
      ->allow_extra_args(false)
      ->default_str("translate-model/best.safetensors");
}

void add_translate(CLI::App& app, TranslateArguments& o) {
  app.add_option("file", o.file, "text to translate (default: standard input)");
  add_models(app, o.models);
  add_search(app, o.search);
  app.add_option("--best", o.search.best,
                 "translations of each line; a smaller beam becomes as wide")
      ->check(in_range(1, 1000));
  app.add_option("--batch", o.batch, "sentences translated at a time")->check(in_range(1, 4096));
  CLI::Option* scores =
      app.add_flag("--scores", o.scores,
                   "before each translation its score, the log-probability by length^α, and a tab");
  add_field(app,
            models::choice_field<TranslateArguments, bool>(
                "format",
                "translations alone, or as in an n-best list of Moses: number of the line, from 0, "
                "translation, log-probability and tokens, score. One of",
                &TranslateArguments::moses, {{false, "text"}, {true, "moses"}}),
            o)
      ->excludes(scores);
  app.add_flag("--replace-unknown", o.replace_unknown,
               "instead of <unk>, the source's token with the largest attention weight");
  CLI::Option* sample = app.add_flag("--sample", o.sample,
                                     "draw words from their probabilities instead of searching");
  for (const char* name : {"--beam", "--coverage-penalty", "--best"})
    sample->excludes(app.get_option(name));
  app.add_option("--temperature", o.sampling.temperature, "below 1 likely words become likelier")
      ->check(in_range(1e-3, 1e3))
      ->needs(sample);
  app.add_option("--top-k", o.sampling.top_k, "draw from so many words only; 0: from all")
      ->check(in_range(0, 1 << 30))
      ->needs(sample);
  app.add_option("--top-p", o.sampling.top_p,
                 "draw from the likeliest words that have this probability together")
      ->check(in_range(1e-9, 1.0))
      ->needs(sample);
  app.add_option("--seed", o.sampling.seed, "of what is drawn")
      ->check(in_range(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max()))
      ->needs(sample);
}

void add_bleu(CLI::App& app, metrics::BleuOptions& o) {
  add_field(app,
            models::choice_field<metrics::BleuOptions, metrics::BleuTokens>(
                "bleu", "words as of sacreBLEU's 13a, or all between blanks",
                &metrics::BleuOptions::tokens,
                {{metrics::BleuTokens::mteval_13a, "13a"}, {metrics::BleuTokens::none, "none"}}),
            o);
}

void add_evaluate(CLI::App& app, EvaluateArguments& o) {
  app.add_option("source", o.source, "text to translate")->required();
  app.add_option("target", o.target, "its translation (default: the source is a TSV of both)");
  add_swap(app, o)->excludes(app.get_option("target"));
  app.add_option("--reference", o.references,
                 "another translation, a line each; may be given several times")
      ->allow_extra_args(false)
      ->default_str("");
  add_models(app, o.models);
  add_search(app, o.search);
  add_bleu(app, o.bleu);
  app.add_option("--out", o.out, "file for the translations");
  app.add_option("--sentences", o.sentences,
                 "file for each sentence's BLEU TAB chrF TAB translation");
  app.add_flag("--json", o.json, "the numbers as JSON");
}

/// Numbers with commas between them, each larger than the one before.
std::vector<std::int64_t> rising_numbers(const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (const char *at = text.data(), *const end = at + text.size();; ++at) {
    std::int64_t number = -1;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0 || (!numbers.empty() && number <= numbers.back()) ||
        (rest != end && *rest != ',')) {
      fail("lengths", fmt::format("'{}' is not rising whole numbers with commas between them, as "
                                  "8,12,16",
                                  text));
    }
    numbers.push_back(number);
    if (rest == end) return numbers;
    at = rest;
  }
}

void add_compare(CLI::App& app, CompareArguments& o) {
  app.add_option("source", o.source, "text to translate")->required();
  app.add_option("target", o.target, "its translation, or \"\" when the source is a TSV of both")
      ->required();
  app.add_option("models", o.models, "checkpoints; the first is what others are held against")
      ->transform(best_of_directory());
  add_swap(app, o);
  add_search(app, o.search);
  add_bleu(app, o.bleu);
  const auto set = [&o](const std::string& text) { o.lengths = rising_numbers(text); };
  app.add_option_function<std::string>(
         "--lengths", setting(set),
         "words of the source at which a column of BLEU ends, with commas between them")
      ->default_str(fmt::format("{}", fmt::join(o.lengths, ",")))
      ->run_callback_for_default(false)
      ->type_name("LIST");
  app.add_flag("--json", o.json, "a line of JSON for each model");
}

void add_score(CLI::App& app, ScoreArguments& o) {
  app.add_option("source", o.source, "sentences")->required();
  app.add_option("target", o.target, "their translations (default: the source is a TSV of both)");
  add_swap(app, o)->excludes(app.get_option("target"));
  add_checkpoint(app, o.model);
}

void add_align(CLI::App& app, AlignArguments& o) {
  app.add_option("source", o.source, "text")->required();
  app.add_option("target", o.target, "its translation (default: what the model makes of it)");
  add_checkpoint(app, o.model);
  add_search(app, o.search);
  add_field(app, align_format_field(&AlignArguments::output), o);
  add_field(
      app,
      models::choice_field<AlignArguments, AlignUnits>(
          "units", "what is aligned, words between blanks or the model's tokens. One of",
          &AlignArguments::units, {{AlignUnits::words, "words"}, {AlignUnits::tokens, "tokens"}}),
      o);
  app.add_option("--out", o.output.out, "file to write (default: standard output)");
  add_width(app, o.output.width);
}

void add_report(CLI::App& app, ReportArguments& o) {
  app.add_option("source", o.source, "text to translate (default: what it was validated on)");
  app.add_option("target", o.target, "its translation (default: the source is a TSV of both)");
  add_swap(app, o)->excludes(app.get_option("target"))->needs(app.get_option("source"));
  add_checkpoint(app, o.model, "checkpoint, with log.jsonl beside it");
  add_search(app, o.search);
  add_bleu(app, o.bleu);
  app.add_option("--examples", o.examples, "sentences to show")->check(in_range(0, 1000));
  app.add_option("--out", o.out, "file to write (default: report.html beside the model)");
}

void add_curves(CLI::App& app, CurvesArguments& o) {
  app.add_option("logs", o.logs, "directories of runs, or files of JSON lines as their log.jsonl")
      ->transform(file_of_directory("log.jsonl"))
      ->required();
  app.add_option("--field", o.field, "what is drawn: bleu, valid_perplexity, loss, ...");
  app.add_option("--against", o.against, "along the bottom: minutes, or a field such as step");
  app.add_option("--title", o.title, "above the chart");
  app.add_option("--out", o.out, "SVG file to write");
}

void add_average(CLI::App& app, AverageArguments& o) {
  app.add_option("checkpoints", o.models, "of one run")->transform(best_of_directory())->required();
  app.add_option("--out", o.out, "file to write");
}

void add_export(CLI::App& app, ExportArguments& o) {
  add_checkpoint(app, o.model);
  app.add_option("--out", o.out, "what the names of the files begin with");
}

/// The arguments of a command line, those of a file first.
std::vector<std::string> with_file(int argc, char** argv, const std::string& config) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!config.empty()) {
    const std::vector<std::string> more = arguments_of_file(config);
    arguments.insert(arguments.begin() + 1, more.begin(), more.end());
  }
  return arguments;
}

void parse_once(int argc, char** argv, const std::string& config, CommandLine& line,
                std::unique_ptr<CLI::App>& app) {
  app = make_app(
      "translate", "Trains translators with attention, and translates with them.",
      "translate train --source a.en --target a.de --valid-source b.en --valid-target b.de");
  CLI::App* train =
      add_command(*app, "train", "train a model on two text files, or a TSV",
                  "--source a.en --target a.de --valid-source b.en --valid-target b.de");
  CLI::App* translate =
      add_command(*app, "translate", "translate lines", "test.en --beam 8 --best 3");
  CLI::App* evaluate = add_command(*app, "evaluate", "BLEU, chrF and perplexity of a model",
                                   "test.en test.de --out written.de");
  CLI::App* compare =
      add_command(*app, "compare", "a table of models: perplexity, BLEU, BLEU by length",
                  "test.en test.de first-model second-model");
  CLI::App* score = add_command(
      *app, "score", "the log-probability of each of some given translations", "test.en test.de");
  CLI::App* align = add_command(*app, "align", "where the model looks for each word it writes",
                                "test.en --format html --out attention.html");
  CLI::App* report = add_command(
      *app, "report", "an HTML page: learning curves, BLEU by length, attention, translations",
      "test.en test.de --out test.html");
  CLI::App* curves = add_command(*app, "curves", "learning curves of several runs, drawn as SVG",
                                 "first-model second-model");
  CLI::App* average =
      add_command(*app, "average", "a model with the mean weights of several checkpoints",
                  "a.safetensors b.safetensors --out mean.safetensors");
  CLI::App* exported =
      add_command(*app, "export", "the subword models and vocabularies of a checkpoint, as files",
                  "--out small    then: translate train --source-pieces small.source.model ...");
  CLI::App* inspect = add_command(*app, "inspect", "what is in a checkpoint", "translate-model");
  for (CLI::App* sub : {train, translate, evaluate, compare, score, align, report, curves, average,
                        exported, inspect}) {
    add_threads(*sub, line.threads);
  }
  add_train(*train, line.train);
  add_translate(*translate, line.translate);
  add_evaluate(*evaluate, line.evaluate);
  add_compare(*compare, line.compare);
  add_score(*score, line.score);
  add_align(*align, line.align);
  add_report(*report, line.report);
  add_curves(*curves, line.curves);
  add_average(*average, line.average);
  add_export(*exported, line.exported);
  inspect->add_option("checkpoint", line.inspect, "to look into")->transform(best_of_directory());
  parse_arguments(*app, with_file(argc, argv, config));
}

/// Options that were not given come from a file, where one is named.
void parse(int argc, char** argv, CommandLine& line, std::unique_ptr<CLI::App>& app) {
  const CommandLine before = line;
  parse_once(argc, argv, {}, line, app);
  const std::string config = line.train.config;
  if (config.empty()) return;
  line = before;
  parse_once(argc, argv, config, line, app);
}

int run(int argc, char** argv) {
  CommandLine line;
  const std::string name = read_command(argc, argv, parse, line, stored_options);
  if (name.empty()) return 0;
  if (name == "train" && !line.train.resume) {  // a run that goes on has the options it had
    check_effects(argc, argv, train_fields(), line.train);
    check_effects(argc, argv, models::seq2seq_fields(), line.train.model.network);
  }
  use_threads(line.threads);
  if (name == "translate") return translate(line.translate);
  if (name == "evaluate") return evaluate_files(line.evaluate);
  if (name == "compare") return compare(line.compare);
  if (name == "score") return score(line.score);
  if (name == "align") return align(line.align);
  if (name == "report") return report(line.report);
  if (name == "curves") return curves(line.curves);
  if (name == "average") return average(line.average);
  if (name == "export") return export_text(line.exported);
  if (name == "inspect") return inspect(line.inspect);
  return train(line.train);
}

}  // namespace
}  // namespace attune::translate

int main(int argc, char** argv) {
  return attune::run_program("translate", [&] { return attune::translate::run(argc, argv); });
}
