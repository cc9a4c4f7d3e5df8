#include "support/measurements.hpp"

#include "support/chart.hpp"
#include "support/log.hpp"

namespace attune {

void add_learning_curves(report::Page& page, const std::filesystem::path& log,
                         const std::string& y_label, const std::vector<LoggedField>& fields,
                         bool log_y) {
  if (!std::filesystem::exists(log)) return;
  report::Chart chart{.title = "Learning curves",
                      .x_label = "step",
                      .y_label = y_label,
                      .series = {},
                      .log_y = log_y};
  const auto lines = report::read_log(log.string());
  for (const auto& [field, name, scale] : fields)
    chart.series.push_back(report::curve(lines, field, name, scale));
  page.figure(report::svg(chart), "");
}

}  // namespace attune
