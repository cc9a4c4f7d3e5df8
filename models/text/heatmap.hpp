// Heat maps of attention weights as terminal text, SVG and HTML.
#pragma once

#include <span>
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

/// An SVG file of heat maps, one below the other, with their captions and one legend: source labels
/// at the top, target labels at the left. Each cell has its weight as a tooltip; each map describes
/// the largest weight of each row for screen readers. Light or dark mode is that of the browser.
///
/// Throws Error as `terminal` does, and unless options.darkest > 0 and options.cell >= 2.
std::string svg(std::span<const Heatmap> maps, const SvgOptions& options = {});
inline std::string svg(const Heatmap& map, const SvgOptions& options = {}) {
  return svg(std::span<const Heatmap>(&map, 1), options);
}

/// The same as a `<figure>` of a page, with the caption and a `note`, in red if `wrong`; without
/// rows, only these. Pointing at a cell, or selecting it with the arrow keys, shows its weight.
std::string figure(const Heatmap& map, const std::string& note = "", bool wrong = false);
/// The legend of the figures of a page.
inline constexpr const char* legend =
    "<p class=\"legend\">weight 0<span class=\"weights\"></span>1</p>\n";
/// An HTML page with the style sheet and the script of figures. It has no external resources: it
/// can be opened from disk, mailed and archived. The title is text, the body is HTML.
std::string page(const std::string& title, const std::string& body);

/// Escapes `text` for HTML and SVG, in elements and quoted attributes: & < > " ' become character
/// references. Characters forbidden in XML are replaced: control characters by their Unicode
/// pictures (U+0007 by ␇), invalid UTF-8 bytes and bidirectional marks by U+FFFD. Bidirectional
/// isolates, tabs and line breaks are kept.
std::string escape(std::string_view text);

}  // namespace attune::report
