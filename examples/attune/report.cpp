// `attune report`.
#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <attune/tensor/file.hpp>

#include "chart.hpp"
#include "commands.hpp"
#include "evaluation.hpp"
#include "output.hpp"
#include "processes.hpp"
#include "run_directory.hpp"

namespace attune::pairs {
namespace {

constexpr std::string_view report_css =
#include "report_css.hpp"
    ;

/// Text for an element or an attribute. Keeps the isolates of captions.
std::string html(const std::string& text) {
  return report::escape(printable(text, "\n\t\u2068\u2069"));
}

std::string page_of(const std::string& title, const std::string& body) {
  return fmt::format(R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="color-scheme" content="light dark" />
<title>{0}</title>
<link rel="icon" href="data:," />
<style>
{1}</style>
</head>
<body>
<main>
<h1 dir="auto">{0}</h1>
{2}</main>
</body>
</html>
)",
                     html(title), report_css, body);
}

/// The content of a table's column: numbers, English labels, tokens or names, or texts, which wrap
/// and scroll.
enum class Column { number, label, token, text };

/// A table. The first row has the headings.
std::string table(const std::vector<Column>& columns, const TableRows& rows) {
  constexpr std::pair<const char*, const char*> tags[] = {
      // as in Column
      {R"(<td class="number">)", "</td>"},
      {"<td>", "</td>"},
      {R"(<td dir="auto">)", "</td>"},
      {R"(<td dir="auto"><div>)", "</div></td>"}};
  std::string head, body;
  for (std::size_t i = 0; i < columns.size(); ++i)
    head +=
        (columns[i] == Column::number ? R"(<th class="number">)" : "<th>") + rows[0][i] + "</th>";
  for (std::size_t r = 1; r < rows.size(); ++r) {
    body += "<tr>";
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto& [begin, end] = tags[static_cast<int>(columns[i])];
      body += begin + html(rows[r][i]) + end;
    }
    body += "</tr>\n";
  }
  return R"(<div class="table" tabindex="0"><table>)"
         "\n<thead><tr>" +
         head + "</tr></thead>\n<tbody>\n" + body + "</tbody>\n</table></div>\n";
}

/// Drawings of 400 pixels and more get the class "wide" instead of a third of the page's width.
std::string figures(const std::vector<Drawing>& drawings) {
  std::string all = "<div class=\"figures\">\n";
  for (const auto& [map, caption] : drawings)
    all += fmt::format(
        "<figure{}><div class=\"drawing\">{}</div>\n<figcaption>{}</figcaption></figure>\n",
        report::svg_width(map) >= 400 ? " class=\"wide\"" : "", report::svg(map), html(caption));
  return all + "</div>\n";
}

/// "99.50 %: 1,990 of 2,000".
std::string share(Index part, Index whole) {
  return fmt::format("{:.2f} %: {} of {}", 100.0 * part / std::max<Index>(whole, 1), grouped(part),
                     grouped(whole));
}

std::string summary_of(const Measured& m) {
  double seconds = 0;
  for (const Model& model : m.models)
    if (!model.entry("seconds").empty())
      seconds += nn::load_number(model.metadata, "seconds", 0, 1e10);
  TableRows tiles;
  if (m.sentences()) {
    const metrics::Interval interval = metrics::bleu_interval(m.statistics());
    tiles = {
        {"BLEU", fmt::format("{:.2f}", m.result.bleu)},
        {"95 % interval (bootstrap)", fmt::format("{:.2f} to {:.2f}", interval.low, interval.high)},
        {"chrF", fmt::format("{:.2f}", m.result.chrf)}};
  } else {
    const Counts all = m.result.total();
    tiles = {{"Exact match", share(all.right, all.examples)},
             {"Token error", share(all.edits.count(), all.edits.expected)}};
  }
  tiles.insert(tiles.end(), {{"Perplexity", fmt::format("{:.2f}", m.result.perplexity())},
                             {"Pairs", grouped(std::ssize(m.pairs.lines))},
                             {"Models", std::to_string(m.models.size())},
                             {"Parameters of each", grouped(m.first().parameters->count())}});
  if (seconds > 0) tiles.push_back({"Trained for", duration(seconds)});
  std::string out = "<dl>\n";
  for (const auto& tile : tiles)
    out += fmt::format("<div><dt>{}</dt><dd dir=\"auto\">{}</dd></div>\n", tile[0], tile[1]);
  return out + fmt::format(
                   "</dl>\n<p dir=\"auto\">Model: {}; source: {}; target: {}. Measured on {} with "
                   "beam size "
                   "{}.\n{}</p>\n",
                   m.first().model.options().name, kind_of(m.first().source().tokenizer),
                   kind_of(m.first().target().tokenizer), html(m.pairs.name), m.search.beam,
                   m.sentences()
                       ? ""
                       : "An exact match is a prediction that equals the target; token errors "
                         "are substitutions, deletions and insertions.");
}

