// Heat maps of attention, for a terminal and as SVG.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::report {

/// The attention weights of one sequence: a row for each step of the decoder.
struct Heatmap {
  std::vector<std::string> rows;     ///< target, UTF-8
  std::vector<std::string> columns;  ///< source, UTF-8
  std::vector<double> weights;       ///< (rows, columns), row-major, 0..1; above 1 draws as 1
  std::string caption;
};

struct TerminalOptions {
  bool colour = true;  ///< backgrounds from the 256 colours; otherwise the glyphs ░▒▓█
  int width = 80;  ///< columns of the terminal, at least 10; a map that is wider is cut into panels
};

struct SvgOptions {
  double cell = 18;    ///< side of a cell in pixels
  double darkest = 1;  ///< the weight that has the full colour, as larger ones have
};

/// The heat map as lines of text, all of the same display width and none wider than the terminal: a
/// long source continues in further panels, each with all rows; a long label is cut at a "…". The
/// source stands along the top: as it is when every label is one character, otherwise from top to
/// bottom, or as numbers with a key below when the labels are long or run from right to left. A
/// space at either end of a label shows as "␣". Weak weights are drawn a little stronger than in
/// proportion (w^0.7), here and in `svg`.
///
/// Throws Error when the weights are not one finite number >= 0 per cell, or the
/// terminal is too narrow.
std::string terminal(const Heatmap& map, const TerminalOptions& options = {});

/// The heat map as an `<svg>` element that stands alone or inside a page: source along the top,
/// target down the side, and a legend of the colours below. A cell's weight is in its tooltip, and
/// above the legend once it is pointed at or tapped, where scripts may run. The caption is in the
/// aria-label only, as a page has its own place for it. Colours come from the CSS variables
/// --attune-ink, --attune-heat and --attune-empty where the page defines them, and otherwise follow
/// the reader's light or dark setting.
///
/// Throws Error as `terminal` does, and unless the darkest weight is above 0.
std::string svg(const Heatmap& map, const SvgOptions& options = {});

/// `text` made safe inside HTML and SVG, in elements and in quoted attributes: & < > " ' become
/// references. Characters that XML forbids become visible: a control character turns into its
/// picture (U+0007 into ␇), a byte that is not UTF-8 and a mark of the direction of writing into
/// U+FFFD. Isolates, tab and line breaks stay.
std::string escape(std::string_view text);

}  // namespace attune::report
