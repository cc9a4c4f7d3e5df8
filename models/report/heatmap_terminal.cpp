#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <attune/models/report/display_text.hpp>
#include <attune/models/report/heatmap_weights.hpp>
#include <attune/tensor/check.hpp>

namespace attune::report {

using namespace detail;

namespace {

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
  const bool stack = std::all_of(columns.begin(), columns.end(), [](const std::string& label) {
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

// One line of the header: `text(j)` above column j.
template <typename Text>
std::string header_line(const Layout& l, Panel panel, Align align, Text text) {
  std::string out = spaces(l.label + 1);
  for (std::size_t j = panel.begin; j < panel.end; ++j) out += padded(text(j), l.cell, align);
  return out;
}

std::vector<std::string> stacked_header(const Layout& l, Panel panel) {
  std::vector<std::vector<std::string>> letters;
  std::size_t height = 0;
  for (std::size_t j = panel.begin; j < panel.end; ++j) {
    letters.push_back(clusters(l.columns[j]));
    height = std::max(height, letters.back().size());
  }
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < height; ++i) {
    lines.push_back(header_line(l, panel, Align::left, [&](std::size_t j) {
      const std::vector<std::string>& word = letters[j - panel.begin];
      const std::size_t above = height - word.size();  // words stand on the cells
      return i < above ? std::string() : word[i - above];
    }));
  }
  return lines;
}

std::vector<std::string> header(const Layout& l, Panel panel) {
  const auto number = [](std::size_t j) { return std::to_string(j + 1); };
  switch (l.header) {
    case Header::vertical:
      return stacked_header(l, panel);
    case Header::numbers:
      return {header_line(l, panel, Align::right, number)};
    case Header::characters:
      break;
  }
  return {header_line(l, panel, Align::left, [&](std::size_t j) { return l.columns[j]; })};
}

// What the numbers stand for, as many to a line as fit.
std::vector<std::string> key(const Layout& l, int terminal) {
  constexpr int easy_to_read = 80;  // where the terminal is wider than map and text need
  const int map = l.label + 1 + l.cell * static_cast<int>(std::min(l.panel, l.columns.size()));
  const int width = std::min(terminal, std::max(easy_to_read, map));
  std::vector<std::string> lines;
  int used = width;  // the first item begins a line
  const auto add = [&](const std::string& item) {
    const int needed = display_width(item) + 2;
    if (used + needed > width) {
      lines.push_back(anchored(item));
      used = needed - 2;
    } else {
      lines.back() += "  " + anchored(item);
      used += needed;
    }
  };
  for (std::size_t j = 0; j < l.columns.size(); ++j) {
    add(cut(fmt::format("{} {}", j + 1, l.columns[j]), width));
  }
  return lines;
}

// Width of a finished line, without its escape sequences.
int line_width(const std::string& line) {
  std::string text;
  bool escape_sequence = false;
  for (const char c : line) {
    escape_sequence = escape_sequence || c == '\x1b';
    if (!escape_sequence) text += c;
    escape_sequence = escape_sequence && c != 'm';
  }
  return display_width(text);
}

// The lines, made equally wide.
std::string block(const std::vector<std::string>& lines) {
  std::vector<int> widths;
  std::transform(lines.begin(), lines.end(), std::back_inserter(widths), line_width);
  const int widest = widths.empty() ? 0 : *std::max_element(widths.begin(), widths.end());
  std::string out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    out += lines[i] + spaces(widest - widths[i]) + "\n";
  }
  return out;
}

}  // namespace

std::string terminal(const Heatmap& map, const TerminalOptions& options) {
  check(map);
  if (options.width < 10) {
    throw Error(fmt::format("heatmap: the terminal has {} columns, but at least 10 are needed",
                            options.width));
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

}  // namespace attune::report
