#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <attune/models/text/heatmap.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/fail.hpp>

namespace attune::report {
namespace {

using text::clusters, text::cut, text::display_width;

void check(const Heatmap& map) {
  const std::size_t rows = map.rows.size(), columns = map.columns.size();
  if (map.weights.size() != rows * columns)
    fail("heatmap", "{} weights, but {} rows x {} columns require {}", map.weights.size(), rows,
         columns, rows * columns);
  for (std::size_t i = 0; i < map.weights.size(); ++i) {
    if (const double w = map.weights[i]; !(std::isfinite(w) && w >= 0))
      fail("heatmap", "weight (row {}, column {}) is {}, but a finite number >= 0 is needed",
           i / columns, i % columns, w);
  }
}

/// The map with all labels made visible.
Heatmap visible(Heatmap map) {
  for (std::string& label : map.rows) label = text::visible(label);
  for (std::string& label : map.columns) label = text::visible(label);
  std::string caption;  // isolates stop right-to-left text from reordering "source → target"
  for (const char32_t c : text::points(map.caption)) caption += text::utf8(text::presentable(c));
  map.caption = std::move(caption);
  return map;
}

double weight(const Heatmap& map, std::size_t row, std::size_t column) {
  return map.weights[row * map.columns.size() + column];
}

// Attention to a word is spread over its characters, so each weight is small. The power makes such
// weights visible, while noise stays close to the background.
double strength(double weight) { return std::pow(std::min(1.0, weight), 0.7); }

bool single_characters(const std::vector<std::string>& labels) {
  return std::ranges::all_of(labels, [](const auto& label) { return clusters(label).size() <= 1; });
}

int widest(const std::vector<std::string>& labels) {
  int width = 0;
  for (const std::string& label : labels) width = std::max(width, display_width(label));
  return width;
}

// ---- In a terminal ---------------------------------------------------------------------------

std::string spaces(int count) {
  return std::string(static_cast<std::size_t>(std::max(0, count)), ' ');
}

// Some terminals reorder right-to-left text including adjacent labels and cells. Left-to-right
// marks (width 0) on both sides prevent this.
std::string anchored(const std::string& text) {
  return text::runs_right_to_left(text) ? "\u200E" + text + "\u200E" : text;
}

enum class Align { left, right };

std::string padded(const std::string& text, int width, Align align) {
  const std::string label = cut(text, width), space = spaces(width - display_width(label));
  return align == Align::left ? anchored(label) + space : space + anchored(label);
}

enum class Header { characters, vertical, numbers };

// Vertical labels are readable for short words in scripts whose letters are not joined.
Header header_for(const std::vector<std::string>& columns) {
  constexpr std::size_t longest = 12;
  if (single_characters(columns)) return Header::characters;
  const bool stack = std::ranges::all_of(columns, [](const std::string& label) {
    return clusters(label).size() <= longest && !text::runs_right_to_left(label);
  });
  return stack ? Header::vertical : Header::numbers;
}

// From weight 0 to 1: the colours of the style sheet's dark mode. The background is always dark, so
// the map looks the same on light and dark terminals.
constexpr std::array colours = {235, 236, 238, 24, 25, 31, 67, 74, 110, 117, 153};
constexpr std::array<std::string_view, 5> glyphs = {" ", "░", "▒", "▓", "█"};

/// Rounded down, so that noise is invisible.
std::size_t level(double strength, std::size_t levels) {
  return std::min(static_cast<std::size_t>(strength * static_cast<double>(levels)), levels - 1);
}

/// A map, split into panels of adjacent columns.
class Drawing {
 public:
  Drawing(const Heatmap& map, const TerminalOptions& options)
      : map_(visible(map)), options_(options), header_(header_for(map_.columns)) {
    const int count = static_cast<int>(map_.columns.size());
    label_ = std::min(widest(map_.rows), options.width / 3);
    const int room = options.width - label_ - 1;
    // A cell of two columns is about square; a long line of narrow characters uses one column.
    const bool narrow =
        header_ == Header::characters && widest(map_.columns) <= 1 && 2 * count > room;
    cell_ = header_ == Header::numbers ? static_cast<int>(std::to_string(count).size()) + 1
            : narrow                   ? 1
                                       : 2;
    const int most = std::max(1, room / cell_), panels = std::max(1, (count + most - 1) / most);
    panel_ = static_cast<std::size_t>((count + panels - 1) / panels);  // about equal sizes
  }

