// Line charts, as SVG.
#pragma once

#include <string>
#include <vector>

#include "run_directory.hpp"

namespace attune::report {

/// Points of a line, in drawing order. Non-finite values, and values <= 0 on a logarithmic axis,
/// are gaps in the line.
struct Series {
  std::string name;  ///< legend entry; none if empty
  std::vector<double> x, y;
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<Series> series = {};
  bool log_y = false;
};

/// The line chart as an `<svg>` element, for a file of its own or inside a page. Its colours are
/// distinguishable with colour vision deficiencies, and follow the light or dark mode.
std::string svg(const Chart& chart);

/// A learning curve: `field` times `scale` by step, for the log lines that have both.
Series curve(const Log& log, const std::string& field, std::string name, double scale = 1);

}  // namespace attune::report