std::string bleu_by_length(const Measured& m) {
  constexpr std::int64_t limits[] = {5, 10, 15, 20, 30, 50};
  TableRows rows = {{"words of the source", "sentences", "BLEU"}};
  for (const auto& bucket : m.by_length(limits)) {
    if (bucket.sentences == 0) continue;
    rows.push_back({bucket.longest ? fmt::format("{} to {}", bucket.shortest, *bucket.longest)
                                   : fmt::format("from {}", bucket.shortest),
                    grouped(bucket.sentences), fmt::format("{:.2f}", bucket.bleu)});
  }
  return "<h2>BLEU by length</h2>\n" + table({Column::label, Column::number, Column::number}, rows);
}

std::string errors(const Measured& m) {
  std::vector<Column> columns(7, Column::number);
  columns[0] = Column::label;
  const std::string by_length =
      "<h2>Errors by length</h2>\n" + table(columns, rows_by_length(m.result.counts));
  TableRows rows = {{"expected", "written", "times"}};
  for (const auto& [expected, written, times] : m.confusions(20))
    rows.push_back({expected, written, grouped(times)});
  if (rows.size() == 1) return by_length;
  return by_length +
         "<h2>Confusion matrix: largest entries</h2>\n<p>∅ is no token: a deletion or an "
         "insertion.</p>\n" +
         table({Column::token, Column::token, Column::number}, rows);
}

std::string curves(const Measured& m) {
  report::Chart quality{.title = m.sentences() ? "BLEU of the validation pairs"
                                               : "Exact match of the validation pairs",
                        .x_label = "update",
                        .y_label = m.sentences() ? "BLEU" : "percent"},
      loss{.title = "Loss",
           .x_label = "update",
           .y_label = "cross-entropy per token",
           .log_y = !m.sentences()};
  const std::vector<std::string> names = run_names(m.files);
  const bool several = names.size() > 1;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::filesystem::path path = m.files[i].parent_path() / "log.jsonl";
    if (!std::filesystem::exists(path)) continue;
    report::check_log(path, m.models[i].entry("training"));
    const report::Log log = report::read_log(path.string());
    quality.series.push_back(report::curve(log, m.sentences() ? "bleu" : "exact_match",
                                           several ? names[i] : "", m.sentences() ? 1 : 100));
    loss.series.push_back(report::curve(log, "loss", several ? names[i] : "training"));
    if (!several) loss.series.push_back(report::curve(log, "valid_loss", "validation"));
  }
  if (quality.series.empty()) return "";
  return fmt::format(R"(<h2>Learning curves</h2>
<div class="figures charts">
<figure><div class="drawing">{}</div></figure>
<figure><div class="drawing">{}</div>
<figcaption>The training loss includes dropout and label smoothing, if used; the validation loss does not.</figcaption></figure>
</div>
)",
                     report::svg(quality), report::svg(loss));
}

/// Indices of `count` pairs, evenly spaced by source length up to 500 tokens (larger heat maps are
/// unreadable). Up to half of them are mistakes, which come first.
std::vector<std::size_t> chosen_examples(const Measured& m, std::size_t count) {
  std::vector<std::size_t> of_kind[2], some;  // of_kind: wrong and right predictions
  for (std::size_t i = 0; i < m.pairs.sources.size(); ++i)
    if (const std::size_t size = m.pairs.sources[i].size(); size > 0 && size <= 500)
      of_kind[m.result.written[i].right].push_back(i);
  const std::size_t right = std::min(count, of_kind[true].size()),
                    wrong = std::min(of_kind[false].size(), std::max(count / 2, count - right));
  for (const bool is_right : {false, true}) {
    auto& all = of_kind[is_right];
    std::ranges::stable_sort(all, {}, [&](std::size_t i) { return m.pairs.sources[i].size(); });
    const std::size_t n = std::min(is_right ? count - wrong : wrong, all.size());
    for (std::size_t i = 0; i < n; ++i)
      some.push_back(all[n == 1 ? 0 : i * (all.size() - 1) / (n - 1)]);
  }
  return some;
}

