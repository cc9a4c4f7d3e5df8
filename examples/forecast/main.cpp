// forecast: attention models that forecast measurements over time.
#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <attune/autograd/ops.hpp>
#include <attune/models/heatmap.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/reduce.hpp>

#include "forecast.hpp"
#include "support/chart.hpp"
#include "support/commands.hpp"
#include "support/comparing.hpp"
#include "support/output.hpp"
#include "support/page.hpp"
#include "support/processes.hpp"
#include "support/run.hpp"
#include "support/run_directory.hpp"

namespace attune::forecast {
namespace {

// ---- Errors

/// Mean squared and mean absolute error of scaled values, over all windows.
struct Errors {
  double mse = 0, mae = 0;
  std::vector<double> mse_by_step;  // of each row ahead (H)
};

/// Of the windows whose targets begin at these rows of scaled values (rows, C).
Errors measure(const Model& model, const Tensor& values, std::span<const Index> rows) {
  constexpr std::size_t batch = 256;
  const NoGrad no_grad;
  const Index horizon = model.options.horizon;
  Errors errors{.mse_by_step = std::vector<double>(horizon)};
  for (std::size_t begin = 0; begin < rows.size(); begin += batch) {
    stop_if_interrupted();
    const auto some = rows.subspan(begin, std::min(batch, rows.size() - begin));
    const auto [past, future] = windows_at(values, model.options, some);
    const Tensor error = (model.network(past, nullptr).value() - future).to(DType::f64);
    errors.mae += sum(abs(error)).item();
    std::ranges::transform(errors.mse_by_step, sum(error * error, {1, 2}).to_vector<double>(),
                           errors.mse_by_step.begin(), std::plus());
  }
  const double of_step = static_cast<double>(std::ssize(rows) * values.dim(1));
  for (double& mse : errors.mse_by_step) {
    errors.mse += mse / of_step / static_cast<double>(horizon);
    mse /= of_step;
  }
  errors.mae /= of_step * static_cast<double>(horizon);
  return errors;
}

/// The rows that a model is tested on, and its errors.
struct Test {
  Table table;
  Tensor values;            // (rows, C) f32, scaled
  std::vector<Index> rows;  // where the targets of each window begin
  Errors errors;
};

/// Reads that file, or the one of the model's training where the path is empty. Throws where the
/// columns are not the model's.
Test test(const Model& model, const std::filesystem::path& csv = {}) {
  const std::filesystem::path path = csv.empty() ? model.options.csv : csv;
  const Table table = read_table(path);
  check_columns(path, table, model.columns);
  const Tensor values = frames::scaled(table.values, model.scaling).to(DType::f32);
  const auto rows =
      windows_of(parts_of(table, model.options.protocol).test, model.options, "the test part");
  return {table, values, rows, measure(model, values, rows)};
}

// ---- Training

/// The windows of an epoch: each once, in a random order.
Epochs::Batches batches_of(const TrainOptions& o, std::size_t windows, Index epoch) {
  const auto order = shuffled(windows, Random(o.seed, static_cast<std::uint64_t>(epoch) + 1));
  Epochs::Batches batches;
  for (std::size_t i = 0; i < windows; ++i) {
    if (i % static_cast<std::size_t>(o.batch) == 0) batches.emplace_back();
    batches.back().push_back(order[i]);
  }
  return batches;
}

/// The options of a run that is to be resumed from this checkpoint.
TrainOptions stored_options(const std::filesystem::path& checkpoint) {
  return Model::load(checkpoint).options;
}

/// Trains until `steps`, or until interrupted: 128 + the number of the signal.
int train(const TrainOptions& options) {
  RunDirectory files(options.out, options.resume);
  if (options.report) require_regular(options.csv);
  const Table table = read_table(options.csv);
  if (files.resumes()) {
    // Throws where the checkpoint's sizes and tensors disagree, before it allocates these sizes.
    const Model last = Model::load(files.last());
    check_resumable(options.out, to_metadata(all_fields(), last.options),
                    to_metadata(all_fields(), options),
                    {"csv", "steps", "validate-every", "max-skipped"});
    check_columns(options.csv, table, last.columns);
  }
  const Parts parts = parts_of(table, options.protocol);
  const frames::Scaling scaling =
      scaling_of(table.values.slice(parts.train.begin, parts.train.end), table.columns);
  const Tensor values = frames::scaled(table.values, scaling).to(DType::f32);
  const auto training = windows_of(parts.train, options, "the training part"),
             validation = windows_of(parts.validation, options, "the validation part");
  windows_of(parts.test, options, "the test part");  // which the report draws
  const auto input = [&](const Part& part) {
    const Tensor rows = table.values.slice(part.begin, part.end);
    return Input{options.csv, Fingerprint().add(rows.to_vector<double>())};
  };
  Model model(options, table.columns, scaling, std::make_unique<nn::Parameters>(options.seed));
  nn::Adam adam(*model.parameters, {.rate = options.rate});
  Epochs epochs([&](Index epoch) { return batches_of(options, training.size(), epoch); });
  Best best;
  Run run(options,
          {.seed = options.seed,
           .unit = "windows",
           .data = fmt::format("{}: {} columns, {} rows from {}; windows: {} to train on, {} to "
                               "validate on",
                               options.csv.string(), table.columns.size(), table.rows(),
                               to_string(table.first), training.size(), validation.size()),
           .inputs = {{"training_data", input(parts.train)},
                      {"validation_data", input(parts.validation)}},
           .starts_with_validation = true},
          files, *model.parameters, [&](Safetensors& file) { model.save(file); },
          {adam, epochs, best});
  const auto schedule = late_decay(options.rate, options.steps);
  while (run.goes_on(options.steps)) {
    if (run.trains()) {
      const auto& windows = epochs.next();
      nn::Workers::Sum sum = run.backward(std::ssize(windows), [&](Index begin, Index end) {
        std::vector<Index> rows;
        for (Index i = begin; i < end; ++i) rows.push_back(training[windows[i]]);
        const auto [past, future] = windows_at(values, options, rows);
        const Var error = model.network(past, nullptr) - future;
        return mean(options.loss == Loss::squared ? square(error) : abs(error));
      });
      run.update(adam, std::move(sum),
                 {.rate = schedule(run.step()), .size = static_cast<double>(windows.size())});
    }
    const auto errors = run.validate([&] { return measure(model, values, validation); });
    if (!errors) continue;
    const auto [mse, mae, by_step] = *errors;
    if (best.improves(run, {-mse}))
      run.save_best(
          fmt::format("mean squared error {:.4f}, absolute {:.4f} on {} windows of scaled values",
                      mse, mae, validation.size()));
    run.save({{"mse", mse}, {"mae", mae}}, fmt::format("mse {:.4f}  mae {:.4f}", mse, mae));
  }
  return run.finish(
      fmt::format("forecast predict {} --model {}", options.csv.string(), options.out.string()));
}

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = {
      {"linear",
       {{"model", "linear"},
        {"look-back", "336"},
        {"loss", "squared"},
        {"rate", "0.005"},
        {"batch", "32"}}},
      {"lstm",
       {{"model", "lstm"},
        {"look-back", "96"},
        {"hidden", "64"},
        {"loss", "squared"},
        {"batch", "32"}}},
      {"segments"},
      {"segments-location", {{"score", "location"}}},
      {"segments-local-p", {{"window", "local-p"}, {"half-width", "4"}}},
      {"segments-no-attention", {{"attends", "no"}}}};
  return all;
}

struct CompareArguments : Comparison {
  TrainOptions train;  // of each run, which has a directory of its own in `out`
  std::vector<Index> horizons = {24, 48, 96, 168, 192, 336, 720};
};

/// Trains every variant for every horizon with every seed, where that is not done yet, and prints a
/// table of their errors on the test part.
int compare(CompareArguments options) {
  if (options.variants.empty()) options.variants = names_of(variants());
  check_each_once("--variants", options.variants);
  check_each_once("--horizons", options.horizons);
  std::vector<std::pair<std::string, TrainOptions>> runs;
  for (const std::string& name : options.variants) {
    for (const Index horizon : options.horizons) {
      TrainOptions one = changed(all_fields(), options.train, variant_named(variants(), name));
      one.horizon = horizon;
      if (one.kind == Kind::linear) one.steps *= 3;  // each takes a fraction of the others' time
      check(one);
      runs.push_back({fmt::format("{}-{}", name, horizon), one});
    }
  }
  const auto errors = compare_runs<TrainOptions>(
      runs, options, 4, train, stored_options, [](const TrainOptions& run) -> std::vector<double> {
        const Errors tested = test(Model::load(run.out / "best.safetensors")).errors;
        return {tested.mse, tested.mae};
      });
  std::vector<std::string> horizons;
  for (const Index horizon : options.horizons) horizons.push_back(std::to_string(horizon));
  for (const std::size_t measure : {0, 1}) {
    std::vector<std::vector<Spread>> rows(options.variants.size());
    for (std::size_t i = 0; i < runs.size(); ++i)
      rows[i / horizons.size()].push_back(errors[i][measure]);
    print_table(measure == 0 ? "squared error" : "absolute error", horizons, options.variants, rows,
                3);
  }
  return 0;
}

// ---- The commands that use a model. Each prints to standard output and returns the exit status.

struct Arguments {
  std::filesystem::path model = "forecast-model/best.safetensors";
  std::filesystem::path csv = {};  // empty: that of the training
  bool json = false;
  std::filesystem::path out = {};  // of a report; empty: report.html beside the model
  Index examples = 4;
};

/// The rows after the last of a file, as CSV.
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
  const Tensor y = model.network(past.reshape({look_back, 1, -1}), nullptr).value().to(DType::f64);
  say("date,{}\n", fmt::join(model.columns, ","));
  for (Index step = 0; step < y.dim(0); ++step) {
    const auto row = frames::unscaled(y[step][0], model.scaling).to_vector<double>();
    say("{},{:.9g}\n", to_string(table.time(rows + step)), fmt::join(row, ","));
  }
  return 0;
}