  /// All lines have the same display width.
  std::string text() {
    if (!map_.caption.empty()) add(anchored(cut(map_.caption, options_.width)));
    std::size_t begin = 0, end = 0;
    do {
      begin = std::exchange(end, std::min(end + panel_, map_.columns.size()));
      if (begin > 0) add("");
      header(begin, end);
      for (std::size_t i = 0; i < map_.rows.size(); ++i) {
        lines_.emplace_back(padded(map_.rows[i], label_, Align::right) + " " + cells(i, begin, end),
                            label_ + 1 + cell_ * static_cast<int>(end - begin));
      }
    } while (end < map_.columns.size());
    if (header_ == Header::numbers) key();
    const int width = std::ranges::max_element(lines_, {}, &Line::second)->second;
    std::string out;
    for (const auto& [line, own] : lines_) out += line + spaces(width - own) + "\n";
    return out;
  }

 private:
  using Line = std::pair<std::string, int>;  // and its width

  void add(const std::string& line) { lines_.emplace_back(line, display_width(line)); }

  // The labels or their numbers on one line, or vertical labels that end above the cells.
  void header(std::size_t begin, std::size_t end) {
    const Align align = header_ == Header::numbers ? Align::right : Align::left;
    std::vector<std::vector<std::string>> texts;  // per column, from top to bottom
    std::size_t height = header_ == Header::vertical ? 0 : 1;
    for (std::size_t j = begin; j < end; ++j) {
      const std::string label =
          header_ == Header::numbers ? std::to_string(j + 1) : map_.columns[j];
      texts.push_back(header_ == Header::vertical ? clusters(label) : std::vector{label});
      height = std::max(height, texts.back().size());
    }
    for (std::size_t above = height; above > 0; --above) {  // texts end at the cells
      std::string line = spaces(label_ + 1);
      for (const std::vector<std::string>& column : texts)
        line += padded(above > column.size() ? "" : *(column.end() - above), cell_, align);
      add(line);
    }
  }

  std::string cells(std::size_t row, std::size_t begin, std::size_t end) const {
    std::string out;
    int current = -1;
    for (std::size_t j = begin; j < end; ++j) {
      const double w = strength(weight(map_, row, j));
      if (!options_.colour) {
        for (int k = 0; k < cell_; ++k) out += glyphs[level(w, glyphs.size())];
        continue;
      }
      const int next = colours[level(w, colours.size())];
      if (next != std::exchange(current, next)) out += fmt::format("\x1b[48;5;{}m", next);
      out += spaces(cell_);
    }
    return current < 0 ? out : out + "\x1b[0m";
  }

  // The key of numbers and labels, filled into lines.
  void key() {
    constexpr int easy_to_read = 80;  // maximum line length, if the map is not wider
    const int map = label_ + 1 + cell_ * static_cast<int>(std::min(panel_, map_.columns.size()));
    const int width = std::min(options_.width, std::max(easy_to_read, map));
    std::string line;
    for (std::size_t j = 0; j < map_.columns.size(); ++j) {
      const std::string item = anchored(cut(fmt::format("{} {}", j + 1, map_.columns[j]), width));
      if (j > 0 && display_width(line + "  " + item) > width) add(std::exchange(line, ""));
      line += line.empty() ? item : "  " + item;
    }
    add(line);
  }

