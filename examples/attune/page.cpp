#include "page.hpp"

#include <algorithm>
#include <fstream>
#include <numeric>
#include <regex>

#include <fmt/format.h>

#include <attune/models/heatmap.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

#include "chart.hpp"
#include "log.hpp"
#include "output.hpp"
#include "processes.hpp"

namespace attune::report {
namespace {

// Heat maps draw with the --attune-* variables, and have fallbacks of the same values to stand alone;
// charts have these values, too.
constexpr std::string_view kStyle = R"css(
:root {
  color-scheme: light dark;
  --attune-ink: #1c2430; --attune-muted: #5b6675; --attune-grid: #e3e7ec;
  --attune-heat: #0a4da2; --attune-empty: #eff2f6;
  --paper: #f6f7f9; --card: #ffffff; --line: #dfe3e8; --accent: #0a4da2;
}
@media (prefers-color-scheme: dark) {
  :root {
    --attune-ink: #e4e9f0; --attune-muted: #98a3b3; --attune-grid: #2b333e;
    --attune-heat: #93cdff; --attune-empty: #202731;
    --paper: #0f1318; --card: #171c23; --line: #2a323c; --accent: #93cdff;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--attune-ink);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  overflow-wrap: break-word;
}
main {
  display: grid; grid-template-columns: repeat(6, 1fr); gap: 1rem; align-items: start;
  max-width: 77rem; margin: 0 auto;
  padding: clamp(1.5rem, 4vw, 3.5rem) clamp(.75rem, 3vw, 2rem);
}
main > * { grid-column: 1 / -1; min-width: 0; margin: 0; }
h1 {
  font-size: clamp(1.7rem, 1.3rem + 1.8vw, 2.5rem); line-height: 1.15;
  letter-spacing: -.022em; text-wrap: balance;
}
main > h2 { margin-top: 1.75rem; font-size: 1.3rem; line-height: 1.3; letter-spacing: -.012em; }
p { max-width: 44rem; text-wrap: pretty; }
dl {
  display: grid; gap: .75rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 8.5rem), 1fr));
}
dl > div, figure, .table {
  background: var(--card); border: 1px solid var(--line); border-radius: .625rem;
}
dl > div { min-width: 0; padding: .7rem .95rem .75rem; }
dt { color: var(--attune-muted); font-size: .8125rem; line-height: 1.4; }
dd {
  margin: .1rem 0 0; font-size: 1.2rem; font-weight: 600; line-height: 1.35;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere;
}
.table { width: fit-content; max-width: 100%; overflow-x: auto; }
table { border-collapse: collapse; font-size: .9375rem; font-variant-numeric: tabular-nums; }
th, td { padding: .5rem 1.1rem; text-align: start; vertical-align: baseline; }
th {
  color: var(--attune-muted); font-size: .8125rem; font-weight: 600; white-space: nowrap;
  border-bottom: 1px solid var(--line);
}
tbody tr + tr td { border-top: 1px solid var(--attune-grid); }
th.number, td.number { text-align: right; white-space: nowrap; }
.long { min-width: 5rem; max-height: 9rem; overflow-y: auto; overflow-wrap: anywhere; }
main > figure { display: flex; flex-direction: column; padding: .5rem; grid-column: span 2; }
main > .wide { grid-column: span 3; }
main > .full { grid-column: 1 / -1; }
summary { cursor: pointer; font-size: 1.3rem; font-weight: 600; margin: 1.75rem 0 .75rem; }
.drawing { max-height: 40rem; overflow: auto; }
.drawing > svg { display: block; max-width: 100%; height: auto; margin: 0 auto; }
.drawing > svg.attune-chart { width: 100%; }
figcaption {
  max-height: 7rem; overflow-y: auto; padding: .25rem .5rem .4rem;
  color: var(--attune-muted); font-size: .875rem; line-height: 1.45;
}
@media (max-width: 68rem) { main > figure { grid-column: span 3; } }
@media (max-width: 48rem) { main > figure, main > .wide { grid-column: 1 / -1; } }
@media (max-width: 30rem) {
  table { font-size: .875rem; }
  th, td { padding: .45rem .4rem; }
  th, th.number { white-space: normal; vertical-align: bottom; }
  th:first-child, td:first-child {
    position: sticky; inset-inline-start: 0; max-width: 45vw; background: var(--card);
  }
}
@media print {
  .drawing, .long, figcaption { max-height: none; }
  figure, dl > div, tr { break-inside: avoid; }
  h2 { break-after: avoid; }
}
)css";

