// Reports as one HTML page.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::report {

/// A report: one HTML document without scripts, fonts or anything else to fetch, so that it can be
/// opened from disk, mailed and archived. It follows the reader's light or dark setting and fits a
/// phone.
///
///     Page page("Dates");
///     page.heading("Learning curves").figure(svg(chart), "Loss per epoch");
///     std::ofstream("report.html") << page.html();
///
/// All text is escaped here; only `figure` takes markup.
class Page {
 public:
  explicit Page(std::string title);

  Page& heading(std::string_view text);
  Page& paragraph(std::string_view text);

  /// Columns that hold nothing but numbers are aligned to the right.
  /// Throws Error when a row is not as long as the header.
  Page& table(const std::vector<std::string>& header,
              const std::vector<std::vector<std::string>>& rows);

  /// Names and values as tiles: the few figures a reader looks for first.
  Page& definitions(const std::vector<std::pair<std::string, std::string>>& items);

  /// `svg` is inserted as it is: pass the result of `svg(heatmap)` or `svg(chart)`. Figures added
  /// one after the other share a grid with as many columns as the window has room for; charts and
  /// heat maps have grids of their own. An empty caption is left out. Throws Error
  /// when `svg` is not an `<svg>` element.
  Page& figure(std::string_view svg, std::string_view caption);

  /// The whole document.
  std::string html() const;

 private:
  enum class Grid { none, narrow, wide };
  void end_figures();

  std::string title_;
  std::string body_;
  Grid grid_ = Grid::none;  // of figures, open at the end of body_
};

}  // namespace attune::report
