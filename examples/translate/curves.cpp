#include <fmt/format.h>

#include <attune/models/report/chart.hpp>
#include <attune/models/report/log.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

#include "commands.hpp"
#include "support/run_directory.hpp"

namespace attune::translate {
namespace {

report::Series curve_of(const std::filesystem::path& path, const CurvesOptions& o) {
  const bool minutes = o.against == "minutes";
  const std::string against = minutes ? "seconds" : o.against;
  report::Series series =
      report::curve(report::read_log(path.string()), o.field, run_name(path), 1, against);
  if (series.x.empty()) {
    fail(path.string(), fmt::format("no line has numbers \"{}\" and \"{}\"", o.field, against));
  }
  for (double& x : series.x) x /= minutes ? 60 : 1;
  return series;
}

}  // namespace

int curves(const CurvesOptions& o) {
  report::Chart chart{.title = o.title, .x_label = o.against, .y_label = o.field, .series = {}};
  for (const std::filesystem::path& log : o.logs) chart.series.push_back(curve_of(log, o));
  write_file(o.out, report::svg(chart));
  fmt::print("{}\n", o.out);
  return 0;
}

}  // namespace attune::translate