  Heatmap map_;
  TerminalOptions options_;
  Header header_;
  int label_ = 0;          // width of the row labels
  int cell_ = 0;           // width of a column
  std::size_t panel_ = 0;  // columns per panel
  std::vector<Line> lines_;
};

// ---- As SVG and HTML -------------------------------------------------------------------------

constexpr std::string_view style =
#include "report_css.hpp"
    ;
constexpr std::string_view script =
#include "report_js.hpp"
    ;
constexpr int longest_label = 28;  // longer labels are truncated, but not in tooltips
constexpr double margin = 8;       // around a file's drawing

// An estimate, as the font depends on the reader's system.
double text_width(int columns, double font) { return 0.62 * font * columns; }

std::string svg_text(double x, double y, const std::string& text, bool upwards = false) {
  return fmt::format("<text transform=\"translate({:.1f} {:.1f}){}\">{}</text>\n", x, y,
                     upwards ? " rotate(-90)" : "", escape(text));
}

std::string svg_rect(double x, double y, double width, double height, std::string_view attributes,
                     std::string_view inside = {}) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}>{}</rect>\n", x, y,
      width, height, attributes, inside);
}

/// A map with visible labels, and its layout. Attributes repeat the light colours of the style
/// sheet for programs without support for CSS variables.
struct Picture {
  Heatmap map;
  double darkest, cell, font, left, top, width, height;
  bool upright;  // column labels are single characters, otherwise words that run upwards

  Picture(const Heatmap& from, const SvgOptions& options)
      : map(visible(from)),
        darkest(options.darkest),
        cell(options.cell),
        font(0.7 * cell),
        left(room(map.rows)),
        top(single_characters(map.columns) ? 1.6 * font : room(map.columns)),
        width(left + cell * static_cast<double>(map.columns.size())),
        height(top + cell * static_cast<double>(map.rows.size())),
        upright(single_characters(map.columns)) {
    check(from);
    if (!(cell >= 2)) fail("heatmap", "a cell is {} pixels, but at least 2 are needed", cell);
    if (!(darkest > 0)) fail("heatmap", "the darkest weight is {}, expected > 0", darkest);
  }
  double room(const std::vector<std::string>& labels) const {
    return 0.7 * font + text_width(std::min(widest(labels), longest_label), font);
  }

