// dates: an attention model that turns dates as people write them ("Wednesday June 27 2001",
// "16.01.75") into ISO dates (2001-06-27, 1975-01-16).
#include <algorithm>
#include <charconv>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/presets.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>

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
  PredictOptions predict;
  EvaluateOptions evaluate;
  CompareOptions compare;
  AlignOptions align;
  ReportOptions report;
  std::string model = "dates-model/best.safetensors";
  int threads = 0;
};

/// Any 64-bit number. CLI11 itself would take -1 for 2^64 - 1.
void add_seed(CLI::App& app, std::uint64_t& seed) {
  const auto set = [&seed](const std::string& text) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
    if (error != std::errc() || end != text.data() + text.size()) {
      throw CLI::ValidationError("--seed",
                                 fmt::format("'{}' is not a number from 0 to 2^64 - 1", text));
    }
  };
  app.add_option_function<std::string>("--seed", set, "of initial values, examples and dropout")
      ->default_str(std::to_string(seed))
      ->run_callback_for_default(false)
      ->type_name("NUMBER");
}

/// An option whose value is one of some names.
template <class T>
void add_choice(CLI::App& app, const std::string& option, T& value,
                const std::map<std::string, T>& names, const std::string& description) {
  std::string all, current;
  for (const auto& [name, meaning] : names) {
    all += all.empty() ? name : ", " + name;
    if (meaning == value) current = name;
  }
  const auto set = [=, &value](const std::string& text) {
    const auto at = names.find(text);
    if (at == names.end()) {
      throw CLI::ValidationError(option, fmt::format("'{}' is not one of {}", text, all));
    }
    value = at->second;
  };
  app.add_option_function<std::string>(option, set, fmt::format("{}: {}", description, all))
      ->default_str(current)
      ->run_callback_for_default(false)
      ->type_name("NAME");
}

/// Breaks lines at spaces.
std::string wrapped(const std::string& text, std::size_t width) {
  std::string result;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", begin + 1), text.size());
    if (text[begin] == '\n') column = 0;
    const bool breaks = text[begin] == ' ' && column + (end - begin) > width;
    result +=
        breaks ? "\n" + text.substr(begin + 1, end - begin - 1) : text.substr(begin, end - begin);
    column = breaks ? end - begin - 1 : column + (end - begin);
    begin = end;
  }
  return result;
}

struct HelpFormatter : CLI::Formatter {
  HelpFormatter() { column_width(32); }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(CLI::Formatter::make_option_desc(option), 66);
  }
};

/// What the options from this field on are about; "" within a group.
std::string group_at(const std::string& field) {
  return field == "embedding"      ? "Sizes"
         : field == "encoder-cell" ? "Wiring"
         : field == "score"        ? "Attention"
         : field == "readout-kind" ? "Output and regularisation"
                                   : "";
}

/// A published model first, then changes to it: CLI11 sets options in the order they are added in.
void add_model(CLI::App& app, ModelOptions& o) {
  std::string names;
  for (const models::Preset& preset : models::presets())
    names += fmt::format("\n- {}: {}", preset.name, preset.what);
  const auto set_preset = [&o, &app](const std::string& name) {
    if (name == o.name) return;
    o = model_options(name);
    for (const auto& field : models::seq2seq_fields())  // as --help shows them
      app.get_option("--" + field.name)->default_str(field.get(o.network));
  };
  app.add_option_function<std::string>(
         "--model", setting(set_preset),
         "published model to start from; it decides the defaults of what follows" + names)
      ->default_str(o.name)
      ->run_callback_for_default(false)
      ->type_name("NAME")
      ->group("Model");
  std::string group;
  for (const auto& field : models::seq2seq_fields()) {
    if (const std::string next = group_at(field.name); !next.empty()) group = next;
    add_field(app, field, o.network)->group(group);
  }
}

/// How long and on what to train.
void add_training(CLI::App& app, TrainOptions& o) {
  app.option_defaults()->group("Training");
  app.add_option("--steps", o.steps, "batches to train on")->check(in_range(1, 1000000000));
  app.add_option("--batch", o.batch, "examples in a batch")->check(in_range(1, 1 << 16));
  app.add_option("--rate", o.rate,
                 "learning rate of Adam: constant for half of the steps, then down to 2 % of it")
      ->check(in_range(1e-9, 10.0));
  app.add_option("--clip", o.clip, "largest global norm of the gradients")
      ->check(in_range(1e-9, 1e9));
  app.add_option("--precision", o.precision,
                 "of the matrix products of training: f32, or bf16 where the CPU has it (weights "
                 "stay f32)")
      ->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--validate-every", o.validate_every,
                 "steps between validations, each of which saves a checkpoint")
      ->check(in_range(1, 1000000000));
  add_seed(app, o.data.seed);
  app.option_defaults()->group("Data");
  app.add_option("--locales", o.data.locales,
                 "whose dates to generate: en, a list such as en,de,ja, or all");
  app.add_option("--held-out", o.data.held_out, "dates kept for validation")
      ->check(in_range(1, 36524));
  app.add_option("--train", o.data.train_file, "TSV file (source TAB target) to train on instead");
  app.add_option("--valid", o.data.valid_file, "TSV file to validate on instead");
}

void add_train(CLI::App& app, TrainOptions& o) {
  app.add_option("--out", o.out, "directory for best.safetensors, last.safetensors and log.jsonl")
      ->capture_default_str();
  app.add_flag("--resume", o.resume, "go on from last.safetensors, where there is one");
  add_training(app, o);
  add_model(app, o.model);
}

