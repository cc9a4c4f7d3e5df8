#include "chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <attune/models/text/heatmap.hpp>
#include <attune/models/text/utf8.hpp>

namespace attune::report {
namespace {

constexpr double kWidth = 560, kPlotHeight = 230;
constexpr double kMargin = 8;  // all around, for when the drawing stands alone
constexpr double kLabel = 24;  // of the plot's width, for half of the label at each end

/// The range of the data, which ticks may widen.
struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  bool whole = true;  // all values are integers
  bool log = false;
  std::vector<double> ticks = {};

  void add(double value) {
    low = std::min(low, value), high = std::max(high, value);
    whole = whole && value == std::floor(value);
  }
  /// 0 at the low end, 1 at the high one.
  double fraction(double value) const {
    const auto scaled = [this](double v) { return log ? std::log10(v) : v; };
    return (scaled(value) - scaled(low)) / (scaled(high) - scaled(low));
  }
};

/// About `count` ticks at multiples of 1, 2 or 5 times a power of ten. A y axis (`upright`) begins
/// and ends at ticks, and begins at 0 if the lowest value is less than half of the highest.
void add_ticks(Axis& axis, int count, bool upright) {
  auto& [low, high, whole, log, ticks] = axis;
  const double largest = std::max(std::abs(low), std::abs(high));
  if (high - low <= std::max(1e-9 * largest, 1e-200)) {  // tick labels would be equal
    const double margin = whole && largest < 1e6 ? 1 : std::max(0.1 * largest, 1e-200);
    low -= margin, high += margin;
  }
  if (upright && low > 0 && low < 0.5 * high) low = 0;
  const double raw = (high - low) / count, power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (raw <= 1.001 * factor * power) step = factor * power;
  if (whole) step = std::max(step, 1.0);  // no fractional steps or epochs
  if (upright)
    low = step * std::floor(low / step + 1e-6), high = step * std::ceil(high / step - 1e-6);
  for (double i = std::ceil(low / step - 1e-6); i <= high / step + 1e-6; ++i)
    ticks.push_back(i * step + 0.0);  // no -0
}

/// Ticks at 1, 2 and 5 times each power of ten; for three decades or more, at powers of ten only.
void add_log_ticks(Axis& axis) {
  const double first = std::floor(std::log10(axis.low)), last = std::floor(std::log10(axis.high)),
               every = std::floor((last - first) / 7) + 1;
  std::vector<double> ticks;
  for (double power = first - every; power <= last + every; power += every)
    for (const double factor : {1.0, 2.0, 5.0})
      if (factor == 1 || last - first < 3) ticks.push_back(factor * std::pow(10, power));
  // From the last tick below the data to the first one above it.
  auto low = std::ranges::upper_bound(ticks, axis.low * (1 + 1e-9)) - 1,
       high = std::ranges::lower_bound(ticks, axis.high * (1 - 1e-9));
  if (low == high) --low, ++high;  // one value, on a tick
  axis.ticks.assign(low, high + 1);
  axis.low = axis.ticks.front(), axis.high = axis.ticks.back();
}

/// True if arithmetic on the axis range neither overflows nor underflows.
bool drawable(double x, double y, bool log_y) {
  return std::abs(x) < 1e200 && std::abs(y) < 1e200 && (!log_y || y > 1e-200);
}

// Colours (light and dark) that are distinguishable from each other and from the background under
// every common colour vision deficiency (at least 17 units of CIELAB in simulation). Beyond six
// series, dashes distinguish them.
constexpr std::array kColours = {"#0b55c4", "#c64520", "#02a577", "#7a2a7c", "#c08800", "#2e3036"};
constexpr std::array kDashes = {"", " stroke-dasharray=\"7 4\"", " stroke-dasharray=\"2 3\""};

// A style inside an inline <svg> applies to the whole page, so every rule has the class
// attune-chart. The light colours are attributes, for programs without CSS.
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
)css",
                           kInk = R"(class="ink" fill="#1c2430")",
                           kMuted = R"(class="muted" fill="#5b6675")",
                           kMiddle = R"(class="muted" fill="#5b6675" text-anchor="middle")";

/// Attributes of the group that holds a series, or its entry in the legend.
std::string style_of(std::size_t series) {
  const std::size_t colour = series % kColours.size();
  return fmt::format("class=\"series-{}\" color=\"{}\"{}", colour + 1, kColours[colour],
                     kDashes[series / kColours.size() % kDashes.size()]);
}

/// Estimated width in the larger font for phones, which scale the drawing to two thirds.
double text_width(const std::string& text) { return 0.58 * 16 * text::display_width(text); }

std::string text(double x, double y, std::string_view attributes, const std::string& content,
                 int columns = 52) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, attributes,
                     escape(text::cut(content, columns)));
}

std::string label(double tick) { return fmt::format("{:.6g}", tick); }