  /// The map as a group, with the largest weight of each row as its description.
  std::string text(double x, double y) const {
    std::string rows, columns, cells, described;
    for (std::size_t j = 0; j < map.columns.size(); ++j)
      columns +=
          svg_text(left + cell * (static_cast<double>(j) + 0.5) + (upright ? 0 : 0.35 * font),
                   top - 0.45 * font, cut(map.columns[j], longest_label), !upright);
    for (std::size_t i = 0; i < map.rows.size(); ++i) {
      const double above = top + cell * static_cast<double>(i);
      rows += svg_text(left - 0.45 * font, above + cell / 2 + 0.35 * font,
                       cut(map.rows[i], longest_label));
      double largest = -1;
      std::string most;
      for (std::size_t j = 0; j < map.columns.size(); ++j) {
        const double w = weight(map, i, j);
        // Labels are isolated, so that a right-to-left label does not reorder the arrow.
        const std::string told = fmt::format("\u2068{}\u2069 ← \u2068{}\u2069: {:.3f}",
                                             escape(map.rows[i]), escape(map.columns[j]), w);
        cells += svg_rect(left + cell * static_cast<double>(j) + 0.5, above + 0.5, cell - 1,
                          cell - 1, filled(w / darkest), "<title>" + told + "</title>");
        if (w > largest) largest = w, most = told;
      }
      described += most + "; ";
    }
    return fmt::format(
        "<g role=\"img\" aria-label=\"Heat map{}{}\" transform=\"translate({:.1f} {:.1f})\" "
        "font-size=\"{:.1f}\">\n<desc>{}</desc>\n<g class=\"columns\"{}>\n{}</g>\n"
        "<g class=\"rows\" text-anchor=\"end\">\n{}</g>\n{}<g class=\"heat\" "
        "fill=\"#0a4da2\">\n{}</g>\n</g>\n",
        map.caption.empty() ? "" : ": ", escape(map.caption), x, y, font, described,
        upright ? " text-anchor=\"middle\"" : "", columns, rows,
        svg_rect(left, top, width - left, height - top, R"(class="empty" fill="#eff2f6" rx="3")"),
        cells);
  }
  /// The weight is the opacity over the page's background, for light and dark pages.
  static std::string filled(double weight) {
    return fmt::format("rx=\"2\" fill-opacity=\"{:.3f}\"", strength(weight));
  }
  /// The colours from weight 0 to the darkest.
  std::string legend(double y) const {
    constexpr int cells = 5;
    std::string out =
        svg_text(0, y + cell / 2 + 0.35 * font, "0") +
        svg_rect(1.5 * font, y, cells * cell, cell, R"(class="empty" fill="#eff2f6")") +
        "<g class=\"heat\" fill=\"#0a4da2\">";
    for (int i = 0; i < cells; ++i)
      out += svg_rect(1.5 * font + i * cell, y, cell, cell, filled(i / (cells - 1.0)));
    return fmt::format("<g font-size=\"{:.1f}\">{}</g>{}</g>\n", font, out,
                       svg_text(2 * font + cells * cell, y + cell / 2 + 0.35 * font,
                                fmt::format("{:.2g}", darkest)));
  }
};

}  // namespace

std::string escape(std::string_view text) {
  constexpr std::pair<char32_t, std::string_view> forms[] = {
      {'\t', "\t"},  {'\n', "\n"},  {'\r', "\r"},    {'&', "&amp;"},
      {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  std::string out;
  for (const char32_t c : text::points(text)) {
    const auto* form = std::ranges::find(forms, c, [](const auto& known) { return known.first; });
    out += form == std::end(forms) ? text::utf8(text::presentable(c)) : std::string(form->second);
  }
  return out;
}

std::string terminal(const Heatmap& map, const TerminalOptions& options) {
  check(map);
  if (options.width < 10)
    fail("heatmap", "the terminal has {} columns, but at least 10 are needed", options.width);
  return Drawing(map, options).text();
}

std::string svg(std::span<const Heatmap> maps, const SvgOptions& options) {
  std::string out;
  double width = 0, y = 0;
  Picture last(Heatmap(), options);
  for (const Heatmap& map : maps) {
    last = Picture(map, options);
    const int caption = std::min(display_width(last.map.caption), 160);
    if (caption > 0)
      out += fmt::format(
          "<g font-size=\"{}\">{}</g>", last.font,
          svg_text(0, (y += 1.6 * last.font) - 0.3 * last.font, cut(last.map.caption, caption)));
    out += last.text(0, y);
    width = std::max({width, last.width, text_width(caption, last.font)});
    y += last.height + last.cell;
  }
  out += last.legend(y);
  width = std::ceil(std::max(width, 6 * last.cell + 4 * last.font) + 2 * margin);
  const double height = std::ceil(y + last.cell + 2 * margin);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"attune attune-heatmap\" width=\"{0}\" "
      "height=\"{1}\" viewBox=\"{2} {2} {0} {1}\">\n<style>{3}</style>\n{4}</svg>",
      width, height, -margin, style.substr(0, style.find("\n/* ---- Pages")), out);
}

std::string figure(const Heatmap& map, const std::string& note, bool wrong) {
  const Picture p(map, {});
  std::string drawing;
  if (!map.rows.empty())
    drawing = fmt::format(
        "<div class=\"drawing\" tabindex=\"0\" role=\"group\" aria-label=\"Attention weights; "
        "arrow keys select a cell\"><svg xmlns=\"http://www.w3.org/2000/svg\" "
        "class=\"attune-heatmap\" style=\"--width:{0:.1f}px\" viewBox=\"0 0 {0:.1f} {1:.1f}\">\n"
        "{2}</svg></div>\n<output></output>",
        p.width + 1, p.height + 1, p.text(0, 0));
  return fmt::format(
      "<figure{0}>\n<figcaption><strong dir=\"auto\">{1}</strong><span{0}>{2}</span></figcaption>\n"
      "{3}</figure>\n",
      wrong ? " class=\"wrong\"" : "", escape(p.map.caption), escape(note), drawing);
}

std::string page(const std::string& title, const std::string& body) {
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
<body class="attune">
<main>
<h1 dir="auto">{0}</h1>
{2}</main>
<script>
{3}</script>
</body>
</html>
)",
                     escape(title), style, body, script);
}

}  // namespace attune::report