// "0.5", "+3", "12,345", "97.1%", "1e-3", "98.1 ±0.3"; an empty cell or a dash stands for a number
// that is not known.
bool looks_numeric(const std::string& cell) {
  static const std::string number =
      R"([+-]?((\d{1,3}(,\d{3})+|\d+)(\.\d*)?|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan))";
  static const std::regex pattern(fmt::format("|-|–|—|({0})( ?%)?( ±({0})( ?%)?)?", number));
  return std::regex_match(cell, pattern);
}

std::vector<bool> numeric_columns(std::size_t columns,
                                  const std::vector<std::vector<std::string>>& rows) {
  std::vector<bool> numeric(columns, !rows.empty());
  for (const auto& row : rows) {
    for (std::size_t j = 0; j < columns; ++j) numeric[j] = numeric[j] && looks_numeric(row[j]);
  }
  return numeric;
}

std::string shown(std::string_view text) { return escape(printable(text, "\n\t")); }

// A long text breaks where it must, and scrolls where it would take many lines, so that neither the
// columns nor the rows around it get out of sight.
std::string cell_of(const std::string& text) {
  constexpr std::size_t longest = 40;
  if (text.size() <= longest) return shown(text);
  return fmt::format("<div class=\"long\">{}</div>", shown(text));
}

// `tag` is th or td.
std::string table_row(std::string_view tag, const std::vector<std::string>& cells,
                      const std::vector<bool>& numeric) {
  const std::string_view scope = tag == "th" ? " scope=\"col\"" : "";
  std::string out = "<tr>";
  for (std::size_t j = 0; j < cells.size(); ++j) {
    out += fmt::format("<{0}{1}{2} dir=\"auto\">{3}</{0}>", tag, scope,
                       numeric[j] ? " class=\"number\"" : "", cell_of(cells[j]));
  }
  return out + "</tr>\n";
}

}  // namespace

Page::Page(std::string title) : title_(std::move(title)) {}

Page& Page::heading(std::string_view text) {
  body_ += fmt::format("<h2 dir=\"auto\">{}</h2>\n", shown(text));
  return *this;
}

Page& Page::paragraph(std::string_view text) {
  body_ += fmt::format("<p dir=\"auto\">{}</p>\n", shown(text));
  return *this;
}

Page& Page::table(const std::vector<std::string>& header,
                  const std::vector<std::vector<std::string>>& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() == header.size()) continue;
    throw Error(fmt::format("page: row {} of the table has {} cells, but the header has {}", i,
                            rows[i].size(), header.size()));
  }
  const std::vector<bool> numeric = numeric_columns(header.size(), rows);
  // The box scrolls when the table is wider than the window; tabindex lets the keyboard do it.
  body_ += "<div class=\"table\" tabindex=\"0\"><table>\n<thead>" +
           table_row("th", header, numeric) + "</thead>\n<tbody>\n";
  for (const auto& row : rows) body_ += table_row("td", row, numeric);
  body_ += "</tbody>\n</table></div>\n";
  return *this;
}

Page& Page::folded(std::string_view summary, const std::vector<std::string>& header,
                   const std::vector<std::vector<std::string>>& rows) {
  body_ += fmt::format("<details><summary dir=\"auto\">{}</summary>\n", shown(summary));
  table(header, rows);
  body_ += "</details>\n";
  return *this;
}

Page& Page::definitions(const std::vector<std::pair<std::string, std::string>>& items) {
  body_ += "<dl>\n";
  for (const auto& [name, value] : items) {
    body_ += fmt::format("<div><dt dir=\"auto\">{}</dt><dd dir=\"auto\">{}</dd></div>\n",
                         shown(name), shown(value));
  }
  body_ += "</dl>\n";
  return *this;
}

