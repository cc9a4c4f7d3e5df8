#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
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

// From weight 0 to 1, with increasing brightness. The background is always dark, so the map looks
// the same on light and dark terminals.
constexpr std::array colours = {233, 17, 18, 24, 30, 36, 42, 78, 114, 149, 185, 191, 227};
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

// ---- As SVG ----------------------------------------------------------------------------------

// A style in an inline <svg> applies to the whole page, so every rule has a class of its own.
// Attributes repeat the light colours for programs without support for CSS variables.
constexpr std::string_view style = R"css(
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
constexpr std::string_view empty = R"(class="empty" fill="#eff2f6" rx="3")",
                           heat = R"(<g class="heat" fill="#0a4da2")",
                           ink = R"(class="ink" fill="#1c2430" font-size=)";

constexpr int longest_label = 28;  // longer labels are truncated, but not in tooltips
constexpr double margin = 8;       // around the drawing, for use as a file
constexpr int legend_cells = 7;    // with the numbers at both ends

// An estimate, as the font depends on the reader's system.
double text_width(int columns, double font) { return 0.62 * font * columns; }

std::string svg_text(double x, double y, std::string_view attributes, const std::string& text) {
  if (text.empty()) return {};
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, attributes,
                     escape(text));
}

std::string svg_rect(double x, double y, double width, double height, std::string_view attributes,
                     std::string_view inside = {}) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" {}>{}</rect>\n", x, y,
      width, height, attributes, inside);
}

// The weight is the opacity over the page's background, for light and dark pages.
std::string opacity(double weight) {
  return fmt::format("rx=\"2\" fill-opacity=\"{:.3f}\"", strength(weight));
}

/// A map with visible labels, and its layout.
struct Picture {
  Heatmap map;
  double darkest, cell, font, gap, left, top, width, height;
  bool slanted;  // column labels are slanted, as they are words

  Picture(const Heatmap& from, const SvgOptions& options)
      : map(visible(from)),
        darkest(options.darkest),
        cell(options.cell),
        font(0.7 * cell),
        gap(0.45 * font),
        left(0.7 * font + text_width(std::min(widest(map.rows), longest_label), font)),
        top(1.6 * font),
        width(x(map.columns.size())),
        slanted(!single_characters(map.columns)) {
    for (std::size_t j = 0; slanted && j < map.columns.size(); ++j) {
      const int columns = std::min(display_width(map.columns[j]), longest_label);
      const double reach = (text_width(columns, font) + font) * std::numbers::sqrt2 / 2;
      top = std::max(top, reach);
      width = std::max(width, x(j) + cell / 2 + reach);
    }
    width = std::ceil(std::max(width, left + legend_cells * cell));
    height = std::ceil(y(map.rows.size() + 2));
  }

  double x(std::size_t column) const { return left + cell * static_cast<double>(column); }
  double y(std::size_t row) const { return top + cell * static_cast<double>(row); }
  double baseline(std::size_t row) const { return y(row) + cell / 2 + 0.35 * font; }

  std::string labels() const {
    std::string out = fmt::format("<g {}\"{:.1f}\">\n", ink, font);
    for (std::size_t i = 0; i < map.rows.size(); ++i) {
      out += svg_text(left - gap, baseline(i), " text-anchor=\"end\"",
                      cut(map.rows[i], longest_label));
    }
    for (std::size_t j = 0; j < map.columns.size(); ++j) {
      const double middle = x(j) + cell / 2, foot = top - gap;
      const double start = middle + 0.3 * font;  // a slanted word starts above the cell's centre
      out += svg_text(slanted ? start : middle, foot,
                      slanted ? fmt::format(" transform=\"rotate(-45 {:.1f} {:.1f})\"", start, foot)
                              : " text-anchor=\"middle\"",
                      cut(map.columns[j], longest_label));
    }
    return out + "</g>\n";
  }

  std::string cells() const {
    const std::size_t rows = map.rows.size(), columns = map.columns.size();
    std::string out = svg_rect(left, top, x(columns) - left, y(rows) - top, empty);
    out += fmt::format(  // touch screens have no tooltips
        "{} onpointerover=\"this.nextElementSibling.textContent = event.target.textContent\">\n",
        heat);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        const double w = weight(map, i, j);
        // Labels are isolated, so that a right-to-left label does not reorder the arrow.
        out += svg_rect(x(j) + 0.5, y(i) + 0.5, cell - 1, cell - 1, opacity(w / darkest),
                        fmt::format("<title>\u2068{}\u2069 ← \u2068{}\u2069: {:.3f}</title>",
                                    escape(map.rows[i]), escape(map.columns[j]), w));
      }
    }
    return out + fmt::format("</g>\n<text {}\"{:.1f}\" x=\"{:.1f}\" y=\"{:.1f}\"></text>\n", ink,
                             font, left, baseline(rows));
  }

  // The legend: colours from weight 0 to the darkest, two rows below the map.
  std::string legend() const {
    const std::size_t row = map.rows.size() + 1;
    std::string out = svg_rect(x(1), y(row), (legend_cells - 2) * cell, cell, empty);
    out += fmt::format("{}>\n", heat);
    for (std::size_t i = 1; i + 1 < legend_cells; ++i) {
      out += svg_rect(x(i), y(row), cell, cell,
                      opacity(static_cast<double>(i - 1) / (legend_cells - 3)));
    }
    out += fmt::format("</g>\n<g {}\"{:.1f}\">\n", ink, font);
    return out + svg_text(x(1) - gap, baseline(row), " text-anchor=\"end\"", "0") +
           svg_text(x(legend_cells - 1) + gap, baseline(row), "", fmt::format("{:.2g}", darkest)) +
           "</g>\n";
  }
};

Picture picture_of(const Heatmap& map, const SvgOptions& options) {
  check(map);
  if (!(options.cell >= 2))
    fail("heatmap", "a cell is {} pixels, but at least 2 are needed", options.cell);
  if (!(options.darkest > 0))
    fail("heatmap", "the darkest weight is {}, expected > 0", options.darkest);
  return Picture(map, options);
}

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

double svg_width(const Heatmap& map, const SvgOptions& options) {
  return picture_of(map, options).width + 2 * margin;
}

std::string svg(const Heatmap& map, const SvgOptions& options) {
  const Picture p = picture_of(map, options);
  const double width = p.width + 2 * margin, height = p.height + 2 * margin;
  // Below about 3/4 of the size the labels are hard to read. So a narrow page scrolls the drawing
  // instead of shrinking it further.
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"attune-heatmap\" role=\"img\" "
             "aria-label=\"{}\" width=\"{}\" height=\"{}\" viewBox=\"{} {} {} {}\" "
             "style=\"min-width:{:.0f}px\">\n<style>{}</style>\n",
             escape("Heat map" + (map.caption.empty() ? "" : ": " + p.map.caption)), width, height,
             -margin, -margin, width, height, 0.72 * width, style) +
         p.labels() + p.cells() + p.legend() + "</svg>";
}

}  // namespace attune::report
