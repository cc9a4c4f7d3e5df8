#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <attune/models/heatmap.hpp>
#include <attune/tensor/arrange.hpp>

#include "forecast.hpp"
#include "support/chart.hpp"
#include "support/output.hpp"
#include "support/page.hpp"
#include "support/run_directory.hpp"

namespace attune::forecast {
namespace {

/// Values (T) of one column of one window (T, 1, C), in their own unit.
std::vector<double> column(const Tensor& x, Index c, const frames::Scaling& scaling) {
  const Tensor values = frames::unscaled(x.reshape({x.dim(0), -1}), scaling);
  return slice(values, 1, c, c + 1).to_vector<double>();
}

report::Series series(std::string name, std::vector<double> y, Index first) {
  std::vector<double> x(y.size());
  std::iota(x.begin(), x.end(), static_cast<double>(first));
  return {.name = std::move(name), .x = std::move(x), .y = std::move(y)};
}

/// Steps of the decoder down the side, what was read along the top.
report::Heatmap attention_of(std::span<const Tensor> steps, Index c, const Model& model) {
  report::Heatmap map{.rows = {}, .columns = {}, .weights = {}, .caption = ""};
  const Index segment = model.options.kind == Kind::segments ? model.options.segment : 1;
  const Index places = steps.front().dim(0), own = steps.front().dim(1) == 1 ? 0 : c;
  for (Index s = 0; s < places; ++s) map.columns.push_back(std::to_string((s - places) * segment));
  for (const Tensor& weights : steps) {
    map.rows.push_back(fmt::format("+{}", (std::ssize(map.rows) + 1) * segment));
    std::ranges::copy(slice(weights, 1, own, own + 1).to_vector<double>(),
                      std::back_inserter(map.weights));
  }
  return map;
}

/// A window of a column: what was read, what was measured later, what was forecast, and what the
/// model attended to.
void add_example(report::Page& page, const Model& model, const TestData& data, Index row, Index c) {
  const NoGrad no_grad;
  const std::string& name = model.columns[c];
  const auto [past, future] = windows_at(data.values, model.options, std::span(&row, 1));
  std::vector<Tensor> weights;
  const Tensor forecast = model(past, &weights).value();
  // As much of the past as of the future, and two weeks at least.
  const Index horizon = model.options.horizon,
              shown = std::min(model.options.look_back, std::max<Index>(horizon, 336));
  const Tensor recent = past.slice(past.dim(0) - shown, past.dim(0));
  page.figure(report::svg(report::Chart{
                  .title = fmt::format("{}, {} steps from {}", name, horizon,
                                       to_string(data.table.time(row))),
                  .x_label = "steps from the first that is forecast",
                  .y_label = name,
                  .series = {series("measured", column(recent, c, model.scaling), -shown),
                             series("measured later", column(future, c, model.scaling), 0),
                             series("forecast", column(forecast, c, model.scaling), 0)}}),
              "");
  if (weights.empty()) return;
  const report::Heatmap map = attention_of(weights, c, model);
  // Weights spread over hundreds of rows: the largest one is small.
  const double darkest = std::ranges::max(map.weights);
  page.figure(
      report::svg(map, {.cell = 12, .darkest = darkest}),
      fmt::format("{}: attention of each decoder step (rows) to the past (columns); numbers are "
                  "steps from the first one that is forecast. The largest weight is {:.3f}.",
                  name, darkest));
}

report::Page make_page(const Model& model, const Arguments& options) {
  const TestData data = test_data(model, options.csv);
  const Errors errors = measure(model, data.values, data.rows);
  report::Page page(fmt::format("{}: forecasts of {} steps",
                                run_names(std::span(&options.model, 1)).front(),
                                model.options.horizon));
  page.definitions({{"Mean squared error (test)", fmt::format("{:.4f}", errors.mse)},
                    {"Mean absolute error (test)", fmt::format("{:.4f}", errors.mae)},
                    {"Parameters", grouped(model.parameters->count())},
                    {"Trained for", duration(seconds_in(model.metadata))}});
  page.heading("Forecasts, and what was attended to");
  const Index windows = std::ssize(data.rows), columns = std::ssize(model.columns),
              count = std::min(options.examples, windows);
  for (Index i = 0; i < count; ++i) {
    const Index at = count == 1 ? 0 : i * (windows - 1) / (count - 1);
    add_example(page, model, data, data.rows[at], (columns - 1 + i) % columns);
  }
  page.heading("Errors");
  page.figure(report::svg(report::Chart{.title = "By how far ahead",
                                        .x_label = "steps ahead",
                                        .y_label = "mean squared error of scaled values",
                                        .series = {series("", errors.mse_by_step, 1)}}),
              fmt::format("Over {} windows of the test part.", errors.windows));
  add_learning_curves(page, options.model.parent_path() / "log.jsonl", "error of scaled values",
                      {{"loss", "loss in training"},
                       {"mse", "squared, validation"},
                       {"mae", "absolute, validation"}});
  add_card(page, model.metadata);
  return page;
}

}  // namespace

int report(const Arguments& options) {
  const auto path = page_path(options.out, options.model.parent_path());
  const Model model = Model::load(options.model);
  write_page(make_page(model, options), path);
  return 0;
}

}  // namespace attune::forecast
