// long_sentences: what attention is for. Models with and without it are trained on one task, and
// tested on sentences of 5 to 60 words (Cho et al., 2014, "On the properties of neural machine
// translation"; Bahdanau et al., 2014, figure 2; Luong et al., 2015, figure 7).
#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/models/any_model.hpp>
#include <attune/models/search.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/threads.hpp>

#include "support/chart.hpp"
#include "support/commands.hpp"
#include "support/comparing.hpp"
#include "support/log.hpp"
#include "support/output.hpp"
#include "support/page.hpp"
#include "support/processes.hpp"
#include "support/run_directory.hpp"
#include "support/training_options.hpp"
#include "task.hpp"

namespace attune::long_sentences {
namespace {

constexpr Index words_of_language = 80;
constexpr Index batch_size = 64;  // sentences, all of one length
constexpr Index tested = 50;      // sentences of each length

/// Lengths of the test sentences; each set has no other.
constexpr std::array<Index, 7> lengths = {5, 10, 20, 30, 40, 50, 60};

/// What a model is trained on; all models are tested on all lengths.
struct Setting {
  std::string name;
  Index longest;  // sentence in training
};
const std::array<Setting, 2> settings = {{{"a", 20}, {"b", lengths.back()}}};

/// The same for every variant.
struct TrainOptions {
  std::filesystem::path out = "long-sentences";
  Index steps = 1500;
  Index hidden = 64;  // a multiple of 8
};

/// A run, and a line of results.jsonl: its setting, variant, seed, steps and hidden; once it is made,
/// the share of target positions that are right at each length (accuracy_5 ...), the number of
/// parameters, and seconds of processor time.
using Record = nlohmann::ordered_json;

std::string accuracy_at(Index length) { return fmt::format("accuracy_{}", length); }

std::string name_of(const Record& one) {
  return fmt::format("{} {} seed {}", one.at("setting").get<std::string>(),
                     one.at("variant").get<std::string>(), one.at("seed").get<std::uint64_t>());
}

/// A model of a paper, and the options in which it differs from the paper's defaults.
struct Variant {
  std::string name;
  std::string model;  // one of models::model_kinds()
  std::vector<std::pair<std::string, std::string>> changes = {};
  double rate = 6e-3;  // of Adam, at its highest
};

/// All of them, those without attention first.
const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = {
      {"encoder-decoder", "encoder-decoder"},
      {"sutskever", "sutskever"},
      {"bahdanau", "bahdanau"},
      {"nematus", "nematus"},
      {"transformer", "transformer", {{"encoder-layers", "2"}, {"decoder-layers", "2"}}, 2e-3},
      {"luong-dot", "luong", {{"score", "dot"}}},
      {"luong-scaled-dot", "luong", {{"score", "scaled-dot"}}},
      {"luong-general", "luong", {{"score", "general"}}},
      {"luong-concat", "luong", {{"score", "concat"}}},
      {"luong-location", "luong", {{"score", "location"}}},
      {"luong-cosine", "luong", {{"score", "cosine"}}},
      {"luong-multi-head", "luong", {{"score", "multi-head"}}},
      {"luong-local-m", "luong", {{"window", "local-m"}}},
      {"luong-local-p", "luong", {{"window", "local-p"}}},
      {"luong-local-p-20", "luong", {{"window", "local-p"}, {"half-width", "20"}}},
      {"luong-sparsemax", "luong", {{"normalizer", "sparsemax"}}}};
  return all;
}

/// Layers of `hidden` units, one unless the variant has more; word vectors and scores of half that
/// size.
models::AnyModelOptions options_of(const Variant& variant, Index hidden) {
  const std::string size = std::to_string(hidden), half = std::to_string(hidden / 2),
                    inner = std::to_string(4 * hidden), longest = std::to_string(lengths.back());
  auto options = models::model_options(variant.model, {{"hidden", size.c_str()},
                                                       {"readout", size.c_str()},
                                                       {"embedding", half.c_str()},
                                                       {"attention", half.c_str()},
                                                       {"longest", longest.c_str()},
                                                       {"inner", inner.c_str()},
                                                       {"layers", "1"}});
  for (const auto& [name, value] : variant.changes) models::set(options, name, value);
  return options;
}

/// Trains and tests. The results depend on the record alone, except for the seconds. Lengths in
/// training are 1 + ⌊longest · u²⌋ with u uniform in [0, 1): a third of the batches are shorter than
/// 7 of 60 words, which a model without attention can learn, and cheap; the long ones, which only
/// attention can learn, occur from the first step on.
Record run(Record record) {
  const std::clock_t start = std::clock();
  const auto seed = record.at("seed").get<std::uint64_t>();
  const Index steps = record.at("steps");
  const Task task(words_of_language, seed);
  const std::string setting = record.at("setting");
  const Index longest = std::ranges::find(settings, setting, &Setting::name)->longest;
  nn::Parameters parameters(seed);
  const Variant& variant = variant_named(variants(), record.at("variant"));
  const models::AnyModel model(parameters, options_of(variant, record.at("hidden")),
                               task.vocabularies());
  nn::Adam adam(parameters);
  const nn::WarmUp<nn::LinearDecay> schedule{.steps = 50, .next = late_decay(variant.rate, steps)};
  Random training(seed, "training"), test(seed, "test");
  for (Index step = 0; step < steps; ++step) {
    const double u = training.uniform();
    const Index length = 1 + static_cast<Index>(static_cast<double>(longest) * u * u);
    Gradients gradients =
        backward(model.loss(text::make_batch(task.pairs(length, batch_size, training))));
    nn::clip_by_global_norm(gradients, 1.0);
    adam.set_rate(schedule(step));
    adam.step(gradients);
  }
  for (const Index length : lengths)
    record[accuracy_at(length)] = accuracy(model, task.pairs(length, tested, test));
  record["parameters"] = parameters.count();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  record["seconds"] = std::round(10 * seconds) / 10;
  return record;
}

/// Throws unless it has all fields, and these numbers of steps and units.
Record record_of(const std::string& line, const TrainOptions& options) try {
  const Record record = Record::parse(line);
  for (const auto& [name, value] : {std::pair{"steps", options.steps}, {"hidden", options.hidden}})
    if (const Index stored = record.at(name); stored != value)
      throw Error(
          fmt::format("a result of --{} {}, not {}: use another --out", name, stored, value));
  name_of(record), record.at("parameters").get<Index>(), record.at("seconds").get<double>();
  for (const Index length : lengths) record.at(accuracy_at(length)).get<double>();
  return record;
} catch (const nlohmann::json::exception&) {
  throw Error("not a result of long_sentences");
}

/// The records of a file. Ignores a truncated last line. Throws "FILE:LINE: ..." as record_of does.
std::vector<Record> read_records(const std::filesystem::path& file, const TrainOptions& options) {
  const std::string text = read_file(file);
  std::vector<Record> records;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    records.push_back(reading(fmt::format("{}:{}", file.string(), records.size() + 1),
                              [&] { return record_of(text.substr(begin, end - begin), options); }));
  return records;
}

/// Percent of the words that are right: a row for each variant that has records, a column for each
/// length, and the values of the seeds in each cell.
struct Table {
  std::vector<std::string> variants;
  std::vector<std::vector<Spread>> rows;
};

Table table_of(const std::vector<Record>& records, const Setting& setting) {
  Table table;
  for (const Variant& variant : variants()) {
    std::vector<Spread> row(lengths.size());
    for (const Record& record : records) {
      if (record.at("setting") != setting.name || record.at("variant") != variant.name) continue;
      for (std::size_t i = 0; i < lengths.size(); ++i)
        row[i].values.push_back(100 * record.at(accuracy_at(lengths[i])).get<double>());
    }
    if (row.front().values.empty()) continue;
    table.variants.push_back(variant.name);
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// The curves of the variants that it `shows`.
void add_chart(report::Page& page, const std::string& title, const Table& table, auto shows) {
  report::Chart chart{.title = title,
                      .x_label = "words of the sentence",
                      .y_label = "target words right, percent",
                      .series = {},
                      .y_includes = {0, 100}};
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (!shows(table.variants[i])) continue;
    report::Series curve{table.variants[i], {lengths.begin(), lengths.end()}, {}};
    for (const auto& [values] : table.rows[i])
      curve.y.push_back(std::reduce(values.begin(), values.end()) /
                        static_cast<double>(values.size()));
    chart.series.push_back(std::move(curve));
  }
  if (!chart.series.empty()) page.figure(report::svg(chart), "");
}

void add_setting(report::Page& page, const Setting& setting, const Table& table) {
  const std::string trained = fmt::format("trained on lengths up to {}", setting.longest);
  std::vector<std::string> columns;
  for (const Index length : lengths) columns.push_back(std::to_string(length));
  say("\n{}: {}", setting.name, trained);
  TableRows rows = print_table("words right, %", columns, table.variants, table.rows, 1);
  page.heading(fmt::format("Setting {}: {}", setting.name, trained));
  const auto is_luong = [](const std::string& name) { return name.starts_with("luong"); };
  add_chart(page, "Models, " + trained, table,
            [&](const std::string& name) { return !is_luong(name) || name == "luong-general"; });
  add_chart(page, "Scores and windows, " + trained, table, is_luong);
  const std::vector<std::string> header = rows.front();
  rows.erase(rows.begin());
  page.table(header, rows);
}

/// Prints a table for each setting that has results, and writes report.html.
void report_on(const std::vector<Record>& records, const TrainOptions& options) {
  report::Page page("Long sentences, with and without attention");
  page.paragraph(
      "Models translate random sentences word by word, with a dictionary; the form of each word "
      "depends on the word before. Without attention (encoder-decoder, sutskever) the decoder "
      "knows of the source only one vector, which cannot hold a sentence of 60 random words. With "
      "attention it looks at the source again for every word.");
  page.paragraph(
      "What the papers found: without attention, accuracy falls with the length of the sentence "
      "(Cho et al., 2014); with attention it stays level on the lengths of training (Bahdanau et "
      "al., 2014, figure 2; Luong et al., 2015, figure 7). Sentences longer than any in training "
      "have positions that the models have never seen: setting a shows how each one copes.");
  page.definitions({{"Words of the language", std::to_string(words_of_language)},
                    {"Units", std::to_string(options.hidden)},
                    {"Steps", std::to_string(options.steps)},
                    {"Sentences per step", std::to_string(batch_size)},
                    {"Test sentences per length", std::to_string(tested)}});
  for (const Setting& setting : settings) {
    const Table table = table_of(records, setting);
    if (!table.rows.empty()) add_setting(page, setting, table);
  }
  page.heading("How it was measured");
  page.paragraph(
      "Percent of the target words that are right, position by position, under greedy decoding: "
      "the mean and, of several seeds, ± the standard deviation. A seed decides language, "
      "sentences and initial values. All models have the same steps, sentences and units, and but "
      "for the Transformer the same learning rate.");
  write_file(options.out / "report.html", page.html());
  say("\n{}\n", (options.out / "report.html").string());
}

struct Options : Comparison {
  std::string setting = "both";
  TrainOptions train;
  bool quick = false;
};

/// All runs, without results: those of seed 1 first, so that there is soon a table of all variants.
std::vector<Record> runs_of(const Options& o) {
  std::vector<Record> runs;
  for (Index seed = 1; seed <= o.seeds; ++seed)
    for (const std::string& variant : o.variants)
      for (const Setting& setting : settings)
        if (o.setting == "both" || o.setting == setting.name)
          runs.push_back({{"setting", setting.name},
                          {"variant", variant},
                          {"seed", seed},
                          {"steps", o.train.steps},
                          {"hidden", o.train.hidden}});
  return runs;
}

/// Makes the runs of `left`, each in a process of its own; each result becomes a line of the log.
void make_runs(const Options& o, const std::vector<Record>& left, std::vector<Record>& done,
               report::LogWriter& log) {
  Progress progress(std::ssize(done), std::ssize(done) + std::ssize(left), "run");
  in_processes(
      left.size(), static_cast<int>(o.jobs),
      [&](std::size_t i) {
        set_threads(1);
        return reading(name_of(left[i]), [&] { return run(left[i]).dump(); });
      },
      [&](std::size_t, const std::string& line) {
        const Record& one = done.emplace_back(Record::parse(line));
        log.write_line(line);
        const auto at = [&](Index length) {
          return fmt::format("at {}: {:5.1f} %", length,
                             100 * one.at(accuracy_at(length)).get<double>());
        };
        progress.show(std::ssize(done),
                      fmt::format("{:26}  {}  {}  {:4.0f} s", name_of(one), at(lengths.front()),
                                  at(lengths.back()), one.at("seconds").get<double>()),
                      true);
      });
}

/// Makes the runs that OUT/results.jsonl does not have yet, and reports on all of them.
int experiment(Options o) {
  if (o.variants.empty()) o.variants = names_of(variants());
  for (const std::string& name : o.variants) variant_named(variants(), name);
  check_each_once("--variants", o.variants);
  if (o.train.hidden % 8 != 0)  // half of it has four heads
    fail("--hidden", fmt::format("{} is not a multiple of 8", o.train.hidden));
  make_directories(o.train.out);
  const DirectoryLock lock(o.train.out);
  const std::filesystem::path file = o.train.out / "results.jsonl";
  report::LogWriter log(file.string(), /*append=*/true);
  const std::vector<Record> known = read_records(file, o.train);
  std::vector<Record> done, left;
  for (const Record& one : runs_of(o)) {
    const auto at = std::ranges::find(known, name_of(one), name_of);
    at == known.end() ? left.push_back(one) : done.push_back(*at);
  }
  say("{} runs of {} steps, {} at once; {} are in {}\n", done.size() + left.size(), o.train.steps,
      o.jobs, done.size(), file.string());
  make_runs(o, left, done, log);
  report_on(done, o.train);
  return 0;
}

int run_command_line(int argc, char** argv) {
  using models::number_field, models::text_field;
  Options o;
  Commands commands("long_sentences",
                    "Accuracy by sentence length, of models with and without attention. All runs "
                    "take about 20 minutes of processor time, --quick takes one.",
                    "long_sentences --quick");
  commands.only("--quick", [&] { return experiment(o); })
      .add(
          {text_field<TrainOptions>(
               "out", "directory for results.jsonl and report.html; skips runs that it has",
               &TrainOptions::out),
           number_field<TrainOptions>("steps", "batches to train on", &TrainOptions::steps, 1, 1e9),
           number_field<TrainOptions>("hidden", "units of a layer; a multiple of 8",
                                      &TrainOptions::hidden, 8, 4096)},
          o.train)
      .add({models::choice_field<Options, std::string>(
                "setting",
                "lengths to train on: up to 20 (a), up to 60 (b), or both; all are tested up to 60",
                &Options::setting, {{"a", "a"}, {"b", "b"}, {"both", "both"}}),
            models::flag_field<Options, bool>(
                "quick",
                "setting b and one seed of encoder-decoder, bahdanau, luong-general and "
                "luong-local-m, unless other options are given",
                &Options::quick, false, true)},
           o)
      .add(comparison_fields<Options>(names_of(variants())), o, "", {"out"})
      .in_processes()
      .reread([&] {
        if (!o.quick) return false;
        o = {};
        o.setting = "b", o.seeds = 1;
        o.variants = {"encoder-decoder", "bahdanau", "luong-general", "luong-local-m"};
        return true;
      });
  return commands.run(argc, argv);
}

}  // namespace
}  // namespace attune::long_sentences

int main(int argc, char** argv) {
  return attune::run_program("long_sentences",
                             [&] { return attune::long_sentences::run_command_line(argc, argv); });
}
