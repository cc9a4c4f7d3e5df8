#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/models/heatmap.hpp>
#include <attune/models/metrics.hpp>
#include <attune/tensor/file.hpp>

#include "chart.hpp"
#include "commands.hpp"
#include "evaluation.hpp"
#include "log.hpp"
#include "output.hpp"
#include "page.hpp"
#include "run_directory.hpp"

namespace attune::pairs {
namespace {

void add_summary(report::Page& page, const Measured& m) {
  double seconds = 0;
  for (const Model& model : m.models)
    if (!model.entry("seconds").empty()) seconds += seconds_in(model.metadata());
  std::vector<std::pair<std::string, std::string>> tiles;
  if (m.sentences()) {
    const metrics::Interval interval = metrics::bleu_interval(m.statistics(), {}, m.bleu);
    tiles = {
        {"BLEU", fmt::format("{:.2f}", m.result.bleu)},
        {"95 % of resampled texts", fmt::format("{:.2f} to {:.2f}", interval.low, interval.high)},
        {"chrF", fmt::format("{:.2f}", m.result.chrf)}};
  } else {
    const Counts all = m.result.total();
    tiles = {{"Exact match", share(all.right, all.examples)},
             {"Token error", share(all.edits.count(), all.edits.expected)}};
  }
  tiles.insert(tiles.end(), {{"Perplexity", fmt::format("{:.2f}", m.result.perplexity())},
                             {"Pairs", grouped(std::ssize(m.pairs.lines))},
                             {"Models", std::to_string(m.models.size())},
                             {"Parameters of each", grouped(m.first().parameters().count())}});
  if (seconds > 0) tiles.push_back({"Trained for", duration(seconds)});
  page.definitions(tiles);
  page.paragraph(fmt::format(
      "Model: {}; it reads {} and writes {}. Measured on {} with beam size {}.{}",
      m.first().network().options().name, kind_of(m.first().source().tokenizer),
      kind_of(m.first().target().tokenizer), m.pairs.name, m.search.beam,
      m.sentences() ? ""
                    : " An exact match is a target without any mistake; token errors are "
                      "substitutions, deletions and insertions."));
}

void add_bleu_by_length(report::Page& page, const Measured& m) {
  constexpr std::int64_t limits[] = {5, 10, 15, 20, 30, 50};
  TableRows rows;
  for (const auto& bucket : m.by_length(limits)) {
    if (bucket.sentences == 0) continue;
    rows.push_back({bucket.longest ? fmt::format("{} to {}", bucket.shortest, *bucket.longest)
                                   : fmt::format("from {}", bucket.shortest),
                    grouped(bucket.sentences), fmt::format("{:.2f}", bucket.score.bleu)});
  }
  page.heading("BLEU by length").table({"words of the source", "sentences", "BLEU"}, rows);
}

void add_errors(report::Page& page, const Measured& m) {
  page.heading("Errors by length")
      .table({"tokens", "pairs", "exact match, %", "token error, %", "substi\u00adtutions",
              "dele\u00adtions", "inser\u00adtions"},  // which break where there is no room
             rows_by_length(m.result.counts));
  TableRows confusions = most_frequent(m.result.confusions, m.first().target().vocabulary, 20);
  if (confusions.empty()) return;
  for (std::vector<std::string>& row : confusions) row[2] = grouped(std::stol(row[2]));
  page.heading("Confusion matrix: its largest entries");
  page.paragraph("∅ is nothing: a token that is missing, or one too many.");
  page.table({"expected", "written", "times"}, confusions);
}

void add_curves(report::Page& page, const Measured& m) {
  report::Chart quality{.title = m.sentences() ? "BLEU of the validation pairs"
                                               : "Exact match of the validation pairs",
                        .x_label = "update",
                        .y_label = m.sentences() ? "BLEU" : "percent",
                        .series = {}},
      loss{.title = "Loss",
           .x_label = "update",
           .y_label = "cross-entropy per token",
           .series = {},
           .log_y = !m.sentences()};
  const std::vector<std::string> names = run_names(m.files);
  const bool several = names.size() > 1;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::filesystem::path path = m.files[i].parent_path() / "log.jsonl";
    if (!std::filesystem::exists(path)) continue;
    const auto log = report::read_log(path.string());
    quality.series.push_back(report::curve(log, m.sentences() ? "bleu" : "exact_match",
                                           several ? names[i] : "", m.sentences() ? 1 : 100));
    loss.series.push_back(report::curve(log, "loss", several ? names[i] : "training"));
    if (!several) loss.series.push_back(report::curve(log, "valid_loss", "validation"));
  }
  if (quality.series.empty()) return;
  page.heading("Learning curves");
  page.figure(report::svg(quality), "");
  page.figure(report::svg(loss),
              "The training loss is with dropout and label smoothing, where there are any, that of "
              "the validation pairs without.");
}

/// The numbers of some pairs, from the shortest source to the longest: up to half of them mistakes,
/// which come first.
std::vector<std::size_t> chosen_examples(const Measured& m, std::size_t count) {
  std::vector<std::size_t> of_kind[2], some;  // those that are wrong, and those that are right
  for (std::size_t i = 0; i < m.pairs.sources.size(); ++i)
    if (!m.pairs.sources[i].empty()) of_kind[m.result.written[i].right].push_back(i);
  const std::size_t right = std::min(count, of_kind[true].size()),
                    wrong = std::min(of_kind[false].size(), std::max(count / 2, count - right));
  for (const bool is_right : {false, true}) {
    std::vector<std::size_t> lengths;
    for (const std::size_t i : of_kind[is_right]) lengths.push_back(m.pairs.sources[i].size());
    for (const std::size_t n : from_short_to_long(lengths, is_right ? count - wrong : wrong))
      some.push_back(of_kind[is_right][n]);
  }
  return some;
}

/// What the models attend to, and the best predictions.
void add_examples(report::Page& page, const Measured& m, std::size_t count) {
  const std::vector<std::size_t> some = chosen_examples(m, count);
  if (some.empty()) return;
  std::vector<text::Sentence> sources;
  for (const std::size_t i : some) sources.push_back(m.pairs.sources[i]);
  models::SearchOptions search = m.search;
  if (search.best == 1) search.best = std::min<Index>(search.beam, 3);
  const auto written = models::translate(network_of(m.models), sources, {.how = search});
  if (std::ranges::any_of(m.models, &Model::attends)) {
    page.heading("Attention");
    page.paragraph(
        "Each row is a token that was written, each column one that was read; the stronger a cell, "
        "the more of the attention went there. Mistakes come first.");
  }
  TableRows rows;
  for (std::size_t n = 0; n < some.size(); ++n) {
    const std::size_t i = some[n];
    const std::string &source = m.pairs.lines[i], &expected = m.pairs.references[i].front();
    rows.push_back({source, expected, "target"});
    for (const models::Hypothesis& h : written[n])
      rows.push_back({"", m.first().target().decode(h.words),
                      fmt::format("{:.3g}", std::exp(h.log_probability))});
    const models::Hypothesis& best = written[n].front();
    const std::string target = m.first().target().decode(best.words);
    const report::Heatmap map =
        heatmap(m.first().source().tokenizer.encode(source), tokens_of(m.first(), best), best);
    if (map.rows.empty()) continue;
    std::string caption = fmt::format("{} → {}", isolated(source), isolated(target));
    if (!m.sentences() && target != expected)
      caption += fmt::format(" (expected {})", isolated(expected));
    page.figure(report::svg(map), caption);
  }
  page.heading("Predictions, the best first").table({"source", "prediction", "probability"}, rows);
}

/// The directory of its training, and on what: "attune-model: train.en and train.de".
std::string title(Models models, std::span<const std::filesystem::path> files) {
  std::string on;
  for (const char* name : {"train", "train-target"}) {
    const std::filesystem::path path = models.front().entry(name);
    if (!path.empty()) on += (on.empty() ? ": " : " and ") + path.filename().string();
  }
  return (models.size() > 1 ? fmt::format("an ensemble of {}", models.size())
                            : run_names(files).front()) +
         on;
}

/// RFC 4648, section 4.
std::string base64(std::string_view bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k)
      text += k <= bytes.size() - i ? digits[three >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

/// The page of examples/page with a checkpoint in it.
void write_live(const UseOptions& o, std::span<const std::filesystem::path> files,
                const std::filesystem::path& path) {
  if (files.size() > 1) fail("--live", fmt::format("{} models, expected one", files.size()));
  constexpr std::uintmax_t most = 256 << 20;  // in one string, JavaScript has twice that at most
  if (const std::uintmax_t bytes = std::filesystem::file_size(files.front()); bytes > most)
    fail(files.front().string(),
         fmt::format("{} MiB, expected at most {} in a page", bytes >> 20, most >> 20));
  const std::vector<Model> models = load_models(files);
  if (models.front().source().tokenizer.pieces() || models.front().target().tokenizer.pieces())
    fail(files.front().string(), "subwords of sentencepiece, which a page does not have");
  std::string page = read_file(o.live);
  constexpr std::string_view place = R"(<script type="application/json" id="live">)";
  const std::size_t at = page.find(place);
  if (at == page.npos) fail(o.live.string(), "expected the page that examples/page/build.sh makes");
  std::string json = nlohmann::json{{"title", title(models, files)},
                                    {"checkpoint", base64(read_file(files.front()))}}
                         .dump();
  for (std::size_t i = 0; (i = json.find('<', i)) != json.npos;) json.replace(i, 1, "\\u003c");
  page.insert(at + place.size(), json);
  write_file(path, page);
  say("{}\n", path.string());
}

}  // namespace

int report(const UseOptions& o) {
  const std::vector<std::filesystem::path> files = model_files(o.models);
  if (o.models.size() > 1 && o.out.empty())
    fail("--out", fmt::format("{} models, expected the file to write", o.models.size()));
  // An ensemble is one directory with those of its trainings.
  const bool together = files.size() > 1;
  const std::filesystem::path own = files.front().parent_path();
  const auto path = page_path(o.out, together ? own.parent_path() : own);
  if (!o.live.empty()) return write_live(o, files, path), 0;
  const Measured m(o, files);
  report::Page page(title(m.models, files));
  add_summary(page, m);
  m.sentences() ? add_bleu_by_length(page, m) : add_errors(page, m);
  add_curves(page, m);
  add_examples(page, m, static_cast<std::size_t>(o.examples));
  add_card(page, m.first().metadata());
  write_page(page, path);
  return 0;
}

}  // namespace attune::pairs