/// Attention heat maps and the best predictions.
std::string examples_of(const Measured& m, std::size_t count, Index best) {
  const std::vector<std::size_t> some = chosen_examples(m, count);
  if (some.empty()) return "";
  std::vector<text::Sentence> sources;
  for (const std::size_t i : some) sources.push_back(m.pairs.sources[i]);
  models::SearchOptions search = m.search;
  search.best = best > 1 ? best : std::min<Index>(search.beam, 3);
  search.beam = std::max(search.beam, search.best);
  const auto text = [&](const models::Hypothesis& h, Index) {
    return m.first().target().decode(h.words);
  };
  const auto written =
      models::translate(network_of(m.models), sources, {.how = search, .text = text});
  TableRows rows = {{"source", "prediction", "probability"}};
  std::vector<Drawing> drawings;
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
    drawings.push_back({map, caption});
  }
  const char* attention =
      "<h2>Attention</h2>\n<p>Attention weights: each row is a predicted token, each column a "
      "source "
      "token. Wrong predictions come first.</p>\n";
  return (std::ranges::any_of(m.models, &Model::attends) ? attention + figures(drawings) : "") +
         "<h2>Predictions, best first</h2>\n" +
         table({Column::text, Column::text, Column::number}, rows);
}

/// All metadata except tokenizers and vocabularies.
std::string options_of(const Model& model) {
  TableRows rows = {{"option", "value"}};
  for (const auto& [name, value] : model.metadata)
    if (std::ranges::find(codec_entries, name) == std::end(codec_entries))
      rows.push_back({name, value});
  return "<details><summary>Model and options</summary>\n" +
         table({Column::token, Column::text}, rows) + "</details>\n";
}

/// The model's directory and its training files: "attune-model: train.en and train.de".
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

/// Writes the page of examples/page with an embedded checkpoint.
void write_live(const UseOptions& o, std::span<const std::filesystem::path> files,
                const std::filesystem::path& path) {
  if (files.size() > 1) fail("--live", fmt::format("{} models, expected one", files.size()));
  constexpr std::uintmax_t most = 256 << 20;  // a JavaScript string is limited to twice that
  if (const std::uintmax_t bytes = std::filesystem::file_size(files.front()); bytes > most)
    fail(files.front().string(),
         fmt::format("has {} MiB, expected at most {} for --live", bytes >> 20, most >> 20));
  const std::vector<Model> models = load_models(files);
  if (models.front().source().tokenizer.pieces() || models.front().target().tokenizer.pieces())
    fail(files.front().string(), "uses SentencePiece subwords, which --live does not support");
  std::string page = read_file(o.live);
  constexpr std::string_view place = R"(<script type="application/json" id="live">)";
  const std::size_t at = page.find(place);
  if (at == page.npos) fail(o.live.string(), "expected a page built by examples/page/build.sh");
  std::string json = nlohmann::json{{"title", title(models, files)},
                                    {"checkpoint", base64(read_file(files.front()))}}
                         .dump();
  for (std::size_t i = 0; (i = json.find('<', i)) != json.npos;) json.replace(i, 1, "\\u003c");
  page.insert(at + place.size(), json);
  if (is_first_worker()) write_file(path, page);
  say("{}\n", path.string());
}

}  // namespace

std::string drawings_page(const std::string& title, const std::vector<Drawing>& drawings) {
  return page_of(title, figures(drawings));
}

std::string isolated(const std::string& text) {
  const std::string shown = printable(text);
  const bool ascii = std::ranges::all_of(shown, [](unsigned char c) { return c < 0x80; });
  return ascii ? shown : "\u2068" + shown + "\u2069";
}

void require_page(const std::filesystem::path& path, const std::filesystem::path& input) {
  require_writable(path, {input});
  if (std::filesystem::is_regular_file(path) && std::filesystem::file_size(path) > 0) {
    std::string first_line;
    std::getline(std::ifstream(path), first_line);
    if (!first_line.starts_with("<!DOCTYPE html>") && !first_line.starts_with("<!doctype html>"))
      fail(path.string(), "exists and is not an HTML page, expected another output file");
  }
}

int report(const UseOptions& o) {
  const std::vector<std::filesystem::path> files = model_files(o.models);
  if (o.models.size() > 1 && o.out.empty())
    fail("--out", fmt::format("missing, but required for {} models", o.models.size()));
  // An ensemble is a directory with one subdirectory per training.
  const std::filesystem::path own = files.front().parent_path(),
                              directory = files.size() > 1 ? own.parent_path() : own,
                              path = o.out.empty() ? directory / report_file : o.out;
  require_page(path, o.live);
  if (!o.live.empty() && !o.file.empty()) fail("--live", "writes no report, expected no PAIRS");
  if (!o.live.empty()) return write_live(o, files, path), 0;
  UseOptions measured = o;
  measured.search.best = 1;  // --best must not change --beam
  const Measured m(measured, files);
  const std::string body = summary_of(m) + (m.sentences() ? bleu_by_length(m) : errors(m)) +
                           curves(m) + examples_of(m, /*count=*/12, o.search.best) +
                           options_of(m.first());
  if (!is_first_worker()) return 0;
  const bool replaces = std::filesystem::is_regular_file(path);
  write_file(path, page_of(title(m.models, files), body));
  say("{}{}\n", path.string(), replaces ? "    (replaces the previous report)" : "");
  return 0;
}

}  // namespace attune::pairs