/// The legend, in one or more lines. Moves `y` below them.
std::string legend(const std::vector<Series>& all, double& y) {
  std::string out;
  double x = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].name.empty()) continue;
    const double width = 24 + text_width(text::cut(all[i].name, 48)) + 16;
    if (x > 0 && x + width - 16 > kWidth) x = 0, y += 22;
    out += fmt::format(
        "<g {}><path d=\"M{:.1f} {:.1f}h18\" stroke=\"currentColor\" stroke-width=\"3\"/></g>\n",
        style_of(i), x, y + 9);
    out += text(x + 24, y + 14, kInk, all[i].name, 48);
    x += width;
  }
  y += x > 0 ? 26 : 0;
  return out;
}

/// A series with the pixel coordinates `px(x)`, `py(y)`. Draws dots with tooltips if there are few
/// points, and for an isolated point, which has no line.
std::string line(const Series& series, std::size_t index, bool log_y, const auto& px,
                 const auto& py) {
  constexpr std::size_t few = 40;
  std::string path, dots;
  bool after_gap = true;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    const double x = series.x[i], y = series.y[i];
    const bool begins = std::exchange(after_gap, !drawable(x, y, log_y));
    if (after_gap) continue;
    path += fmt::format("{}{:.1f} {:.1f}", begins ? 'M' : 'L', px(x), py(y));
    const bool ends =
        i + 1 == series.x.size() || !drawable(series.x[i + 1], series.y[i + 1], log_y);
    if (series.x.size() > few && !(begins && ends)) continue;
    dots += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"currentColor\">"
        "<title>{}{}({:.6g}, {:.4g})</title></circle>\n",
        px(x), py(y), escape(series.name), series.name.empty() ? "" : ": ", x, y);
  }
  return fmt::format(
      "<g {}>\n<path d=\"{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\" "
      "stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n{}</g>\n",
      style_of(index), path, dots);
}

}  // namespace

std::string svg(const Chart& chart) {
  Axis x, y{.log = chart.log_y};
  std::string names;
  for (const auto& [name, xs, ys] : chart.series) {
    for (std::size_t i = 0; i < xs.size(); ++i)
      if (drawable(xs[i], ys[i], chart.log_y)) x.add(xs[i]), y.add(ys[i]);
    if (!name.empty()) names += (names.empty() ? ": " : ", ") + name;
  }
  const bool empty = x.low > x.high;
  if (!empty) add_ticks(x, 6, false), chart.log_y ? add_log_ticks(y) : add_ticks(y, 5, true);

  const std::string large = fmt::format(R"({} font-weight="600" font-size="1.15em")", kInk);
  std::string out = text(0, 16, large, chart.title);
  double top = 28;
  out += legend(chart.series, top);
  out += text(0, top + 14, kMuted, chart.y_label);
  top += 30;
  double left = kLabel;
  for (const double tick : y.ticks) left = std::max(left, text_width(label(tick)) + 10);
  const double right = kWidth - kLabel, bottom = top + kPlotHeight, height = bottom + 48;
  const auto px = [&](double value) { return left + (right - left) * x.fraction(value); };
  const auto py = [&](double value) { return bottom - kPlotHeight * y.fraction(value); };

  std::string grid, marks = fmt::format("M{:.1f} {:.1f}H{:.1f}", left, bottom, right);
  for (const double tick : y.ticks) {
    grid += fmt::format("M{:.1f} {:.1f}H{:.1f}", left, py(tick), right);
    out +=
        text(left - 8, py(tick) + 4.5, fmt::format("{} text-anchor=\"end\"", kMuted), label(tick));
  }
  for (const double tick : x.ticks) {
    marks += fmt::format("M{:.1f} {:.1f}v5", px(tick), bottom);
    out += text(px(tick), bottom + 20, kMiddle, label(tick));
  }
  out += text((left + right) / 2, height - 6, kMiddle, chart.x_label);
  out += fmt::format(
      "<path class=\"grid\" stroke=\"#e3e7ec\" d=\"{}\"/>\n"
      "<path class=\"axis\" stroke=\"#5b6675\" fill=\"none\" d=\"{}\"/>\n",
      grid, marks);
  if (empty) out += text((left + right) / 2, (top + bottom) / 2, kMiddle, "no data");
  for (std::size_t i = 0; i < chart.series.size(); ++i)
    out += line(chart.series[i], i, chart.log_y, px, py);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"attune-chart\" role=\"img\" "
      "aria-label=\"Line chart {}{}\" width=\"{}\" height=\"{}\" viewBox=\"{} {} {} {}\">\n"
      "<style>{}</style>\n{}</svg>",
      escape(chart.title), escape(names), kWidth + 2 * kMargin, height + 2 * kMargin, -kMargin,
      -kMargin, kWidth + 2 * kMargin, height + 2 * kMargin, kStyle, out);
}

Series curve(const Log& log, const std::string& field, std::string name, double scale) {
  Series series{std::move(name), {}, {}};
  for (const auto& line : log) {
    const auto x = line.find("step"), y = line.find(field);
    if (x == line.end() || y == line.end()) continue;
    series.x.push_back(x->second);
    series.y.push_back(scale * y->second);
  }
  return series;
}

}  // namespace attune::report