Page& Page::figure(std::string_view svg, std::string_view caption) {
  if (!svg.starts_with("<svg")) {
    throw Error(fmt::format("page: a figure starts with \"{}\", but an <svg> element is expected",
                            svg.substr(0, 20)));
  }
  static const std::regex width(R"re( width="(\d+))re");
  const std::string tag(svg.substr(0, svg.find('>')));
  std::smatch found;
  const int pixels = std::regex_search(tag, found, width) ? std::stoi(found[1]) : 0;
  const char* across = pixels >= 600   ? " class=\"full\""
                       : pixels >= 400 ? " class=\"wide\""  // a third of the page is less
                                       : "";
  body_ += fmt::format("<figure{}><div class=\"drawing\">{}</div>", across, svg);
  if (!caption.empty()) {
    body_ += fmt::format("<figcaption>{}</figcaption>", escape(caption));
  }
  body_ += "</figure>\n";
  return *this;
}

std::string Page::html() const {
  // The empty icon keeps a browser from asking the server for one.
  return fmt::format(R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<meta name="color-scheme" content="light dark" />
<title>{0}</title>
<link rel="icon" href="data:," />
<style>{1}</style>
</head>
<body>
<main>
<h1 dir="auto">{0}</h1>
{2}</main>
</body>
</html>
)html",
                     shown(title_), kStyle, body_);
}

}  // namespace attune::report

namespace attune {

std::string grouped(Index count) {
  std::string digits = std::to_string(count);
  for (Index at = std::ssize(digits) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

std::string share(Index part, Index whole) {
  return fmt::format(
      "{:.2f} %: {} of {}",
      100 * static_cast<double>(part) / static_cast<double>(std::max<Index>(whole, 1)),
      grouped(part), grouped(whole));
}

void add_learning_curves(report::Page& page, const std::filesystem::path& log,
                         const std::string& y_label, const std::vector<LoggedField>& fields,
                         bool log_y) {
  if (!std::filesystem::exists(log)) return;
  report::Chart chart{.title = "Learning curves",
                      .x_label = "step",
                      .y_label = y_label,
                      .series = {},
                      .log_y = log_y};
  const auto lines = report::read_log(log.string());
  for (const auto& [field, name, scale] : fields)
    chart.series.push_back(report::curve(lines, field, name, scale));
  page.figure(report::svg(chart), "");
}

void add_card(report::Page& page, const Metadata& metadata) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : metadata) {
    if (!name.ends_with("vocabulary") && !name.ends_with("tokenizer"))
      rows.push_back({name, value});
  }
  page.folded("The model and its options", {"option", "value"}, rows);
}

std::vector<std::size_t> from_short_to_long(std::span<const std::size_t> lengths,
                                            std::size_t count) {
  std::vector<std::size_t> order(lengths.size()), some;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return lengths[i]; });
  const std::size_t n = std::min(count, order.size());
  for (std::size_t i = 0; i < n; ++i)
    some.push_back(order[n == 1 ? 0 : i * (order.size() - 1) / (n - 1)]);
  return some;
}

std::string isolated(const std::string& text) {
  const std::string shown = printable(text);
  const bool ascii = std::ranges::all_of(shown, [](unsigned char c) { return c < 0x80; });
  return ascii ? shown : "\u2068" + shown + "\u2069";
}

std::filesystem::path page_path(const std::filesystem::path& out,
                                const std::filesystem::path& directory) {
  const std::filesystem::path path = out.empty() ? directory / "report.html" : out;
  require_writable(path);
  if (std::filesystem::is_regular_file(path) && std::filesystem::file_size(path) > 0) {
    std::string first_line;
    std::getline(std::ifstream(path), first_line);
    if (!first_line.starts_with("<!DOCTYPE html>") && !first_line.starts_with("<!doctype html>"))
      fail(path.string(), "there is a file that is no page: another file to write was expected");
  }
  return path;
}

void write_page(const report::Page& page, const std::filesystem::path& path) {
  if (!is_first_worker()) return;
  const bool replaces = std::filesystem::is_regular_file(path);
  write_file(path, page.html());
  say("{}{}\n", path.string(), replaces ? "    replaces the report that was there" : "");
}

}  // namespace attune
