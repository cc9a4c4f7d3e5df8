// Training logs: reading, writing and charts.
#include <cmath>

#include "attune/chart.hpp"
#include "attune/run_directory.hpp"
#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;
using report::Log;

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
bool same(const Log& a, const Log& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return std::ranges::equal(x, y, [](const auto& p, const auto& q) {
      return p.first == q.first && same(p.second, q.second);
    });
  });
}

/// Writes the log and reads it again. Its names are UTF-8, because they were read from JSON.
void check_written(const Log& log) {
  const fuzz::MemoryFile file;
  report::LogWriter writer(file.path(), false);
  for (const auto& line : log) {
    report::Json fields = report::Json::object();
    for (const auto& [name, value] : line) fields[name] = value;
    writer.write(fields);
  }
  expect(same(report::read_log(file.path()), log), "read_log: the log differs after writing");
}

void check_chart(const report::Chart& chart) {
  const std::string svg = report::svg(chart);
  expect(svg.starts_with("<svg") && svg.ends_with("</svg>"), "chart: not an svg element");
  expect(svg.size() < 400000, "chart: too large");
  for (const char* number : {"nan", "inf"}) {
    for (const char* attribute : {"x=\"", "y=\"", "d=\"M", "width=\""})
      expect(svg.find(std::string(attribute) + number) == svg.npos,
             "chart: a coordinate is not finite");
  }
}

}  // namespace

void fuzz_one(std::string_view input) {
  const fuzz::MemoryFile file(input);
  const auto log = fuzz::accepted([&] { return report::read_log(file.path()); });
  if (!log) return;
  check_written(*log);
  for (const bool logarithmic : {false, true}) {
    report::Chart chart{.title = "t", .x_label = "x", .y_label = "y", .log_y = logarithmic};
    for (const char* field : {"loss", "y"})
      chart.series.push_back(report::curve(*log, field, field));
    check_chart(chart);
  }
}
