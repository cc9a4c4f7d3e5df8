#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <regex>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <attune/models/display_text.hpp>
#include <attune/models/heatmap.hpp>
#include <attune/tensor/check.hpp>

namespace attune::report {

using namespace detail;

namespace {

/// Throws Error when the weights are not one finite number >= 0 per cell.
void check(const Heatmap& map) {
  const std::size_t rows = map.rows.size(), columns = map.columns.size();
  if (map.weights.size() != rows * columns) {
    fail("heatmap", fmt::format("weights has {} values, but {} rows x {} columns need {}",
                                map.weights.size(), rows, columns, rows * columns));
  }
  for (std::size_t i = 0; i < map.weights.size(); ++i) {
    if (const double w = map.weights[i]; !(std::isfinite(w) && w >= 0)) {
      fail("heatmap",
           fmt::format("weight (row {}, column {}) is {}, but a finite number >= 0 is needed",
                       i / columns, i % columns, w));
    }
  }
}

double weight(const Heatmap& map, std::size_t row, std::size_t column) {
  return map.weights[row * map.columns.size() + column];
}

// Attention spread over a word leaves little on each of its letters; the power lifts that well
// above the ground while noise stays near it.
double strength(double weight) { return std::pow(std::min(1.0, weight), 0.7); }

// ---- In a terminal ---------------------------------------------------------------------------

std::string spaces(int count) {
  return std::string(static_cast<std::size_t>(std::max(0, count)), ' ');
}

// Some terminals reorder text that runs from right to left, and would take neighbouring labels and
// cells along. Marks on both sides keep each label in its place; they take no room.
std::string anchored(const std::string& text) {
  return runs_right_to_left(text) ? "\u200E" + text + "\u200E" : text;
}

enum class Align { left, right };

std::string padded(const std::string& text, int width, Align align) {
  const std::string label = cut(text, width);
  const std::string space = spaces(width - display_width(label));
  return align == Align::left ? anchored(label) + space : space + anchored(label);
}

enum class Header { characters, vertical, numbers };

struct Layout {
  std::vector<std::string> rows, columns;  // visible labels
  Header header = Header::characters;
  int label = 0;          // width of the row labels
  int cell = 0;           // width of a column
  std::size_t panel = 0;  // columns side by side
};

// Columns that are side by side.
struct Panel {
  std::size_t begin, end;
};

// Letters below each other read well for a short word in a script that does not join them.
Header header_for(const std::vector<std::string>& columns) {
  constexpr std::size_t kLongest = 12;
  if (single_characters(columns)) return Header::characters;
  const bool stack = std::ranges::all_of(columns, [](const std::string& label) {
    return clusters(label).size() <= kLongest && !runs_right_to_left(label);
  });
  return stack ? Header::vertical : Header::numbers;
}

Layout layout(const Heatmap& map, int width) {
  Layout l{.rows = visible(map.rows), .columns = visible(map.columns)};
  l.header = header_for(l.columns);
  l.label = std::min(widest(l.rows), width / 3);
  const int room = width - l.label - 1;
  const int count = static_cast<int>(l.columns.size());
  // Two columns make a cell about square; a long line of narrow characters makes do with one.
  const bool narrow = l.header == Header::characters && widest(l.columns) <= 1 && 2 * count > room;
  l.cell = narrow ? 1 : 2;
  if (l.header == Header::numbers) l.cell = static_cast<int>(fmt::formatted_size("{}", count)) + 1;
  const int most = std::max(1, room / l.cell), panels = std::max(1, (count + most - 1) / most);
  l.panel = static_cast<std::size_t>((count + panels - 1) / panels);  // about as many in each
  return l;
}

// From nothing to full weight, each brighter than the one before. The field brings its own dark
// ground, so that it reads the same on a light and on a dark terminal.
constexpr std::array kColours = {233, 17, 18, 24, 30, 36, 42, 78, 114, 149, 185, 191, 227};
constexpr std::array<std::string_view, 5> kGlyphs = {" ", "░", "▒", "▓", "█"};

// Rounded down, so that noise leaves no trace.
std::size_t level(double strength, std::size_t levels) {
  const auto reached = static_cast<std::size_t>(strength * static_cast<double>(levels));
  return std::min(reached, levels - 1);
}

std::string cells(const Heatmap& map, const Layout& l, Panel panel, std::size_t row, bool colour) {
  std::string out;
  int current = -1;
  for (std::size_t j = panel.begin; j < panel.end; ++j) {
    const double w = strength(weight(map, row, j));
    if (!colour) {
      for (int k = 0; k < l.cell; ++k) out += kGlyphs[level(w, kGlyphs.size())];
      continue;
    }
    const int next = kColours[level(w, kColours.size())];
    if (next != std::exchange(current, next)) out += fmt::format("\x1b[48;5;{}m", next);
    out += spaces(l.cell);
  }
  return current < 0 ? out : out + "\x1b[0m";
}

// The labels or their numbers on one line, or letters below each other, which stand on the cells.
std::vector<std::string> header(const Layout& l, Panel panel) {
  const Align align = l.header == Header::numbers ? Align::right : Align::left;
  std::vector<std::vector<std::string>> texts;  // of each column, from top to bottom
  std::size_t height = l.header == Header::vertical ? 0 : 1;
  for (std::size_t j = panel.begin; j < panel.end; ++j) {
    const std::string label = l.header == Header::numbers ? std::to_string(j + 1) : l.columns[j];
    texts.push_back(l.header == Header::vertical ? clusters(label) : std::vector{label});
    height = std::max(height, texts.back().size());
  }
  std::vector<std::string> lines(height, spaces(l.label + 1));
  for (const std::vector<std::string>& column : texts) {
    const std::size_t above = height - column.size();
    for (std::size_t i = 0; i < height; ++i)
      lines[i] += padded(i < above ? "" : column[i - above], l.cell, align);
  }
  return lines;
}

// The labels behind the numbers, as many to a line as fit.
std::vector<std::string> key(const Layout& l, int terminal) {
  constexpr int easy_to_read = 80;  // where the terminal is wider than map and text need
  const int map = l.label + 1 + l.cell * static_cast<int>(std::min(l.panel, l.columns.size()));
  const int width = std::min(terminal, std::max(easy_to_read, map));
  std::vector<std::string> lines;
  for (std::size_t j = 0; j < l.columns.size(); ++j) {
    const std::string item = anchored(cut(fmt::format("{} {}", j + 1, l.columns[j]), width));
    if (lines.empty() || display_width(lines.back() + "  " + item) > width) {
      lines.push_back(item);
    } else {
      lines.back() += "  " + item;
    }
  }
  return lines;
}

// Width of a finished line, without its escape sequences.
int line_width(const std::string& line) {
  static const std::regex escape_sequence("\x1b[^m]*m");
  return display_width(std::regex_replace(line, escape_sequence, ""));
}

// The lines, made equally wide.
std::string block(const std::vector<std::string>& lines) {
  int widest = 0;
  for (const std::string& line : lines) widest = std::max(widest, line_width(line));
  std::string out;
  for (const std::string& line : lines) out += line + spaces(widest - line_width(line)) + "\n";
  return out;
}

}  // namespace

std::string terminal(const Heatmap& map, const TerminalOptions& options) {
  check(map);
  if (options.width < 10) {
    fail("heatmap",
         fmt::format("the terminal has {} columns, but at least 10 are needed", options.width));
  }
  const Layout l = layout(map, options.width);
  std::vector<std::string> lines;
  if (!map.caption.empty())
    lines.push_back(anchored(cut(visible_caption(map.caption), options.width)));
  Panel panel{0, 0};
  do {
    panel = {panel.end, std::min(panel.end + l.panel, l.columns.size())};
    if (panel.begin > 0) lines.emplace_back();
    for (std::string& line : header(l, panel)) lines.push_back(std::move(line));
    for (std::size_t i = 0; i < l.rows.size(); ++i) {
      lines.push_back(padded(l.rows[i], l.label, Align::right) + " " +
                      cells(map, l, panel, i, options.colour));
    }
  } while (panel.end < l.columns.size());
  if (l.header == Header::numbers) {
    for (std::string& line : key(l, options.width)) lines.push_back(std::move(line));
  }
  return block(lines);
}

// ---- As SVG ----------------------------------------------------------------------------------

namespace {

// A style inside an inline <svg> holds for the whole page, hence a class of its own on every rule.
// Attributes repeat the light colours for programs that read SVG without CSS variables.
constexpr std::string_view kStyle = R"css(
.attune-heatmap{--_ink:var(--attune-ink,#1c2430);--_heat:var(--attune-heat,#0a4da2);
--_empty:var(--attune-empty,#eff2f6);direction:ltr;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
.attune-heatmap:root{color-scheme:light dark;background:#fff}
@media (prefers-color-scheme:dark){.attune-heatmap{--_ink:var(--attune-ink,#e4e9f0);
--_heat:var(--attune-heat,#93cdff);--_empty:var(--attune-empty,#202731)}
.attune-heatmap:root{background:#171c23}}
.attune-heatmap .ink{fill:var(--_ink)}.attune-heatmap .heat{fill:var(--_heat)}
.attune-heatmap .empty{fill:var(--_empty)}
.attune-heatmap .heat rect:hover{stroke:var(--_ink);stroke-width:1.5}
)css";

// A longer label is cut; the tooltips have it whole.
constexpr int kLongestLabel = 28;

// An estimate, as the font is the reader's.
double text_width(int columns, double font) { return 0.62 * font * columns; }

// All around the drawing, for when it stands alone.
constexpr double kMargin = 8;

// Cells in the legend, with its numbers.
constexpr int kLegend = 7;

struct Geometry {
  double cell = 0, font = 0, left = 0, top = 0, width = 0, height = 0;
  bool slanted = false;  // the column labels: they are words
  double x(std::size_t column) const { return left + cell * static_cast<double>(column); }
  double y(std::size_t row) const { return top + cell * static_cast<double>(row); }
};

Geometry geometry(const Heatmap& shown, double cell) {
  Geometry g{.cell = cell, .font = 0.7 * cell};
  g.slanted = !single_characters(shown.columns);
  g.left = 0.7 * g.font + text_width(std::min(widest(shown.rows), kLongestLabel), g.font);
  g.top = 1.6 * g.font;
  g.width = g.x(shown.columns.size());
  for (std::size_t j = 0; g.slanted && j < shown.columns.size(); ++j) {
    const int columns = std::min(display_width(shown.columns[j]), kLongestLabel);
    const double reach = (text_width(columns, g.font) + g.font) * std::numbers::sqrt2 / 2;
    g.top = std::max(g.top, reach);
    g.width = std::max(g.width, g.x(j) + g.cell / 2 + reach);
  }
  g.width = std::ceil(std::max(g.width, g.left + kLegend * g.cell));
  g.height = std::ceil(g.y(shown.rows.size() + 2));
  return g;
}

std::string svg_text(double x, double y, std::string_view attributes, const std::string& text) {
  if (text.empty()) return {};
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, attributes,
                     escape(text));
}

std::string svg_texts(const Heatmap& shown, const Geometry& g) {
  std::string out =
      fmt::format("<g class=\"ink\" fill=\"#1c2430\" font-size=\"{:.1f}\">\n", g.font);
  const double gap = 0.45 * g.font;
  for (std::size_t i = 0; i < shown.rows.size(); ++i) {
    out += svg_text(g.left - gap, g.y(i) + g.cell / 2 + 0.35 * g.font, " text-anchor=\"end\"",
                    cut(shown.rows[i], kLongestLabel));
  }
  for (std::size_t j = 0; j < shown.columns.size(); ++j) {
    const double x = g.x(j) + g.cell / 2, y = g.top - gap;
    const double foot = x + 0.3 * g.font;  // a slanted word begins above the middle of its cell
    const std::string how = g.slanted
                                ? fmt::format(" transform=\"rotate(-45 {:.1f} {:.1f})\"", foot, y)
                                : " text-anchor=\"middle\"";
    out += svg_text(g.slanted ? foot : x, y, how, cut(shown.columns[j], kLongestLabel));
  }
  return out + "</g>\n";
}

// Labels are isolated, so that one which runs from right to left leaves the arrow alone.
std::string tooltip(const std::string& row, const std::string& column, double weight) {
  return fmt::format("\u2068{}\u2069 ← \u2068{}\u2069: {:.3f}", escape(row), escape(column),
                     weight);
}

std::string svg_rect(double x, double y, double width, double height, std::string_view attributes,
                     std::string_view inside = {}) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}>{}</rect>\n", x, y,
      width, height, attributes, inside);
}

constexpr std::string_view
    kEmpty = R"(class="empty" fill="#eff2f6" rx="3")",
    kHeat = "<g class=\"heat\" fill=\"#0a4da2\">\n",
    kTellingHeat =  // a tooltip is not there for a finger
    "<g class=\"heat\" fill=\"#0a4da2\" "
    "onpointerover=\"this.nextElementSibling.textContent = event.target.textContent\">\n";

// The weight is the opacity over the page's own ground, which serves light and dark alike.
std::string opacity(double weight) {
  return fmt::format("rx=\"2\" fill-opacity=\"{:.3f}\"", strength(weight));
}

std::string svg_cells(const Heatmap& shown, const Geometry& g, double darkest) {
  std::string out = svg_rect(g.left, g.top, g.x(shown.columns.size()) - g.left,
                             g.y(shown.rows.size()) - g.top, kEmpty);
  out += kTellingHeat;
  for (std::size_t i = 0; i < shown.rows.size(); ++i) {
    for (std::size_t j = 0; j < shown.columns.size(); ++j) {
      const double w = weight(shown, i, j);
      out +=
          svg_rect(g.x(j) + 0.5, g.y(i) + 0.5, g.cell - 1, g.cell - 1, opacity(w / darkest),
                   fmt::format("<title>{}</title>", tooltip(shown.rows[i], shown.columns[j], w)));
    }
  }
  return out + fmt::format(
                   "</g>\n<text class=\"ink\" fill=\"#1c2430\" font-size=\"{:.1f}\" x=\"{:.1f}\" "
                   "y=\"{:.1f}\"></text>\n",
                   g.font, g.left, g.y(shown.rows.size()) + g.cell / 2 + 0.35 * g.font);
}

// Colours from weight 0 to the darkest, in the last of two more rows.
std::string legend(const Geometry& g, std::size_t rows, double darkest) {
  const double y = g.y(rows + 1), text = y + g.cell / 2 + 0.35 * g.font, gap = 0.45 * g.font;
  std::string out = svg_rect(g.x(1), y, (kLegend - 2) * g.cell, g.cell, kEmpty);
  out += kHeat;
  for (std::size_t i = 1; i + 1 < kLegend; ++i)
    out += svg_rect(g.x(i), y, g.cell, g.cell, opacity(static_cast<double>(i - 1) / (kLegend - 3)));
  out += fmt::format("</g>\n<g class=\"ink\" fill=\"#1c2430\" font-size=\"{:.1f}\">\n", g.font);
  return out + svg_text(g.x(1) - gap, text, " text-anchor=\"end\"", "0") +
         svg_text(g.x(kLegend - 1) + gap, text, "", fmt::format("{:.2g}", darkest)) + "</g>\n";
}

}  // namespace

std::string svg(const Heatmap& map, const SvgOptions& options) {
  check(map);
  if (!(options.cell >= 2))
    fail("heatmap", fmt::format("a cell is {} pixels, but at least 2 are needed", options.cell));
  if (!(options.darkest > 0))
    fail("heatmap", fmt::format("the darkest weight is {}, expected > 0", options.darkest));
  const std::string caption = visible_caption(map.caption);
  const Heatmap shown{visible(map.rows), visible(map.columns), map.weights, ""};
  const Geometry g = geometry(shown, options.cell);
  const double width = g.width + 2 * kMargin, height = g.height + 2 * kMargin;
  // Below some three quarters of its size the labels are hard to read: a narrow page scrolls the
  // drawing instead of shrinking it further.
  const std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"attune-heatmap\" role=\"img\" "
      "aria-label=\"{}\" width=\"{}\" height=\"{}\" viewBox=\"{} {} {} {}\" "
      "style=\"min-width:{:.0f}px\">\n<style>{}</style>\n",
      escape("Heat map" + (caption.empty() ? "" : ": " + caption)), width, height, -kMargin,
      -kMargin, width, height, 0.72 * width, kStyle);
  return out + svg_texts(shown, g) + svg_cells(shown, g, options.darkest) +
         legend(g, shown.rows.size(), options.darkest) + "</svg>";
}

}  // namespace attune::report
