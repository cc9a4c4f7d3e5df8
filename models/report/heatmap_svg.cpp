#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

#include <fmt/format.h>

#include <attune/models/report/display_text.hpp>
#include <attune/models/report/heatmap_weights.hpp>
#include <attune/tensor/check.hpp>

namespace attune::report {

using namespace detail;

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

struct Labels {
  std::vector<std::string> rows, columns;
};

// A longer text is cut; that of a label is whole in the tooltips.
constexpr int kLongestLabel = 28, kLongestCaption = 64;

// An estimate, as the font is the reader's.
double text_width(int columns, double font) { return 0.62 * font * columns; }

// All around the drawing, for when it stands alone.
constexpr double kMargin = 8;

struct Geometry {
  double cell = 0, font = 0, left = 0, top = 0, width = 0, height = 0;
  bool slanted = false;  // the column labels: they are words
  double x(std::size_t column) const { return left + cell * static_cast<double>(column); }
  double y(std::size_t row) const { return top + cell * static_cast<double>(row); }
};

Geometry geometry(const Labels& labels, const std::string& caption, double cell) {
  Geometry g{.cell = cell, .font = 0.7 * cell};
  g.slanted = !single_characters(labels.columns);
  g.left = 0.7 * g.font + text_width(std::min(widest(labels.rows), kLongestLabel), g.font);
  g.top = 1.6 * g.font;
  g.width = g.x(labels.columns.size());
  for (std::size_t j = 0; g.slanted && j < labels.columns.size(); ++j) {
    const int columns = std::min(display_width(labels.columns[j]), kLongestLabel);
    const double reach = (text_width(columns, g.font) + g.font) * std::numbers::sqrt2 / 2;
    g.top = std::max(g.top, reach);
    g.width = std::max(g.width, g.x(j) + g.cell / 2 + reach);
  }
  if (!caption.empty()) {
    g.top += 2 * g.font;
    g.width = std::max(g.width, text_width(display_width(caption), g.font));
  }
  g.width = std::ceil(g.width);
  g.height = std::ceil(g.y(labels.rows.size()));
  return g;
}

std::string svg_text(double x, double y, std::string_view attributes, const std::string& text) {
  if (text.empty()) return {};
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, attributes,
                     escape(text));
}

std::string svg_texts(const Labels& labels, const std::string& caption, const Geometry& g) {
  std::string out =
      fmt::format("<g class=\"ink\" fill=\"#1c2430\" font-size=\"{:.1f}\">\n", g.font);
  out += svg_text(0, 1.1 * g.font, " font-weight=\"600\"", caption);
  const double gap = 0.45 * g.font;
  for (std::size_t i = 0; i < labels.rows.size(); ++i) {
    out += svg_text(g.left - gap, g.y(i) + g.cell / 2 + 0.35 * g.font, " text-anchor=\"end\"",
                    cut(labels.rows[i], kLongestLabel));
  }
  for (std::size_t j = 0; j < labels.columns.size(); ++j) {
    const double x = g.x(j) + g.cell / 2, y = g.top - gap;
    const double foot = x + 0.3 * g.font;  // a slanted word begins above the middle of its cell
    const std::string how = g.slanted
                                ? fmt::format(" transform=\"rotate(-45 {:.1f} {:.1f})\"", foot, y)
                                : " text-anchor=\"middle\"";
    out += svg_text(g.slanted ? foot : x, y, how, cut(labels.columns[j], kLongestLabel));
  }
  return out + "</g>\n";
}

// Labels are isolated, so that one which runs from right to left leaves the arrow alone.
std::string tooltip(const std::string& row, const std::string& column, double weight) {
  return fmt::format("\u2068{}\u2069 ← \u2068{}\u2069: {:.3f}", escape(row), escape(column),
                     weight);
}

// The weight is the opacity over the page's own ground, which serves light and dark alike.
std::string svg_cells(const Heatmap& map, const Labels& labels, const Geometry& g, double darkest) {
  std::string out = fmt::format(
      "<rect class=\"empty\" fill=\"#eff2f6\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
      "height=\"{:.1f}\" rx=\"3\"/>\n<g class=\"heat\" fill=\"#0a4da2\">\n",
      g.left, g.top, g.x(labels.columns.size()) - g.left, g.y(labels.rows.size()) - g.top);
  for (std::size_t i = 0; i < labels.rows.size(); ++i) {
    for (std::size_t j = 0; j < labels.columns.size(); ++j) {
      out += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"2\" "
          "fill-opacity=\"{:.3f}\"><title>{}</title></rect>\n",
          g.x(j) + 0.5, g.y(i) + 0.5, g.cell - 1, g.cell - 1, strength(weight(map, i, j) / darkest),
          tooltip(labels.rows[i], labels.columns[j], weight(map, i, j)));
    }
  }
  return out + "</g>\n";
}

}  // namespace

std::string svg(const Heatmap& map, const SvgOptions& options) {
  check(map);
  if (!(options.cell >= 2)) {
    throw Error(
        fmt::format("heatmap: a cell is {} pixels, but at least 2 are needed", options.cell));
  }
  if (!(options.darkest > 0))
    throw Error(fmt::format("heatmap: the darkest weight is {}, expected > 0", options.darkest));
  const Labels labels{visible(map.rows), visible(map.columns)};
  const std::string caption = visible_caption(map.caption);
  const std::string drawn = options.caption ? cut(caption, kLongestCaption) : "";
  const Geometry g = geometry(labels, drawn, options.cell);
  const double width = g.width + 2 * kMargin, height = g.height + 2 * kMargin;
  // Below some three quarters of its size the labels are hard to read: a narrow page scrolls the
  // drawing instead of shrinking it further.
  const std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"attune-heatmap\" role=\"img\" "
      "aria-label=\"{}\" width=\"{}\" height=\"{}\" viewBox=\"{} {} {} {}\" "
      "style=\"min-width:{:.0f}px\">\n<style>{}</style>\n",
      escape("Heat map" + (caption.empty() ? "" : ": " + caption)), width, height, -kMargin,
      -kMargin, width, height, 0.72 * width, kStyle);
  return out + svg_texts(labels, drawn, g) + svg_cells(map, labels, g, options.darkest) + "</svg>";
}

}  // namespace attune::report
