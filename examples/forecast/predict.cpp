#include <fmt/format.h>

#include <attune/tensor/check.hpp>

#include "commands.hpp"
#include "support/output.hpp"

namespace attune::forecast {

int predict(const PredictArguments& options) {
  const Model model = Model::load(options.model);
  const Table table = read_table(options.csv);
  check_columns(options.csv, table, model.columns());
  const Index look_back = model.options().look_back, rows = table.rows();
  if (rows < look_back) {
    fail(options.csv.string(),
         fmt::format("it has {} rows, but the model reads {}", rows, look_back));
  }
  const NoGrad no_grad;
  const Tensor recent = table.values.slice(rows - look_back, rows);
  const Tensor past = frames::scaled(recent, model.scaling()).to(DType::f32);
  const Tensor y = model(past.reshape({look_back, 1, -1})).value();
  const Tensor forecast = y.reshape({model.options().horizon, -1}).to(DType::f64);
  const std::vector<double> values =
      frames::unscaled(forecast, model.scaling()).to_vector<double>();
  say("date");
  for (const std::string& column : model.columns()) say(",{}", column);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % model.columns().size() == 0) {
      say("\n{}", to_string(table.time(rows + static_cast<Index>(i / model.columns().size()))));
    }
    say(",{:.9g}", values[i]);
  }
  say("\n");
  return 0;
}

}  // namespace attune::forecast
