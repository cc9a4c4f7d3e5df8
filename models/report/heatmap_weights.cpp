#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <attune/models/report/heatmap_weights.hpp>
#include <attune/tensor/check.hpp>

namespace attune::report::detail {

void check(const Heatmap& map) {
  const std::size_t rows = map.rows.size(), columns = map.columns.size();
  if (map.weights.size() != rows * columns) {
    throw Error(fmt::format("heatmap: weights has {} values, but {} rows x {} columns need {}",
                            map.weights.size(), rows, columns, rows * columns));
  }
  for (std::size_t i = 0; i < map.weights.size(); ++i) {
    const double w = map.weights[i];
    if (std::isfinite(w) && w >= 0) continue;
    throw Error(
        fmt::format("heatmap: weight (row {}, column {}) is {}, but a finite number >= 0 is needed",
                    i / columns, i % columns, w));
  }
}

double weight(const Heatmap& map, std::size_t row, std::size_t column) {
  return map.weights[row * map.columns.size() + column];
}

// Attention spread over a word leaves little on each of its letters; the power lifts that well above
// the ground while noise stays near it.
double strength(double weight) { return std::pow(std::min(1.0, weight), 0.7); }

}  // namespace attune::report::detail
