#include <algorithm>

#include <fmt/format.h>

#include <attune/models/report/heatmap.hpp>
#include <attune/models/report/log.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/tensor/arrange.hpp>

#include "program.hpp"
#include "support/chart.hpp"
#include "support/output.hpp"
#include "support/page.hpp"
#include "support/run_directory.hpp"

namespace attune::forecast {
namespace {

/// One window: what was read, what was measured later and what was forecast of a column, in its own
/// unit.
struct Example {
  Index row;  // of the first row that is forecast
  std::vector<double> past, future, forecast;
  report::Heatmap attention;  // without rows where there is none
};

/// Values (T) of one column of one window, as they were measured.
std::vector<double> column(const Tensor& x, Index c, const frames::Scaling& scaling) {
  const Tensor values = frames::unscaled(x.reshape({x.dim(0), -1}), scaling);
  return slice(values, 1, c, c + 1).to_vector<double>();
}

/// Steps of the decoder down the side, what was read along the top.
report::Heatmap attention_of(std::span<const Tensor> steps, Index c, const Model& model) {
  report::Heatmap map{.rows = {}, .columns = {}, .weights = {}, .caption = ""};
  const Index segment = model.options().kind == Kind::segments ? model.options().segment : 1;
  for (const Tensor& weights : steps) {
    const Tensor own =
        slice(weights, 1, weights.dim(1) == 1 ? 0 : c, weights.dim(1) == 1 ? 1 : c + 1);
    for (const double w : own.to_vector<double>()) map.weights.push_back(w);
    map.rows.push_back(fmt::format("+{}", (std::ssize(map.rows) + 1) * segment));
    if (!map.columns.empty()) continue;
    for (Index s = 0; s < own.dim(0); ++s)
      map.columns.push_back(fmt::format("{}", (s - own.dim(0)) * segment));
  }
  return map;
}

Example example(const Model& model, const Tensor& values, Index row, Index c) {
  const NoGrad no_grad;
  const auto [past, future] = windows_at(values, model.sizes(), std::span(&row, 1));
  std::vector<Tensor> weights;
  const Tensor forecast = model(past, &weights).value();
  return {row, column(past, c, model.scaling()), column(future, c, model.scaling()),
          column(forecast, c, model.scaling()), attention_of(weights, c, model)};
}

report::Series series(std::string name, const std::vector<double>& y, Index first) {
  report::Series series{.name = std::move(name), .x = {}, .y = y};
  for (std::size_t i = 0; i < y.size(); ++i)
    series.x.push_back(static_cast<double>(first) + static_cast<double>(i));
  return series;
}

void add_example(report::Page& page, const Table& table, const std::string& name,
                 const Example& e) {
  // As much of the past as of the future, and two weeks at least.
  const std::size_t shown = std::min(e.past.size(), std::max<std::size_t>(e.future.size(), 336));
  const std::vector<double> recent(e.past.end() - static_cast<std::ptrdiff_t>(shown), e.past.end());
  page.figure(
      report::svg(report::Chart{
          .title = fmt::format("{}, {} steps from {}", name, e.future.size(),
                               to_string(table.time(e.row))),
          .x_label = "steps from the first that is forecast",
          .y_label = name,
          .series = {series("measured", recent, -static_cast<Index>(shown)),
                     series("measured later", e.future, 0), series("forecast", e.forecast, 0)}}),
      "");
  if (e.attention.rows.empty()) return;
  // Weights spread over hundreds of rows: the largest one is small.
  const double darkest = std::ranges::max(e.attention.weights);
  page.figure(
      report::svg(e.attention, {.cell = 12, .darkest = darkest}),
      fmt::format(
          "{}: attention of each decoder step (rows) to the past (columns); numbers are steps "
          "from the first one that is forecast. The largest weight is {:.3f}.",
          name, darkest));
}

void add_curves(report::Page& page, const Errors& errors, const std::filesystem::path& log_path) {
  page.heading("Errors");
  page.figure(report::svg(report::Chart{.title = "By how far ahead",
                                        .x_label = "steps ahead",
                                        .y_label = "mean squared error of scaled values",
                                        .series = {series("", errors.mse_by_step, 1)}}),
              fmt::format("Over {} windows of the test part.", errors.windows));
  if (!std::filesystem::exists(log_path)) return;
  const auto log = report::read_log(log_path.string());
  page.figure(
      report::svg(report::Chart{.title = "Learning curves",
                                .x_label = "step",
                                .y_label = "error of scaled values",
                                .series = {report::curve(log, "loss", "loss in training"),
                                           report::curve(log, "mse", "squared, validation"),
                                           report::curve(log, "mae", "absolute, validation")}}),
      "");
}

report::Page make_page(const Model& model, const Arguments& options) {
  const auto [table, values, rows] = test_data(model, options.csv);
  const Errors errors = measure(model, values, rows);
  report::Page page(fmt::format("{}: forecasts of {} steps",
                                run_names(std::span(&options.model, 1)).front(),
                                model.options().horizon));
  page.definitions({{"Mean squared error (test)", fmt::format("{:.4f}", errors.mse)},
                    {"Mean absolute error (test)", fmt::format("{:.4f}", errors.mae)},
                    {"Parameters", grouped(model.parameters().count())},
                    {"Trained for", duration(seconds_in(model.metadata()))}});
  page.heading("Forecasts, and what was attended to");
  const Index count = std::min<Index>(options.examples, std::ssize(rows));
  for (Index i = 0; i < count; ++i) {
    const Index at = count == 1 ? 0 : i * (std::ssize(rows) - 1) / (count - 1);
    const Index c = (std::ssize(model.columns()) - 1 + i) % std::ssize(model.columns());
    add_example(page, table, model.columns()[c], example(model, values, rows[at], c));
  }
  add_curves(page, errors, options.model.parent_path() / "log.jsonl");
  add_card(page, model.metadata());
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
