// `attune evaluate` and `attune compare`.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <attune/models/metrics/bleu.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

#include "commands.hpp"
#include "evaluation.hpp"
#include "support/chart.hpp"
#include "support/log.hpp"
#include "support/output.hpp"
#include "support/run_directory.hpp"

namespace attune::pairs {
namespace {

using Json = nlohmann::ordered_json;
constexpr CountNames names = {.examples = "pairs", .right = "exact match"};

/// Adds another target of each source, a line each; an empty line is none.
void add_references(TestPairs& pairs, const std::filesystem::path& file) {
  std::vector<std::string> lines = text::read_lines(text::LineReader(file));
  if (lines.size() != pairs.size()) {
    fail(file.string(),
         fmt::format("{} lines, expected one for each of {} pairs", lines.size(), pairs.size()));
  }
  for (std::size_t i = 0; i < lines.size(); ++i)
    pairs.references[i].push_back(single_blanks(lines[i]));
}

/// BLEU TAB chrF TAB prediction, a line for each pair.
std::string scores_of(std::span<const std::string> lines, const TestPairs& pairs,
                      const metrics::BleuOptions& bleu) {
  std::string scores;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto references = std::span(pairs.references).subspan(i, 1);
    scores += fmt::format("{:.2f}\t{:.2f}\t{}\n",
                          metrics::sentence_bleu(lines[i], references.front(), bleu).bleu,
                          metrics::corpus_chrf(lines.subspan(i, 1), references), lines[i]);
  }
  return scores;
}

/// One warning for all pairs: they may be in another language than the model.
void warn_of_unknown(const text::Codec& source, const TestPairs& pairs) {
  constexpr std::ptrdiff_t shown = 5;
  std::set<std::string> kinds;
  std::size_t tokens = 0, unknown = 0;
  for (const std::string& line : pairs.lines) {
    for (const std::string& token : source.tokenizer.encode(line)) {
      ++tokens;
      if (source.vocabulary.id(token) != text::Vocabulary::unknown) continue;
      ++unknown;
      kinds.insert(fmt::format("'{}'", printable(token)));
    }
  }
  if (unknown == 0) return;
  const auto end = std::next(kinds.begin(), std::min(shown, std::ssize(kinds)));
  const std::vector<std::string> first(kinds.begin(), end);
  complain(
      "warning: {}: {} of {} source tokens were never seen in training and are read as <unk>: "
      "{}{}\n",
      printable(pairs.name), unknown, tokens, fmt::join(first, ", "),
      std::ssize(kinds) > shown ? fmt::format(" and {} more kinds", std::ssize(kinds) - shown)
                                : "");
}

/// The ten mistakes that the model was surest of.
void print_mistakes(const TestPairs& pairs, const Evaluation& result) {
  constexpr std::size_t most = 10, width = 24;
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (!result.written[i].right) wrong.push_back(i);
  if (wrong.empty()) return;
  std::ranges::stable_sort(wrong, std::ranges::greater(),
                           [&](std::size_t i) { return result.written[i].log_probability; });
  say("\n{} mistake{}{}\nprobability  {:<{}}  {:<{}}  source\n", wrong.size(),
      wrong.size() == 1 ? "" : "s",
      wrong.size() > most ? fmt::format("; the {} with the greatest probability", most) : "",
      "written", width, "expected", width);
  wrong.resize(std::min(wrong.size(), most));
  for (const std::size_t i : wrong) {
    say("{:>11.4g}  {:<{}}  {:<{}}  {}\n", std::exp(result.written[i].log_probability),
        printable(result.written[i].text), width, printable(pairs.references[i].front()), width,
        printable(pairs.lines[i]));
  }
}

void print_result(const TestPairs& pairs, const Evaluation& result, const Model& model,
                  double seconds) {
  const bool sentences = model.of_sentences();
  say("{}\n{}  ({} pairs, {:.1f} a second)\n", printable(pairs.name), summary(result, sentences),
      pairs.size(), static_cast<double>(pairs.size()) / seconds);
  if (sentences) return;
  say("\n");
  print_table(result.counts, names);
  const auto confusions = most_frequent(result.confusions, model.target().vocabulary, 10);
  if (!confusions.empty()) say("\n{:<10}  {:<10}  {:>6}\n", "expected", "written", "times");
  for (const auto& row : confusions)
    say("{:<10}  {:<10}  {:>6}\n", printable(row[0]), printable(row[1]), row[2]);
  print_mistakes(pairs, result);
}

void print_json(const TestPairs& pairs, const Evaluation& result, const Model& model,
                std::size_t models, double seconds) {
  const Counts all = result.total();
  Json json = {{"data", pairs.name},
               {"models", models},
               {"pairs", pairs.size()},
               {"exact_match", all.share_right()},
               {"word_error", 1 - all.share_right()},
               {"token_error", all.edits.rate()},
               {"bleu", result.bleu},
               {"chrf", result.chrf},
               {"perplexity", result.perplexity()},
               {"seconds", seconds}};
  json["all"] = Json::parse(json_of(all, names));
  for (const auto& [length, some] : result.counts)
    json["by_length"][std::to_string(length)] = Json::parse(json_of(some, names));
  json["confusions"] = Json::array();
  for (const auto& row : most_frequent(result.confusions, model.target().vocabulary, 100)) {
    json["confusions"].push_back(
        {{"expected", row[0]}, {"written", row[1]}, {"times", std::stol(row[2])}});
  }
  say("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

/// Throws where the files to write are read, too, or are one.
void check_outputs(const UseOptions& o, const std::vector<std::filesystem::path>& models) {
  std::vector<std::filesystem::path> inputs = o.references;
  inputs.insert(inputs.end(), {o.file, o.target});
  inputs.insert(inputs.end(), models.begin(), models.end());
  for (const std::filesystem::path& file : {o.out, std::filesystem::path(o.sentences)})
    if (!file.empty()) require_writable(file, inputs);
  using std::filesystem::weakly_canonical;
  if (!o.out.empty() && !o.sentences.empty() &&
      weakly_canonical(o.out) == weakly_canonical(o.sentences)) {
    fail("--sentences", o.out.string() + " is written by --out: another file was expected");
  }
}

}  // namespace

int evaluate_pairs(const UseOptions& o) {
  const auto files = model_files(o.models);
  check_outputs(o, files);
  const std::vector<Model> models = load_models(files);
  TestPairs pairs = pairs_for(o, models);
  for (const auto& file : o.references) add_references(pairs, file);
  warn_of_unknown(models.front().source(), pairs);
  const metrics::BleuOptions bleu = bleu_for(models.front(), o.bleu);
  const models::SearchOptions search = search_for(models, o.search);
  const auto start = std::chrono::steady_clock::now();
  const Evaluation result = evaluate(models, pairs, search, bleu);
  const double seconds = seconds_since(start);
  if (result.cut() > 0) {
    complain("warning: {} of {} predictions are cut at --max-length {}\n", result.cut(),
             pairs.size(), search.max_length);
  }
  const std::vector<std::string> lines = result.lines();
  if (!o.out.empty()) write_file(o.out, fmt::format("{}\n", fmt::join(lines, "\n")));
  if (!o.sentences.empty()) write_file(o.sentences, scores_of(lines, pairs, bleu));
  o.json ? print_json(pairs, result, models.front(), models.size(), seconds)
         : print_result(pairs, result, models.front(), seconds);
  return 0;
}

// ---- compare

namespace {

struct Row {
  std::string name;
  Index parameters = 0;
  Evaluation result;
  std::vector<metrics::BleuStatistics> statistics;  // of each pair
  std::vector<metrics::LengthBucket> by_length;
};

Row row_of(const std::filesystem::path& path, const std::string& name, const UseOptions& o) {
  const Model model = Model::load(path);
  const TestPairs pairs = pairs_for(o, alone(model));
  const metrics::BleuOptions bleu = bleu_for(model, o.bleu);
  Row row{name,
          model.parameters().count(),
          evaluate(alone(model), pairs, search_for(alone(model), o.search), bleu),
          {},
          {}};
  row.statistics = metrics::bleu_statistics(row.result.lines(), pairs.references, bleu);
  row.by_length = metrics::bleu_by_length(row.statistics, pairs.source_lengths(), o.lengths, bleu);
  return row;
}

std::string range_of(const metrics::LengthBucket& bucket) {
  if (bucket.longest == bucket.shortest) return std::to_string(bucket.shortest);
  return bucket.longest ? fmt::format("{}-{}", bucket.shortest, *bucket.longest)
                        : fmt::format("{}-", bucket.shortest);
}

void print_header(const Row& first, std::size_t width) {
  say("{:{}} {:>11} {:>8} {:>8} {:>10} {:>6} {:>7} {:>7} ", "", width, "", "exact", "token", "", "",
      "", "");
  say(" BLEU by words of the source\n");
  say("{:{}} {:>11} {:>8} {:>8} {:>10} {:>6} {:>7} {:>7} ", "model", width, "parameters",
      "match, %", "error, %", "perplexity", "BLEU", "change", "p");
  for (const auto& bucket : first.by_length) say(" {:>6}", range_of(bucket));
  say("\n{:{}} {:>63} ", "pairs", width, "");
  for (const auto& bucket : first.by_length) say(" {:>6}", bucket.sentences);
  say("\n");
}

void print_row(const Row& row, const Row& first, std::size_t width,
               const metrics::BleuOptions& bleu) {
  say("{:{}} {:>11} {:>8.2f} {:>8.2f} {:>10.2f} {:>6.2f} ", row.name, width, row.parameters,
      100 * row.result.exact_match(), 100 * row.result.token_error(), row.result.perplexity(),
      row.result.bleu);
  if (&row == &first) {
    say("{:>7} {:>7} ", "", "");
  } else {
    const auto paired = metrics::paired_bootstrap(row.statistics, first.statistics, {}, bleu);
    say("{:>+7.2f} {:>7.3f} ", paired.difference, paired.p_value);
  }
  for (const auto& bucket : row.by_length)
    say(" {:>6}", bucket.sentences > 0 ? fmt::format("{:.2f}", bucket.score.bleu) : "-");
  say("\n");
}

void print_json(const Row& row) {
  Json by_length;
  for (const auto& bucket : row.by_length) {
    auto& bleu = by_length[range_of(bucket)];  // null without pairs
    if (bucket.sentences > 0) bleu = bucket.score.bleu;
  }
  const Json json = {{"model", row.name},
                     {"parameters", row.parameters},
                     {"exact_match", row.result.exact_match()},
                     {"token_error", row.result.token_error()},
                     {"perplexity", row.result.perplexity()},
                     {"bleu", row.result.bleu},
                     {"by_length", by_length}};
  say("{}\n", json.dump());
}

/// What is drawn where nothing is said: what the weights of the first log were chosen by.
std::string field_of(const std::filesystem::path& log) {
  const std::filesystem::path best = log.parent_path() / "best.safetensors";
  if (!std::filesystem::exists(best)) return "bleu";
  return Model::load(best).of_sentences() ? "bleu" : "exact_match";
}

int draw_curves(const UseOptions& o) {
  std::vector<std::filesystem::path> logs;
  for (const auto& path : o.models)
    logs.push_back(std::filesystem::is_directory(path)     ? path / "log.jsonl"
                   : path.filename() == "best.safetensors" ? path.parent_path() / "log.jsonl"
                                                           : path);
  if (logs.empty())
    fail("--model", "directories of trainings, or files of JSON lines, were expected");
  require_writable(o.curves, logs);
  const std::string field = o.field.empty() ? field_of(logs.front()) : o.field;
  const bool minutes = o.against == "minutes";
  const std::string against = minutes ? "seconds" : o.against;
  report::Chart chart{.title = o.title, .x_label = o.against, .y_label = field, .series = {}};
  const std::vector<std::string> names = run_names(logs);
  for (std::size_t i = 0; i < logs.size(); ++i) {
    report::Series series =
        report::curve(report::read_log(logs[i].string()), field, names[i], 1, against);
    if (std::ranges::none_of(series.y, [](double y) { return std::isfinite(y); }))
      fail(logs[i].string(), fmt::format("no line has numbers \"{}\" and \"{}\"", field, against));
    for (double& x : series.x) x /= minutes ? 60 : 1;
    chart.series.push_back(std::move(series));
  }
  write_file(o.curves, report::svg(chart));
  say("{}\n", o.curves);
  return 0;
}

}  // namespace

int compare(const UseOptions& o) {
  if (!o.curves.empty()) return draw_curves(o);
  std::vector<Row> rows;
  const auto files = model_files(o.models);
  const std::vector<std::string> names = run_names(files);
  for (std::size_t i = 0; i < names.size(); ++i) rows.push_back(row_of(files[i], names[i], o));
  const metrics::BleuOptions bleu = bleu_for(Model::load(files.front()), o.bleu);
  std::size_t width = std::string_view("model").size();
  for (const Row& row : rows) width = std::max(width, row.name.size());
  if (!o.json) print_header(rows.front(), width);
  for (const Row& row : rows) o.json ? print_json(row) : print_row(row, rows.front(), width, bleu);
  return 0;
}

}  // namespace attune::pairs
