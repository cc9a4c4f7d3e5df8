#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <attune/models/report/log.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

#include "commands.hpp"
#include "support/chart.hpp"
#include "support/output.hpp"
#include "support/run_directory.hpp"

namespace attune::translate {
namespace {

report::Series curve_of(const std::filesystem::path& path, const std::string& name,
                        const CurvesArguments& o) {
  const bool minutes = o.against == "minutes";
  const std::string against = minutes ? "seconds" : o.against;
  report::Series series = report::curve(report::read_log(path.string()), o.field, name, 1, against);
  if (std::ranges::none_of(series.y, [](double y) { return std::isfinite(y); })) {
    fail(path.string(), fmt::format("no line has numbers \"{}\" and \"{}\"", o.field, against));
  }
  for (double& x : series.x) x /= minutes ? 60 : 1;
  return series;
}

}  // namespace

int curves(const CurvesArguments& o) {
  require_writable(o.out, {o.logs.begin(), o.logs.end()});
  report::Chart chart{.title = o.title, .x_label = o.against, .y_label = o.field, .series = {}};
  const std::vector<std::string> names = run_names(o.logs);
  for (std::size_t i = 0; i < o.logs.size(); ++i) {
    chart.series.push_back(curve_of(o.logs[i], names[i], o));
  }
  write_file(o.out, report::svg(chart));
  fmt::print("{}\n", o.out);
  return 0;
}

}  // namespace attune::translate
