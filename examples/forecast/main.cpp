// forecast: attention models that forecast measurements over time.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <attune/tensor/check.hpp>

#include "forecast.hpp"
#include "support/commands.hpp"
#include "support/output.hpp"
#include "support/page.hpp"
#include "support/processes.hpp"

namespace attune::forecast {

int predict(const Arguments& options) {
  const Model model = Model::load(options.model);
  const Table table = read_table(options.csv);
  check_columns(options.csv, table, model.columns);
  const Index look_back = model.options.look_back, rows = table.rows();
  if (rows < look_back)
    fail(options.csv.string(),
         fmt::format("it has {} rows, but the model reads {}", rows, look_back));
  const NoGrad no_grad;
  const Tensor recent = table.values.slice(rows - look_back, rows);
  const Tensor past = frames::scaled(recent, model.scaling).to(DType::f32);
  const Tensor y = model(past.reshape({look_back, 1, -1})).value().to(DType::f64);
  say("date,{}\n", fmt::join(model.columns, ","));
  for (Index step = 0; step < y.dim(0); ++step) {
    const auto row = frames::unscaled(y[step][0], model.scaling).to_vector<double>();
    say("{},{:.9g}\n", to_string(table.time(rows + step)), fmt::join(row, ","));
  }
  return 0;
}

int evaluate(const Arguments& options) {
  const Model model = Model::load(options.model);
  const auto [table, values, rows] = test_data(model, options.csv);
  const auto [mse, mae, windows, by_step] = measure(model, values, rows);
  if (options.json) {
    say("{}\n",
        nlohmann::ordered_json{
            {"mse", mse}, {"mae", mae}, {"windows", windows}, {"mse_by_step", by_step}}
            .dump());
    return 0;
  }
  say("of scaled values, {} windows from {} to {}\n", windows, to_string(table.time(rows.front())),
      to_string(table.time(rows.back() + model.options.horizon - 1)));
  say("mean squared error   {:8.4f}\nmean absolute error  {:8.4f}\n\n", mse, mae);
  say("steps ahead     mean squared error\n");
  const Index horizon = std::ssize(by_step), parts = std::min<Index>(horizon, 6);
  for (Index part = 0; part < parts; ++part) {
    const Index begin = part * horizon / parts, end = (part + 1) * horizon / parts;
    double mean = 0;
    for (Index i = begin; i < end; ++i) mean += by_step[i] / static_cast<double>(end - begin);
    say("{:>4} to {:>4} {:>22.4f}\n", begin + 1, end, mean);
  }
  return 0;
}

namespace {

int run(int argc, char** argv) {
  TrainOptions trained;
  Arguments o;
  CompareArguments compared;
  compared.train.out = "forecast-compare";
  const auto csv = models::text_field<Arguments>(
      "csv", "file with the columns that the model was trained on (default: that file)",
      &Arguments::csv);
  Commands commands("forecast", "Forecasts measurements over time, with attention.",
                    "forecast train --csv ETTh1.csv --protocol ett && forecast report");
  commands
      .add("train", "train a model on a CSV file", "--csv ETTh1.csv --protocol ett",
           [&] {
             return then_report(train(trained), trained,
                                [](const auto& best) { return report({.model = best}); });
           })
      .add(run_fields<TrainOptions>(), trained)
      .add(training_fields(), trained, "Training")
      .add(network_fields(), trained, "Model")
      .basic({"out", "resume", "csv", "protocol", "steps", "batch", "rate", "seed", "model",
              "look-back", "horizon", "hidden", "dropout", "score"})
      .resumes(trained, stored_options);
  commands
      .add("predict", "write what comes after the last row of a file", "ETTh1.csv",
           [&] { return predict(o); })
      .argument("csv", "file with the columns that the model was trained on", o.csv)
      .model(o.model);
  commands
      .add("evaluate", "measure a model on the test part", "--csv ETTh1.csv --json",
           [&] { return evaluate(o); })
      .model(o.model)
      .add({csv, json_field(&Arguments::json, "one JSON object")}, o);
  commands
      .add("compare", "train models for several horizons and seeds, and print a table",
           "--csv ETTh1.csv --protocol ett --horizons 24,48", [&] { return compare(compared); })
      .add(comparison_fields<CompareArguments>(variant_names()), compared)
      .add({list_field<CompareArguments, Index>("horizons", "rows to forecast",
                                                &CompareArguments::horizons, 1)},
           compared)
      .add(training_fields(), compared.train, "Training, where a variant says nothing else",
           {"seed"})
      .in_processes();
  commands
      .add("report", "write an HTML page: forecasts, attention, errors", "--examples 4",
           [&] { return report(o); })
      .model(o.model)
      .add({csv,
            models::text_field<Arguments>(
                "out", "file to write (default: report.html beside the model)", &Arguments::out),
            models::number_field<Arguments>("examples", "windows to draw", &Arguments::examples, 1,
                                            100)},
           o);
  return commands.run(argc, argv);
}

}  // namespace
}  // namespace attune::forecast

int main(int argc, char** argv) {
  return attune::run_program("forecast", [&] { return attune::forecast::run(argc, argv); });
}
