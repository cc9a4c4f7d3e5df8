#include "support/chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <attune/models/display_text.hpp>
#include <attune/models/heatmap.hpp>
#include <attune/tensor/check.hpp>

namespace attune::report {

namespace {

constexpr double kFont = 13;
constexpr double kLargeFont = 16;  // on a phone, which shows the drawing at two thirds of its size
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
double text_width(const std::string& text) {
  return 0.58 * kLargeFont * detail::display_width(text);
}

std::string superscript(int number) {
  constexpr std::array kDigits = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out = number < 0 ? "⁻" : "";
  for (const char digit : std::to_string(std::abs(number))) out += kDigits[digit - '0'];
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
  const auto unit = largest >= 1e9   ? std::pair(1e9, "G")
                    : largest >= 1e6 ? std::pair(1e6, "M")
                    : largest >= 1e4 ? std::pair(1e3, "k")
                                     : std::pair(1.0, "");
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
  double sum = 0;
  for (const Tick& tick : ticks) sum += text_width(tick.label) + 20;
  return sum;
}

Tick log_tick(int exponent, int factor) {
  const double value = factor * std::pow(10, exponent);
  if (exponent >= -3 && exponent <= 3) return {value, fmt::format("{:.6g}", value)};
  return {value, scientific(value, value)};
}

// The axis along the bottom: exactly as long as the data, and with as many ticks as have room.
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

// The axis up the side: from tick to tick, and from zero where that is not far.
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

constexpr std::size_t kMostPoints = 1000;

// Far from where arithmetic on the range of an axis would overflow or come out as zero.
bool drawable(double x, double y, bool log_y) {
  return std::abs(x) < 1e200 && std::abs(y) < 1e200 && (!log_y || y > 1e-200);
}

struct Point {
  double x, y;
};
using Run = std::vector<Point>;  // points joined by a line

// The series cut at its gaps. It is gone through in equal stretches, of one point each unless there
// are too many: then a stretch keeps its lowest and its highest point, and both ends of the series.
// A gap shorter than a stretch is less than a pixel, and is not kept.
std::vector<Run> runs(const Series& series, bool log_y) {
  const std::size_t size = series.x.size();
  std::vector<std::size_t> points;
  for (std::size_t i = 0; i < size; ++i) {
    if (drawable(series.x[i], series.y[i], log_y)) points.push_back(i);
  }
  const std::size_t stretches = points.size() <= kMostPoints ? size : kMostPoints / 2 - 1;
  std::vector<Run> out;
  auto from = points.begin();
  bool gap = true;
  for (std::size_t k = 1; k <= stretches; ++k) {
    const auto to = std::lower_bound(from, points.end(), k * size / stretches);
    if (from == to) {
      gap = true;
      continue;
    }
    if (std::exchange(gap, false)) out.emplace_back();
    const auto [low, high] =
        std::ranges::minmax_element(from, to, {}, [&](std::size_t i) { return series.y[i]; });
    std::set<std::size_t> kept = {*low, *high};
    if (from == points.begin()) kept.insert(points.front());
    if (to == points.end()) kept.insert(points.back());
    for (const std::size_t i : kept) out.back().push_back({series.x[i], series.y[i]});
    from = to;
  }
  return out;
}

// Light and dark: apart from each other, and from the ground, under every common deficiency of
// colour vision (at least 17 units of CIELAB in simulation). Beyond six series, dashes tell apart.
constexpr std::array<std::string_view, 6> kLight = {"#0b55c4", "#c64520", "#02a577",
                                                    "#7a2a7c", "#c08800", "#2e3036"};
constexpr std::array<std::string_view, 6> kDark = {"#76a6f5", "#ee7330", "#16ca75",
                                                   "#dd86b8", "#e6e264", "#d6f0f4"};
constexpr std::array<std::string_view, 3> kDashes = {"", "7 4", "2 3"};

std::string palette(const std::array<std::string_view, 6>& colours) {
  std::string out;
  for (std::size_t i = 0; i < colours.size(); ++i) {
    out += fmt::format("--_{0}:var(--attune-series-{0},{1});", i + 1, colours[i]);
  }
  return out;
}

// A style inside an inline <svg> holds for the whole page, hence a class of its own on every rule.
// Attributes repeat the light colours for programs that read SVG without CSS variables.
std::string style() {
  std::string out = fmt::format(
      R"css(
.attune-chart{{--_ink:var(--attune-ink,#1c2430);--_muted:var(--attune-muted,#5b6675);
--_grid:var(--attune-grid,#e3e7ec);{}direction:ltr;font-size:{}px;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}}
.attune-chart:root{{color-scheme:light dark;background:#fff}}
@media (prefers-color-scheme:dark){{.attune-chart{{--_ink:var(--attune-ink,#e4e9f0);
--_muted:var(--attune-muted,#98a3b3);--_grid:var(--attune-grid,#2b333e);{}}}
.attune-chart:root{{background:#171c23}}}}
@media (max-width:480px){{.attune-chart{{font-size:{}px}}}}
.attune-chart .ink{{fill:var(--_ink)}}.attune-chart .muted{{fill:var(--_muted)}}
.attune-chart .grid{{stroke:var(--_grid)}}.attune-chart .axis{{stroke:var(--_muted)}}
)css",
      palette(kLight), kFont, palette(kDark), kLargeFont);
  for (std::size_t i = 1; i <= kLight.size(); ++i) {
    out += fmt::format(".attune-chart .series-{0}{{color:var(--_{0})}}\n", i);
  }
  return out;
}

// Attributes of the group that holds a series, or its entry in the legend.
std::string series_style(std::size_t index) {
  const std::size_t colour = index % kLight.size();
  const std::string_view dash = kDashes[index / kLight.size() % kDashes.size()];
  return fmt::format("class=\"series-{}\" color=\"{}\"{}", colour + 1, kLight[colour],
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
                detail::cut(chart.title, 52));
    y += 28;
  }
  double x = 0;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    if (chart.series[i].name.empty()) continue;
    const std::string name = detail::cut(chart.series[i].name, 48);
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
    out += text(0, y + 14, kMuted, detail::cut(chart.y_label, 60));
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
                   detail::cut(chart.x_label, 52));
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
  f.y = chart.log_y ? log_axis(y) : linear_axis(y);
  for (const Tick& tick : f.y.ticks) f.left = std::max(f.left, text_width(tick.label) + 10);
  f.x = x_axis(x, f.right - f.left);
  if (f.x.ticks.empty()) return f;
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
      escape(description(chart)), width, height, -kMargin, -kMargin, width, height, style());
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
