// The axes of a line chart, their ticks and labels.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace attune::report::detail {

inline constexpr double kFont = 13;
/// A phone shows the drawing at some two thirds of its size; the style makes up for it with larger
/// letters, and the layout leaves room for them.
inline constexpr double kLargeFont = 16;

/// The width of `text` in a large font: an estimate.
double text_width(std::string_view text);

/// `text` without its end when it is longer than `columns`; the cut is marked.
std::string clipped(std::string_view text, int columns);

struct Tick {
  double value;
  std::string label;
};

struct Axis {
  double low = 0, high = 1;
  bool log = false;
  std::vector<Tick> ticks = {};

  /// 0 at the low end, 1 at the high one.
  double fraction(double value) const {
    if (log) return (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
    return (value - low) / (high - low);
  }
};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool whole = true;  // only whole numbers
  bool empty() const { return low > high; }
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
    whole = whole && value == std::floor(value);
  }
};

/// The axis along the bottom: exactly as long as the data, and with as many ticks as have room.
Axis x_axis(const Range& data, double length);

/// The axis up the side: from tick to tick, and from zero where that is not far.
Axis linear_axis(const Range& data);

Axis log_axis(const Range& data);

}  // namespace attune::report::detail
