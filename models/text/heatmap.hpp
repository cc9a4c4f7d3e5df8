// Heat maps of attention weights, as terminal text and as SVG.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::report {

/// The attention weights of one sequence: one row per decoder step.
struct Heatmap {
  std::vector<std::string> rows;     ///< target labels, UTF-8
  std::vector<std::string> columns;  ///< source labels, UTF-8
  std::vector<double> weights;       ///< (rows, columns), row-major; values above 1 are drawn as 1
  std::string caption;
};

struct TerminalOptions {
  bool colour = true;  ///< 256-colour backgrounds; false: the glyphs ░▒▓█
  int width = 80;      ///< columns of the terminal, at least 10
};

struct SvgOptions {
  double cell = 18;    ///< side of a cell in pixels
  double darkest = 1;  ///< smallest weight drawn in full colour, > 0
};

/// The heat map as lines of text, all of the same display width, at most options.width. A longer
/// source is split into panels, each with all rows. A long label is truncated with "…". Source
/// labels are in the header: horizontal if each is one character, else vertical, or as numbers with
/// a key below if labels are long or right-to-left. A space at either end of a label is shown as
/// "␣". A weight w is drawn with the intensity w^0.7, here and in `svg`.
///
/// Throws Error unless there is one finite weight >= 0 per cell, and if the terminal is too narrow.
std::string terminal(const Heatmap& map, const TerminalOptions& options = {});

/// The heat map as an `<svg>` element, for a file or an HTML page: source labels at the top, target
/// labels at the left, a colour legend below. Each cell has its weight as a tooltip; if scripts are
/// enabled, it is also shown above the legend when the cell is hovered over or tapped. The caption
/// is only in the aria-label. Colours are the CSS variables --attune-ink, --attune-heat and
/// --attune-empty of the page; undefined ones follow the light or dark mode of the browser.
///
/// Throws Error as `terminal` does, and unless options.darkest > 0 and options.cell >= 2.
std::string svg(const Heatmap& map, const SvgOptions& options = {});
/// The width of that drawing in pixels. Throws as `svg` does.
double svg_width(const Heatmap& map, const SvgOptions& options = {});

/// Escapes `text` for HTML and SVG, in elements and quoted attributes: & < > " ' become character
/// references. Characters forbidden in XML are replaced: control characters by their Unicode
/// pictures (U+0007 by ␇), invalid UTF-8 bytes and bidirectional marks by U+FFFD. Bidirectional
/// isolates, tabs and line breaks are kept.
std::string escape(std::string_view text);

}  // namespace attune::report