/// Errors over all windows of the test part.
int evaluate(const Arguments& options) {
  const Model model = Model::load(options.model);
  const auto [table, values, rows, errors] = test(model, options.csv);
  const auto& [mse, mae, by_step] = errors;
  if (options.json) {
    say("{}\n",
        nlohmann::ordered_json{
            {"mse", mse}, {"mae", mae}, {"windows", rows.size()}, {"mse_by_step", by_step}}
            .dump());
    return 0;
  }
  say("of scaled values, {} windows from {} to {}\n", rows.size(),
      to_string(table.time(rows.front())),
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

report::Series series(std::string name, std::vector<double> y, double first, double step = 1) {
  std::vector<double> x;
  for (std::size_t i = 0; i < y.size(); ++i) x.push_back(first + static_cast<double>(i) * step);
  return {.name = std::move(name), .x = std::move(x), .y = std::move(y)};
}

/// The steps of the decoder as rows, the steps of the past as columns.
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

std::string interval_of(const Test& data) {
  return duration(static_cast<double>(data.table.interval.count()));
}

double days(std::chrono::seconds time) {
  return std::chrono::duration<double, std::chrono::days::period>(time).count();
}

/// Month and day at midnight, else the time of day.
std::string text_of_days(double days) {
  const std::string text = to_string(Time(std::chrono::seconds(std::llround(86400 * days))));
  return text.ends_with("00:00:00") ? text.substr(5, 5) : text.substr(11, 5);
}

/// A window of a column: the past, the true and the forecast future, and the attention weights.
void add_example(report::Page& page, const Model& model, const Test& data, Index row, Index c) {
  const NoGrad no_grad;
  const std::string& name = model.columns[c];
  const auto [past, future] = windows_at(data.values, model.options, std::span(&row, 1));
  std::vector<Tensor> weights;
  const Tensor forecast = model.network(past, &weights).value();
  // As much of the past as of the future, and two weeks at least.
  const Index horizon = model.options.horizon,
              shown = std::min(model.options.look_back, std::max<Index>(horizon, 336));
  const Tensor recent = past.slice(past.dim(0) - shown, past.dim(0));
  const auto values = [&](const Tensor& x) {  // (T, 1, C), in the column's own unit
    const Tensor all = frames::unscaled(x.reshape({x.dim(0), -1}).to(DType::f64), model.scaling);
    return slice(all, 1, c, c + 1).to_vector<double>();
  };
  const auto line = [&](const char* what, const Tensor& x, Index first) {
    return series(what, values(x), days(data.table.time(first).time_since_epoch()),
                  days(data.table.interval));
  };
  page.figure(report::svg(report::Chart{
                  .title = fmt::format("{}, {} steps of {}", name, horizon, interval_of(data)),
                  .x_label = fmt::format("forecast from {}", to_string(data.table.time(row))),
                  .y_label = name,
                  .series = {line("measured", recent, row - shown),
                             line("measured later", future, row), line("forecast", forecast, row)},
                  .x_text = text_of_days}),
              "");
  if (weights.empty()) return;
  const report::Heatmap map = attention_of(weights, c, model);
  // Weights spread over hundreds of rows: the largest one is small.
  const double darkest = std::ranges::max(map.weights);
  page.figure(
      report::svg(map, {.cell = 12, .darkest = darkest}),
      fmt::format("{}: attention of each decoder step (rows) to the past (columns); numbers are "
                  "steps from the first one that is forecast. The largest weight is {:.3f}.",
                  isolated(name), darkest));
}

/// An HTML page: forecasts, attention, errors.
int report(const Arguments& options) {
  const auto path = page_path(options.out, options.model.parent_path());
  const Model model = Model::load(options.model);
  const Test data = test(model, options.csv);
  report::Page page(fmt::format("{}: forecasts of {} steps",
                                run_names(std::span(&options.model, 1)).front(),
                                model.options.horizon));
  page.definitions({{"Mean squared error (test)", fmt::format("{:.4f}", data.errors.mse)},
                    {"Mean absolute error (test)", fmt::format("{:.4f}", data.errors.mae)},
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
  page.figure(
      report::svg(report::Chart{.title = "By how far ahead",
                                .x_label = fmt::format("steps of {} ahead", interval_of(data)),
                                .y_label = "mean squared error of scaled values",
                                .series = {series("", data.errors.mse_by_step, 1)}}),
      fmt::format("Over {} windows of the test part.", grouped(windows)));
  add_learning_curves(page, options.model.parent_path() / "log.jsonl", "error of scaled values",
                      {{"loss", "loss in training"},
                       {"mse", "squared, validation"},
                       {"mae", "absolute, validation"}});
  add_card(page, model.metadata);
  write_page(page, path);
  return 0;
}

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
      .add(comparison_fields<CompareArguments>(names_of(variants())), compared)
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
