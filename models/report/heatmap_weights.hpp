// The weights of a heat map, as the terminal and SVG draw them.
#pragma once

#include <cstddef>

#include <attune/models/report/heatmap.hpp>

namespace attune::report::detail {

/// Throws Error when the weights are not one finite number >= 0 per cell.
void check(const Heatmap& map);

double weight(const Heatmap& map, std::size_t row, std::size_t column);

/// How strongly a weight is drawn, 0 to 1.
double strength(double weight);

}  // namespace attune::report::detail
