#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <attune/models/report/chart_axes.hpp>

namespace attune::report::detail {
namespace {

// An estimate in units of a narrow letter: characters from U+1000 on count as wide.
int text_columns(std::string_view text) {
  int columns = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) != 0x80) columns += byte >= 0xE1 ? 2 : 1;
  }
  return columns;
}

std::string superscript(int number) {
  constexpr std::array<std::string_view, 10> kDigits = {"⁰", "¹", "²", "³", "⁴",
                                                        "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out = number < 0 ? "⁻" : "";
  for (const char digit : std::to_string(std::abs(number))) {
    out += kDigits[digit - '0'];
  }
  return out;
}

// A range of one value, or so close to it that no two ticks could be told apart, is widened.
Range widened(Range range) {
  const double largest = std::max(std::abs(range.low), std::abs(range.high));
  if (range.high - range.low > std::max(1e-9 * largest, 1e-200)) return range;
  const double margin = range.whole && largest < 1e6 ? 1 : std::max(0.1 * largest, 1e-200);
  return {range.low - margin, range.high + margin, range.whole};
}

// 1, 2 or 5 times a power of ten, so that some `count` of it make up `length`.
double nice_step(double length, int count) {
  const double raw = length / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= 1.001 * factor * power) return factor * power;
  }
  return 10 * power;
}

// "2.5·10⁻⁵", with the digits that ticks `step` apart need.
std::string scientific(double value, double step) {
  if (value == 0) return "0";
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9));
  const int digits = exponent - static_cast<int>(std::floor(std::log10(step) + 1e-9));
  const std::string mantissa =
      fmt::format("{:.{}f}", std::abs(value) / std::pow(10, exponent), std::clamp(digits, 0, 9));
  return fmt::format("{}{}10{}", value < 0 ? "−" : "", mantissa == "1" ? "" : mantissa + "·",
                     superscript(exponent));
}

// All labels of an axis share a unit: 0, 5k, 10k. `largest` is the largest value on it.
std::string linear_label(double value, double step, double largest) {
  if (largest >= 1e13 || largest < 1e-3) return scientific(value, step);
  std::pair<double, std::string_view> unit{1, ""};
  if (largest >= 1e4) unit = {1e3, "k"};
  if (largest >= 1e6) unit = {1e6, "M"};
  if (largest >= 1e9) unit = {1e9, "G"};
  const double decimals = -std::floor(std::log10(step / unit.first) + 1e-9);
  const std::string digits = fmt::format("{:.{}f}", std::abs(value) / unit.first,
                                         static_cast<int>(std::clamp(decimals, 0.0, 12.0)));
  return fmt::format("{}{}{}", value < 0 ? "−" : "", digits, value == 0 ? "" : unit.second);
}

std::vector<Tick> linear_ticks(double low, double high, double step) {
  std::vector<Tick> ticks;
  const double largest = std::max(std::abs(low), std::abs(high));
  for (double i = std::ceil(low / step - 1e-6); i <= high / step + 1e-6; ++i) {
    const double value = i == 0 ? 0 : i * step;  // no -0
    ticks.push_back({value, linear_label(value, step, largest)});
  }
  return ticks;
}

// Room that the labels need beside each other.
double length_of(const std::vector<Tick>& ticks) {
  return std::accumulate(ticks.begin(), ticks.end(), 0.0, [](double sum, const Tick& tick) {
    return sum + text_width(tick.label) + 20;
  });
}

Tick log_tick(int exponent, int factor) {
  const double value = factor * std::pow(10, exponent);
  if (exponent >= -3 && exponent <= 3) return {value, fmt::format("{:.6g}", value)};
  return {value, scientific(value, value)};
}

}  // namespace

double text_width(std::string_view text) { return 0.58 * kLargeFont * text_columns(text); }

std::string clipped(std::string_view text, int columns) {
  if (text_columns(text) <= columns) return std::string(text);
  std::size_t end = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins && text_columns(text.substr(0, i)) <= columns - 1) end = i;
  }
  return std::string(text.substr(0, end)) + "…";
}

Axis x_axis(const Range& data, double length) {
  const Range range = widened(data);
  Axis axis{.low = range.low, .high = range.high};
  for (int count = 8; count > 0; --count) {
    double step = nice_step(range.high - range.low, count);
    if (range.whole) step = std::max(step, 1.0);  // there is no epoch 2.5
    std::vector<Tick> ticks = linear_ticks(range.low, range.high, step);
    if (count < 8 && ticks.size() < 2) break;
    axis.ticks = std::move(ticks);
    if (length_of(axis.ticks) <= length) break;
  }
  return axis;
}

Axis linear_axis(const Range& data) {
  Range range = widened(data);
  if (range.low > 0 && range.low < 0.5 * range.high) range.low = 0;
  const double step = nice_step(range.high - range.low, 5);
  Axis axis{.low = step * std::floor(range.low / step + 1e-6),
            .high = step * std::ceil(range.high / step - 1e-6)};
  axis.ticks = linear_ticks(axis.low, axis.high, step);
  return axis;
}

Axis log_axis(const Range& data) {
  const int first = static_cast<int>(std::floor(std::log10(data.low)));
  const int last = static_cast<int>(std::floor(std::log10(data.high)));
  // 1, 2, 5 within each power of ten over a few of them, powers alone over many
  const int every = (last - first) / 7 + 1;
  std::vector<Tick> ticks;
  for (int exponent = first - every; exponent <= last + every; exponent += every) {
    for (const int factor : {1, 2, 5}) {
      if (factor == 1 || last - first < 3) ticks.push_back(log_tick(exponent, factor));
    }
  }
  // From the last tick below the data to the first one above it
  std::size_t low = 0, high = ticks.size() - 1;
  while (low < high && ticks[low + 1].value <= data.low * (1 + 1e-9)) ++low;
  while (high > low && ticks[high - 1].value >= data.high * (1 - 1e-9)) --high;
  if (low == high) --low, ++high;  // one value, on a tick
  ticks = {ticks.begin() + low, ticks.begin() + high + 1};
  return {.low = ticks.front().value, .high = ticks.back().value, .log = true, .ticks = ticks};
}

}  // namespace attune::report::detail
