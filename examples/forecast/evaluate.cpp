#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "support/output.hpp"

namespace attune::forecast {

int evaluate(const EvaluateArguments& options) {
  const Model model = Model::load(options.model);
  const auto [table, values, rows] = test_data(model, options.csv);
  const Errors errors = measure(model, values, rows);
  if (options.json) {
    say("{}\n", nlohmann::ordered_json{{"mse", errors.mse},
                                       {"mae", errors.mae},
                                       {"windows", errors.windows},
                                       {"mse_by_step", errors.mse_by_step}}
                    .dump());
    return 0;
  }
  say("of scaled values, {} windows from {} to {}\n", errors.windows,
      to_string(table.time(rows.front())),
      to_string(table.time(rows.back() + model.options().horizon - 1)));
  say("mean squared error   {:8.4f}\nmean absolute error  {:8.4f}\n\nsteps ahead     mean squared "
      "error\n",
      errors.mse, errors.mae);
  const Index horizon = std::ssize(errors.mse_by_step), parts = std::min<Index>(horizon, 6);
  for (Index part = 0; part < parts; ++part) {
    const Index begin = part * horizon / parts, end = (part + 1) * horizon / parts;
    double mean = 0;
    for (Index i = begin; i < end; ++i)
      mean += errors.mse_by_step[i] / static_cast<double>(end - begin);
    say("{:>4} to {:>4} {:>22.4f}\n", begin + 1, end, mean);
  }
  return 0;
}

}  // namespace attune::forecast
