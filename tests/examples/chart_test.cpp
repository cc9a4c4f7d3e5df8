#include "attune/chart.hpp"

#include <cmath>
#include <regex>
#include <string>

#include <doctest/doctest.h>

#include <attune/tensor/check.hpp>

#include "support/report_tools.hpp"

namespace {

using namespace attune::report;
using namespace attune::test;

Series ramp(std::size_t size) {
  Series series{"ramp", {}, {}};
  for (std::size_t i = 0; i < size; ++i) {
    series.x.push_back(static_cast<double>(i));
    series.y.push_back(static_cast<double>(i % 7));
  }
  return series;
}

std::string drawn(std::vector<double> x, std::vector<double> y, bool log_y = false) {
  return svg(Chart{"", "", "", {{"s", std::move(x), std::move(y)}}, log_y});
}
std::string drawn(const Series& series) { return drawn(series.x, series.y); }

/// The path that draws the first series.
std::string path_in(const std::string& image) {
  const std::regex path(R"re(<path d="([^"]*)" fill="none" stroke="currentColor")re");
  std::smatch match;
  REQUIRE(std::regex_search(image, match, path));
  return match[1];
}

std::size_t points_in(const std::string& path) { return count(path, "M") + count(path, "L"); }

std::vector<double> heights_in(const std::string& path) {
  std::vector<double> y;
  const std::regex point(R"re([ML][\d.]+ ([\d.]+))re");
  for (std::sregex_iterator i(path.begin(), path.end(), point), end; i != end; ++i)
    y.push_back(std::stod((*i)[1]));
  return y;
}

TEST_CASE("chart: a series with more x values than y values is an error that names it") {
  CHECK_THROWS_WITH_AS(svg(Chart{"t", "x", "y", {{"loss", {1, 2, 3}, {1, 2}}}}),
                       "chart: series \"loss\" has 3 x values, but 2 y values", attune::Error);
}

TEST_CASE("chart: without points it says so") {
  for (const Chart& chart : {Chart{}, Chart{"t", "x", "y", {{"empty", {}, {}}}},
                             Chart{"t", "x", "y", {{"nan", {1, 2}, {kNaN, kInfinity}}}},
                             Chart{"t", "x", "y", {{"zero", {1}, {0}}}, true}}) {
    CHECK(contains(svg(chart), ">no data</text>"));
    CHECK(xml_error(svg(chart)) == "");
  }
}

TEST_CASE("chart: one point is a dot") {
  const std::string image = drawn({3}, {0.5});
  CHECK(count(image, "<circle") == 1);
  CHECK(contains(image, "<title>s: (3, 0.5)</title>"));
  CHECK_FALSE(contains(image, "no data"));
}

TEST_CASE("chart: a constant series is a level line inside the plot") {
  for (const double level : {0.0, 3.0, -2.5, 1e-12, 1e9}) {
    const std::vector<double> y = heights_in(path_in(drawn({0, 1, 2}, {level, level, level})));
    CHECK(y == std::vector<double>(3, y.at(0)));
  }
}

TEST_CASE("chart: a value that is not finite, or that a logarithm does not have, is a gap") {
  const std::string image = drawn({0, 1, 2, 3, 4, 5, 6}, {1, 2, kNaN, 3, kInfinity, 2, 1});
  CHECK(count(path_in(image), "M") == 3);
  CHECK(points_in(path_in(image)) == 5);
  CHECK(count(image, "<circle") == 5);
  const std::string path = path_in(drawn({0, 1, 2, 3, 4}, {1, 0.1, 0, -1, 0.01}, true));
  CHECK(count(path, "M") == 2);
  CHECK(points_in(path) == 3);
}

TEST_CASE("chart: a logarithmic axis gives each power of ten the same room") {
  const std::vector<double> y = heights_in(path_in(drawn({0, 1, 2, 3}, {1, 10, 100, 1000}, true)));
  REQUIRE(y.size() == 4);
  for (std::size_t i = 1; i < 4; ++i)
    CHECK(y[i - 1] - y[i] == doctest::Approx((y[0] - y[3]) / 3).epsilon(0.01));
}

TEST_CASE("chart: a long series is thinned to a thousand points and keeps its peaks and ends") {
  Series series = ramp(100000);
  series.y[54321] = 1000;
  series.y.back() = 500;
  const std::string path = path_in(drawn(series));
  CHECK(points_in(path) <= 1000);
  CHECK(points_in(path) > 500);
  const std::string outline = path_in(drawn({0, 54321, 99999}, {0, 1000, 500}));
  // The same axes, so the peak and the ends are at the same places.
  const std::size_t peak = outline.find('L'), last = outline.rfind('L');
  CHECK(path.starts_with(outline.substr(0, peak)));
  CHECK(contains(path, outline.substr(peak, last - peak)));
  CHECK(path.ends_with(outline.substr(last)));
  CHECK(points_in(path_in(drawn(ramp(1000)))) == 1000);
  CHECK(points_in(path_in(drawn(ramp(1001)))) <= 1000);
}

TEST_CASE("chart: a gap of a long series stays a gap, also at its beginning") {
  Series series = ramp(50000);
  for (std::size_t i = 0; i < 3000; ++i) series.y[i] = kNaN;
  for (std::size_t i = 20000; i < 25000; ++i) series.y[i] = kNaN;
  const std::string path = path_in(drawn(series));
  CHECK(count(path, "M") == 2);
  CHECK(points_in(path) <= 1000);
}

TEST_CASE("chart: ticks are round numbers that share a unit, none between whole epochs") {
  const std::string image = drawn({0, 12000}, {0.013, 0.987});
  for (const char* label : {"0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "2k", "4k", "12k"}) {
    CAPTURE(label);
    CHECK(contains(image, ">" + std::string(label) + "</text>"));
  }
  const std::string epochs = drawn({1, 2, 3}, {10, 20, 30});
  CHECK(contains(epochs, ">2</text>"));
  CHECK_FALSE(contains(epochs, ">1.5</text>"));
}

TEST_CASE("chart: the vertical axis goes as far as is asked for, and on where the data do") {
  const auto with = [](std::vector<double> y) {
    return svg(Chart{.title = "",
                     .x_label = "",
                     .y_label = "",
                     .series = {{"s", {0, 1}, std::move(y)}},
                     .y_includes = {0, 100}});
  };
  for (const std::string& image : {with({100, 100}), with({99.5, 99.5})}) {
    CHECK(contains(image, ">0</text>"));
    CHECK(contains(image, ">100</text>"));
    CHECK_FALSE(contains(image, ">120</text>"));
  }
  CHECK(contains(with({50, 110}), ">150</text>"));
}

TEST_CASE("chart: very small and negative tick labels are readable") {
  CHECK(contains(drawn({0, 1}, {0, 3e-5}), ">3e-05</text>"));
  CHECK(contains(drawn({0, 1}, {-2, 0}), ">−2.0</text>"));
  CHECK_FALSE(contains(drawn({0, 1}, {-2, 2}), ">−0</text>"));
  CHECK(contains(drawn({0, 1}, {1e-9, 1e6}, true), ">1e-09</text>"));
}

TEST_CASE("chart: extreme values draw finite coordinates") {
  const double large = std::numeric_limits<double>::max();
  const double small = std::numeric_limits<double>::denorm_min();
  const std::vector<std::vector<double>> extremes = {
      {-large, large}, {small, small},  {0, small}, {1e199, 1e-199},   {1e16, 1e16 + 2},
      {-1e199, 1e199}, {1e-300, 1e300}, {5, 5},     {0.1, 0.1 + 1e-17}};
  for (const bool log_y : {false, true}) {
    for (const std::vector<double>& y : extremes) {
      const std::string image = drawn({0, 1}, y, log_y);
      CAPTURE(y[0]);
      CAPTURE(y[1]);
      CHECK(xml_error(image) == "");
      CHECK_FALSE(contains(image, "nan"));
      CHECK_FALSE(contains(image, "inf "));
      CHECK(image.size() < 20000);
    }
  }
}

TEST_CASE("chart: all names are escaped, and read out with the title") {
  const Chart chart{kNasty, kNasty, kNasty, {{kNasty, {1, 2}, {1, 2}}, {"b", {}, {}}}};
  CHECK(xml_error(svg(chart)) == "");
  const std::string image = svg(Chart{"Loss", "", "", {{"train", {}, {}}, {"test", {}, {}}}});
  CHECK(contains(image, "role=\"img\" aria-label=\"Line chart: Loss (train, test)\""));
  CHECK(count(image, "h18\"") == 2);  // in the legend
  CHECK(count(svg(Chart{"", "", "", {{"", {0, 1}, {0, 1}}}}), "h18\"") == 0);
}

TEST_CASE("chart: more series than colours are told apart by dashes") {
  Chart chart;
  for (int i = 0; i < 8; ++i)
    chart.series.push_back({"s" + std::to_string(i), {0, 1}, {0, 1. * i}});
  const std::string image = svg(chart);
  CHECK(count(image, "class=\"series-1\"") == 4);  // two series, each with its legend
  CHECK(count(image, "stroke-dasharray=\"7 4\"") == 4);
}

TEST_CASE("curve: the points of a log that have both fields, scaled") {
  const Series bleu = curve(
      {{{"step", 1}, {"bleu", 0.5}}, {{"step", 2}}, {{"bleu", 1}}, {{"step", 3}, {"bleu", 0.25}}},
      "bleu", "BLEU", 100);
  CHECK(bleu.name == "BLEU");
  CHECK(bleu.x == std::vector<double>{1, 3});
  CHECK(bleu.y == std::vector<double>{50, 25});
}

}  // namespace
