#include "chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <attune/models/heatmap.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::report {

namespace {

constexpr double kLargeFont =
    16;  // of kStyle, on a phone, which shows the drawing at two thirds of its size
constexpr std::string_view kInk = R"(class="ink" fill="#1c2430")",
                           kMuted = R"(class="muted" fill="#5b6675")";

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

// The width of `text` in a large font: an estimate.
double text_width(const std::string& text) { return 0.58 * kLargeFont * text::display_width(text); }

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

// "2.5e-05", with the digits that ticks `step` apart need.
std::string scientific(double value, double step) {
  if (value == 0) return "0";
  const double digits = std::log10(std::abs(value)) - std::log10(step) + 1e-9;
  return fmt::format("{}{:.{}e}", value < 0 ? "−" : "", std::abs(value),
                     static_cast<int>(std::clamp(digits, 0.0, 9.0)));
}

// All labels of an axis share a unit: 0, 5k, 10k. `largest` is the largest value on it.
std::string linear_label(double value, double step, double largest) {
  if (largest >= 1e13 || largest < 1e-3) return scientific(value, step);
  const auto unit = largest >= 1e9   ? std::pair(1e9, "G")
                    : largest >= 1e6 ? std::pair(1e6, "M")
                    : largest >= 1e4 ? std::pair(1e3, "k")
                                     : std::pair(1.0, "");
  const double decimals = -std::floor(std::log10(step / unit.first) + 1e-9);
  const std::string digits = fmt::format("{:.{}f}", std::abs(value) / unit.first,
                                         static_cast<int>(std::clamp(decimals, 0.0, 12.0)));
  return fmt::format("{}{}{}", value < 0 ? "−" : "", digits, value == 0 ? "" : unit.second);
}

Axis linear_axis(double low, double high, double step) {
  Axis axis{.low = low, .high = high};
  const double largest = std::max(std::abs(low), std::abs(high));
  for (double i = std::ceil(low / step - 1e-6); i <= high / step + 1e-6; ++i) {
    const double value = i == 0 ? 0 : i * step;  // no -0
    axis.ticks.push_back({value, linear_label(value, step, largest)});
  }
  return axis;
}

// The axis along the bottom: exactly as long as the data.
Axis x_axis(const Range& data) {
  const Range range = widened(data);
  const double step = nice_step(range.high - range.low, 6);
  return linear_axis(range.low, range.high,
                     range.whole ? std::max(step, 1.0) : step);  // there is no epoch 2.5
}

// The axis up the side: from tick to tick, and from zero where that is not far.
Axis y_axis(const Range& data) {
  Range range = widened(data);
  if (range.low > 0 && range.low < 0.5 * range.high) range.low = 0;
  const double step = nice_step(range.high - range.low, 5);
  return linear_axis(step * std::floor(range.low / step + 1e-6),
                     step * std::ceil(range.high / step - 1e-6), step);
}

Axis log_axis(const Range& data) {
  const int first = static_cast<int>(std::floor(std::log10(data.low)));
  const int last = static_cast<int>(std::floor(std::log10(data.high)));
  // 1, 2, 5 within each power of ten over a few of them, powers alone over many
  const int every = (last - first) / 7 + 1;
  std::vector<Tick> ticks;
  for (int exponent = first - every; exponent <= last + every; exponent += every) {
    for (const int factor : {1, 2, 5}) {
      if (factor > 1 && last - first >= 3) continue;
      const double value = factor * std::pow(10, exponent);
      ticks.push_back({value, std::abs(exponent) <= 3 ? fmt::format("{:.6g}", value)
                                                      : scientific(value, value)});
    }
  }
  // From the last tick below the data to the first one above it
  auto low = std::ranges::upper_bound(ticks, data.low * (1 + 1e-9), {}, &Tick::value) - 1;
  auto high = std::ranges::lower_bound(ticks, data.high * (1 - 1e-9), {}, &Tick::value);
  if (low == high) --low, ++high;  // one value, on a tick
  ticks = std::vector<Tick>(low, high + 1);
  return {.low = ticks.front().value, .high = ticks.back().value, .log = true, .ticks = ticks};
}

constexpr std::size_t kMostPoints = 1000;

// Far from where arithmetic on the range of an axis would overflow or come out as zero.
bool drawable(double x, double y, bool log_y) {
  return std::abs(x) < 1e200 && std::abs(y) < 1e200 && (!log_y || y > 1e-200);
}

struct Point {
  double x, y;
};
using Run = std::vector<Point>;  // points joined by a line

// The series cut at its gaps. A long one is gone through in equal stretches, of which the first, the
// lowest, the highest and the last point are kept (Jugel et al., 2014, M4). A gap shorter than a
// stretch is less than a pixel, and is not kept.
std::vector<Run> runs(const Series& series, bool log_y) {
  const std::size_t size = series.x.size();
  const std::size_t stretch = size <= kMostPoints ? 1 : 1 + size / (kMostPoints / 4);
  std::vector<Run> out;
  bool gap = true;
  for (std::size_t begin = 0; begin < size; begin += stretch) {
    std::vector<std::size_t> points;
    for (std::size_t i = begin; i < std::min(begin + stretch, size); ++i)
      if (drawable(series.x[i], series.y[i], log_y)) points.push_back(i);
    const bool after_gap = std::exchange(gap, points.empty());
    if (gap) continue;
    if (after_gap) out.emplace_back();
    const auto [low, high] =
        std::ranges::minmax_element(points, {}, [&](std::size_t i) { return series.y[i]; });
    for (const std::size_t i : std::set{points.front(), *low, *high, points.back()})
      out.back().push_back({series.x[i], series.y[i]});
  }
  return out;
}

// In light and in dark, colours that can be told apart, and from the ground, under every common
// deficiency of colour vision (at least 17 units of CIELAB in simulation). Beyond six series, dashes
// tell apart.
constexpr std::array<std::string_view, 6> kColours = {"#0b55c4", "#c64520", "#02a577",
                                                      "#7a2a7c", "#c08800", "#2e3036"};
constexpr std::array<std::string_view, 3> kDashes = {"", "7 4", "2 3"};

// A style inside an inline <svg> holds for the whole page, hence a class of its own on every rule.
// The light colours are attributes, which programs without CSS read, too.
constexpr std::string_view kStyle = R"css(
.attune-chart{direction:ltr;font-size:13px;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
.attune-chart:root{color-scheme:light dark;background:#fff}
@media (max-width:480px){.attune-chart{font-size:16px}}
@media (prefers-color-scheme:dark){.attune-chart:root{background:#171c23}
.attune-chart .ink{fill:#e4e9f0}.attune-chart .muted{fill:#98a3b3}
.attune-chart .grid{stroke:#2b333e}.attune-chart .axis{stroke:#98a3b3}
.attune-chart .series-1{color:#76a6f5}.attune-chart .series-2{color:#ee7330}
.attune-chart .series-3{color:#16ca75}.attune-chart .series-4{color:#dd86b8}
.attune-chart .series-5{color:#e6e264}.attune-chart .series-6{color:#d6f0f4}}
)css";

// Attributes of the group that holds a series, or its entry in the legend.
std::string series_style(std::size_t index) {
  const std::size_t colour = index % kColours.size();
  const std::string_view dash = kDashes[index / kColours.size() % kDashes.size()];
  return fmt::format("class=\"series-{}\" color=\"{}\"{}", colour + 1, kColours[colour],
                     dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash));
}

constexpr double kWidth = 560, kPlotHeight = 230;
constexpr double kMargin = 8;  // all around, for when the drawing stands alone

// Where things are; the plot is the rectangle between the axes.
struct Frame {
  double left = 0, top = 0, right = 0, bottom = 0, height = 0;
  Axis x = {}, y = {};  // without ticks where there are no points
  double px(double value) const { return left + (right - left) * x.fraction(value); }
  double py(double value) const { return bottom - (bottom - top) * y.fraction(value); }
};

std::string text(double x, double y, std::string_view attributes, std::string_view content) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes,
                     escape(content));
}

// Title, legend and the name of the vertical axis, one below the other; `y` moves on with them.
std::string heading(const Chart& chart, double& y) {
  std::string out;
  if (!chart.title.empty()) {
    out += text(0, y + 16, fmt::format(R"({} font-weight="600" font-size="1.15em")", kInk),
                text::cut(chart.title, 52));
    y += 28;
  }
  double x = 0;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    if (chart.series[i].name.empty()) continue;
    const std::string name = text::cut(chart.series[i].name, 48);
    const double width = 24 + text_width(name) + 16;
    if (x > 0 && x + width - 16 > kWidth) x = 0, y += 22;
    out += fmt::format(
        "<g {}><path d=\"M{:.1f} {:.1f}h18\" stroke=\"currentColor\" stroke-width=\"3\"/></g>\n",
        series_style(i), x, y + 9);
    out += text(x + 24, y + 14, kInk, name);
    x += width;
  }
  if (x > 0) y += 26;
  if (!chart.y_label.empty()) {
    out += text(0, y + 14, kMuted, text::cut(chart.y_label, 60));
    y += 20;
  }
  return out;
}

std::string axes(const Chart& chart, const Frame& f) {
  std::string lines, labels;
  for (const Tick& tick : f.y.ticks) {
    const double y = f.py(tick.value);
    lines += fmt::format("M{:.1f} {:.1f}H{:.1f}", f.left, y, f.right);
    labels += text(f.left - 8, y + 4.5, "text-anchor=\"end\"", tick.label);
  }
  std::string marks = fmt::format("M{:.1f} {:.1f}H{:.1f}", f.left, f.bottom, f.right);
  for (const Tick& tick : f.x.ticks) {
    const double x = f.px(tick.value);
    marks += fmt::format("M{:.1f} {:.1f}v5", x, f.bottom);
    labels += text(x, f.bottom + 20, "text-anchor=\"middle\"", tick.label);
  }
  if (!chart.x_label.empty()) {
    labels += text((f.left + f.right) / 2, f.height - 6, "text-anchor=\"middle\"",
                   text::cut(chart.x_label, 52));
  }
  return fmt::format(
      "<path class=\"grid\" stroke=\"#e3e7ec\" d=\"{}\"/>\n"
      "<path class=\"axis\" stroke=\"#5b6675\" fill=\"none\" d=\"{}\"/>\n"
      "<g {}>\n{}</g>\n",
      lines, marks, kMuted, labels);
}

std::string line(const Series& series, std::size_t index, const Frame& f) {
  constexpr std::size_t kFew = 40;     // points that can be told apart
  constexpr std::size_t kDense = 300;  // a noisy series would be a solid band
  const std::string name = series.name.empty() ? "" : escape(series.name) + ": ";
  std::string path, dots;
  for (const Run& run : runs(series, f.y.log)) {
    // The points themselves, with their values in tooltips; a lone point has no line to show it.
    const bool dotted = run.size() == 1 || series.x.size() <= kFew;
    char command = 'M';
    for (const auto& [x, y] : run) {
      path += fmt::format("{}{:.1f} {:.1f}", std::exchange(command, 'L'), f.px(x), f.py(y));
      if (!dotted) continue;
      dots += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"currentColor\">"
          "<title>{}({:.6g}, {:.4g})</title></circle>\n",
          f.px(x), f.py(y), name, x, y);
    }
  }
  return fmt::format(
      "<g {}>\n<path d=\"{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"{}\" "
      "stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n{}</g>\n",
      series_style(index), path, series.x.size() > kDense ? 1 : 2, dots);
}

std::string description(const Chart& chart) {
  std::string names;
  for (const Series& series : chart.series) {
    if (!series.name.empty()) names += (names.empty() ? "" : ", ") + series.name;
  }
  return "Line chart" + (chart.title.empty() ? "" : ": " + chart.title) +
         (names.empty() ? "" : " (" + names + ")");
}

// The plot below `top`, as wide as the labels of the axes leave it.
Frame frame(const Chart& chart, double top) {
  Range x, y;
  for (const Series& series : chart.series) {
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (!drawable(series.x[i], series.y[i], chart.log_y)) continue;
      x.add(series.x[i]);
      y.add(series.y[i]);
    }
  }
  Frame f{.left = 1, .top = top + 10, .right = kWidth - 14};
  f.bottom = f.top + kPlotHeight;
  f.height = f.bottom + (chart.x_label.empty() ? 28 : 48);
  if (x.empty()) return f;
  for (const double value : chart.y_includes) y.add(value);
  f.y = chart.log_y ? log_axis(y) : y_axis(y);
  for (const Tick& tick : f.y.ticks) f.left = std::max(f.left, text_width(tick.label) + 10);
  f.x = x_axis(x);
  if (chart.x_text)
    for (Tick& tick : f.x.ticks) tick.label = chart.x_text(tick.value);
  // The labels at both ends of the x axis reach beyond it.
  const Tick &first = f.x.ticks.front(), &last = f.x.ticks.back();
  f.left += std::max(0.0, text_width(first.label) / 2 - f.px(first.value));
  f.right -= std::max(0.0, f.px(last.value) + text_width(last.label) / 2 - kWidth);
  return f;
}

}  // namespace

std::string svg(const Chart& chart) {
  for (const Series& series : chart.series) {
    if (series.x.size() == series.y.size()) continue;
    throw Error(fmt::format("chart: series \"{}\" has {} x values, but {} y values", series.name,
                            series.x.size(), series.y.size()));
  }
  double y = 0;
  const std::string head = heading(chart, y);
  const Frame f = frame(chart, y);
  const double width = kWidth + 2 * kMargin, height = f.height + 2 * kMargin;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"attune-chart\" role=\"img\" "
      "aria-label=\"{}\" width=\"{}\" height=\"{}\" viewBox=\"{} {} {} {}\">\n"
      "<style>{}</style>\n",
      escape(description(chart)), width, height, -kMargin, -kMargin, width, height, kStyle);
  out += head + axes(chart, f);
  if (f.y.ticks.empty()) {
    out += text((f.left + f.right) / 2, (f.top + f.bottom) / 2,
                fmt::format("{} text-anchor=\"middle\"", kMuted), "no data");
  }
  for (std::size_t i = 0; i < chart.series.size(); ++i) out += line(chart.series[i], i, f);
  return out + "</svg>";
}

Series curve(const std::vector<std::map<std::string, double>>& log, const std::string& field,
             std::string name, double scale, const std::string& against) {
  Series series{std::move(name), {}, {}};
  for (const auto& line : log) {
    const auto x = line.find(against), y = line.find(field);
    if (x == line.end() || y == line.end()) continue;
    series.x.push_back(x->second);
    series.y.push_back(scale * y->second);
  }
  return series;
}

}  // namespace attune::report
