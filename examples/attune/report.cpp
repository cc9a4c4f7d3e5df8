// `attune report`.
#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <attune/tensor/file.hpp>

#include "commands.hpp"
#include "evaluation.hpp"
#include "output.hpp"
#include "processes.hpp"
#include "run_directory.hpp"

namespace attune::pairs {
namespace {

/// Text for an element or an attribute. Keeps the isolates of captions.
std::string html(const std::string& text) {
  return report::escape(printable(text, "\n\t\u2068\u2069"));
}

/// The content of a table's column: numbers, English labels, tokens or names, texts, which wrap and
/// scroll, or predictions, where "✗ " begins wrong ones.
enum class Column { number, label, token, text, prediction };

/// A table. The first row has the headings.
std::string table(const std::vector<Column>& columns, const TableRows& rows) {
  constexpr std::pair<const char*, const char*> tags[] = {
      // as in Column
      {R"(<td class="number">)", "</td>"},
      {"<td>", "</td>"},
      {R"(<td dir="auto">)", "</td>"},
      {R"(<td dir="auto"><div>)", "</div></td>"},
      {R"(<td dir="auto"><div>)", "</div></td>"}};
  std::string head, body;
  for (std::size_t i = 0; i < columns.size(); ++i)
    head +=
        (columns[i] == Column::number ? R"(<th class="number">)" : "<th>") + rows[0][i] + "</th>";
  for (std::size_t r = 1; r < rows.size(); ++r) {
    body += "<tr>";
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto& [begin, end] = tags[static_cast<int>(columns[i])];
      const bool wrong = columns[i] == Column::prediction && rows[r][i].starts_with("✗ ");
      body += (wrong ? R"(<td dir="auto" class="wrong"><div>)" : begin) + html(rows[r][i]) + end;
    }
    body += "</tr>\n";
  }
  return R"(<div class="table" tabindex="0"><table>)"
         "\n<thead><tr>" +
         head + "</tr></thead>\n<tbody>\n" + body + "</tbody>\n</table></div>\n";
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
  const bool several = m.models.size() > 1;
  tiles.insert(tiles.end(), {{"Perplexity", fmt::format("{:.2f}", m.result.perplexity())},
                             {"Pairs", grouped(std::ssize(m.pairs.lines))}});
  if (several) tiles.push_back({"Models", std::to_string(m.models.size())});
  tiles.push_back(
      {several ? "Parameters of each" : "Parameters", grouped(m.first().parameters->count())});
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

/// The logs, which the script of the page draws.
std::string curves(const Measured& m) {
  const std::vector<std::string> names = run_names(m.files);
  std::string logs;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::filesystem::path path = m.files[i].parent_path() / "log.jsonl";
    if (!std::filesystem::exists(path)) continue;
    report::check_log(path, m.models[i].entry("training"));
    logs += fmt::format("<pre class=\"log\" data-metric=\"{}\" data-name=\"{}\">",
                        m.sentences() ? "bleu" : "exact", html(names[i]));
    for (const auto& line : report::read_log(path.string()))
      logs += html(report::json_line(line)) + "\n";
    logs += "</pre>\n";
  }
  if (logs.empty()) return "";
  return "<h2>Learning curves</h2>\n<details><summary>Values</summary>\n" + logs +
         "</details>\n<p>The training loss includes dropout and label smoothing, if used; the "
         "validation loss does not.</p>\n";
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

/// Attention heat maps, and a table of the best predictions.
struct Examples {
  std::string attention, predictions;
};
Examples examples_of(const Measured& m, std::size_t count, Index best) {
  const std::vector<std::size_t> some = chosen_examples(m, count);
  if (some.empty()) return {};
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
  TableRows rows = {
      {"source", m.sentences() ? "reference" : "expected", "prediction", "probability"}};
  std::string figures;
  for (std::size_t n = 0; n < some.size(); ++n) {
    const std::string &source = m.pairs.lines[some[n]],
                      &expected = m.pairs.references[some[n]].front();
    for (const models::Hypothesis& h : written[n]) {
      const bool first = &h == &written[n].front();
      const std::string target = text(h, 0), p = fmt::format("{:.3g}", std::exp(h.log_probability));
      const Written& counted = m.result.written[some[n]];
      const bool wrong =
          !m.sentences() && (target == counted.text ? !counted.right : target != expected);
      rows.push_back({first ? source : "", first ? expected : "", (wrong ? "✗ " : "") + target, p});
      if (!first) continue;
      report::Heatmap map =
          heatmap(m.first().source().tokenizer.encode(source), tokens_of(m.first(), h), h);
      map.caption = fmt::format("{} → {}", isolated(source), isolated(target));
      if (!map.rows.empty())
        figures += report::figure(
            map,
            wrong ? fmt::format("✗ wrong, expected {}; probability {}", isolated(expected), p)
                  : "probability " + p,
            wrong);
    }
  }
  return {figures.empty() ? ""
                          : "<h2>Attention</h2>\n<p>Each row is a predicted token, each column "
                            "a source token. Wrong predictions come first.</p>\n" +
                                figures_with_legend(figures),
          "<h2>Predictions, best first</h2>\n" +
              table({Column::text, Column::text, Column::prediction, Column::number}, rows)};
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

}  // namespace

std::string figures_with_legend(const std::string& figures) {
  return report::legend + ("<div class=\"figures\">\n" + figures) + "</div>\n";
}

std::string drawings(std::span<const report::Heatmap> maps, bool html) {
  if (!html) return report::svg(maps);
  std::string figures;
  for (const report::Heatmap& map : maps) figures += report::figure(map);
  return report::page("Attention weights", figures_with_legend(figures));
}

std::string isolated(const std::string& text) {
  const std::string shown = printable(text);
  const bool ascii = std::ranges::all_of(shown, [](unsigned char c) { return c < 0x80; });
  return ascii ? shown : "\u2068" + shown + "\u2069";
}

void require_page(const std::filesystem::path& path) {
  require_writable(path);
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
    fail("--out", "missing, but required for {} models", o.models.size());
  // An ensemble is a directory with one subdirectory per training.
  const std::filesystem::path own = files.front().parent_path(),
                              directory = files.size() > 1 ? own.parent_path() : own,
                              path = o.out.empty() ? directory / report_file : o.out;
  require_page(path);
  UseOptions measured = o;
  measured.search.best = 1;  // --best must not change --beam
  const Measured m(measured, files);
  const Examples some = examples_of(m, /*count=*/12, o.search.best);
  const std::string body = summary_of(m) + some.attention + curves(m) +
                           (m.sentences() ? bleu_by_length(m) : errors(m)) + some.predictions +
                           options_of(m.first());
  if (!is_first_worker()) return 0;
  const bool replaces = std::filesystem::is_regular_file(path);
  write_file(path, report::page(printable(title(m.models, files)), body));
  say("{}{}\n", path.string(), replaces ? "    (replaces the previous report)" : "");
  return 0;
}

}  // namespace attune::pairs
