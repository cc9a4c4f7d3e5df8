// Line charts, as SVG.
#pragma once

#include <string>
#include <vector>

#include "log.hpp"

namespace attune::report {

/// Points of a line, in drawing order. A value that is not finite is a gap in the line, and so is
/// one that is not positive on a logarithmic axis.
struct Series {
  std::string name;  ///< in the legend; no entry when empty
  std::vector<double> x, y;
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<Series> series = {};
  bool log_y = false;
};

/// The line chart as an `<svg>` element that stands alone or inside a page. Colours can be told apart
/// with any kind of colour vision, and follow the reader's light or dark setting.
std::string svg(const Chart& chart);

/// One field of a log against the step, where lines have both: a learning curve.
Series curve(const Log& log, const std::string& field, std::string name, double scale = 1);

}  // namespace attune::report