void add_compare(CLI::App& app, CompareOptions& o) {
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
  add_training(app, o.train);
  app.option_defaults()->group("Sizes, of all variants");
  app.add_option("--embedding", o.embedding, "size of a character's vector")
      ->check(in_range(1, 1 << 16));
  app.add_option("--hidden", o.hidden, "size of states, scores and readouts")
      ->check(in_range(1, 1 << 16));
  app.add_option("--half-width", o.half_width, "half width of a local window")
      ->check(in_range(1, 1 << 16));
  app.add_option("--dropout", o.dropout, "rate on embeddings, annotations and readouts")
      ->check(in_range(0.0, 0.99));
}

void add_align(CLI::App& app, CommandLine& line) {
  app.add_option("file", line.align.file, "TSV file: source TAB target, a line each")->required();
  app.add_option("--model", line.model, "checkpoint");
  add_choice<AlignFormat>(
      app, "--format", line.align.format,
      {{"pharaoh", AlignFormat::pharaoh},
       {"tsv", AlignFormat::tsv},
       {"json", AlignFormat::json},
       {"npy", AlignFormat::npy},
       {"terminal", AlignFormat::terminal},
       {"svg", AlignFormat::svg},
       {"html", AlignFormat::html},
       {"scores", AlignFormat::scores}},
      "pharaoh for links SOURCE-TARGET, from 0; tsv, json or npy (an array after the other) for "
      "weights; terminal, svg or html for drawings; scores for log-probabilities: source TAB "
      "target "
      "TAB sum TAB each character's and the end's. One of");
  add_choice<report::AlignedWord>(
      app, "--rule", line.align.rule,
      {{"current", report::AlignedWord::current}, {"previous", report::AlignedWord::previous}},
      "which character the weights of a step speak of: the one that it writes, or the one before");
  app.add_option("--out", line.align.out, "file to write (default: standard output)");
}

void add_predict(CLI::App& app, CommandLine& line) {
  app.add_option("dates", line.predict.sources, "dates; without any, lines of standard input");
  app.add_option("--model", line.model, "checkpoint");
  app.add_option("--beam", line.predict.beam,
                 "hypotheses kept by the search, up to 100; 1 is greedy")
      ->check(in_range(1, 100));
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
  app.add_option("--beam", line.evaluate.beam,
                 "hypotheses kept by the search, up to 100; 1 is greedy")
      ->check(in_range(1, 100));
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
      ->check(in_range(1, 1000));
}

/// CLI11 would take an argument "[a,b]" for two. It does not when something stands behind the
/// bracket, which is taken off again afterwards. In the reverse order that its parse wants.
constexpr char bracket_guard = '\x1f';
std::vector<std::string> protect_brackets(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (std::string& argument : arguments) {
    if (argument.starts_with('[') && argument.ends_with(']')) argument += bracket_guard;
  }
  std::ranges::reverse(arguments);
  return arguments;
}

/// Options that were not given come from the checkpoint when a run is resumed.
void parse(int argc, char** argv, CommandLine& line, CLI::App*& command,
           std::unique_ptr<CLI::App>& app) {
  app = std::make_unique<CLI::App>(
      "Turns dates as people write them into ISO dates, with an attention model.", "dates");
  app->require_subcommand(1);
  app->set_version_flag("--version", ATTUNE_VERSION, "print the version");
  app->option_defaults()->always_capture_default();
  app->formatter(std::make_shared<HelpFormatter>());
  app->footer("Example: dates train && dates predict \"3 May 79\"");
  CLI::App* train = app->add_subcommand("train", "train a model, on generated dates or on files");
  CLI::App* predict =
      app->add_subcommand("predict", "write the ISO date, with its probability and the attention");
  CLI::App* evaluate = app->add_subcommand("evaluate", "measure a model on a file");
  CLI::App* compare = app->add_subcommand(
      "compare", "train published models one after the other and print a table of them");
  CLI::App* align = app->add_subcommand(
      "align", "where a model looks, and what it thinks of the dates, for given pairs");
  CLI::App* report = app->add_subcommand(
      "report", "write an HTML page: learning curves, attention, the model's card");
  for (CLI::App* sub : {train, predict, evaluate, compare, align, report}) {
    sub->add_option("--threads", line.threads, "threads (default: ATTUNE_THREADS, or all CPUs)")
        ->check(in_range(1, 1024))
        ->default_str("");
  }
  add_train(*train, line.train);
  add_predict(*predict, line);
  add_evaluate(*evaluate, line);
  add_compare(*compare, line.compare);
  add_align(*align, line);
  add_report(*report, line);
  app->parse(protect_brackets(argc, argv));
  for (std::string& date : line.predict.sources) {
    if (date.ends_with(bracket_guard)) date.pop_back();
  }
  command = app->get_subcommands().front();
}

std::string no_command(const CLI::App& app) {
  constexpr const char* expected =
      "train, predict, evaluate, compare, align or report was expected";
  const std::vector<std::string> rest = app.remaining();
  return rest.empty() ? fmt::format("no command: {}", expected)
                      : fmt::format("'{}' is not a command: {}", rest.front(), expected);
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
  } catch (const CLI::CallForVersion&) {
    fmt::print("attune {}\n", ATTUNE_VERSION);
    return 0;
  } catch (const CLI::ParseError& error) {
    throw Error(app->get_subcommands().empty() ? no_command(*app) : error.what());
  }
  line.threads > 0 ? set_threads(line.threads) : void(threads());  // which checks ATTUNE_THREADS
  line.predict.model = line.evaluate.model = line.align.model = line.report.model = line.model;
  const std::string name = command->get_name();
  return name == "train"      ? train(line.train)
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
