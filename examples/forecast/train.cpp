#include <fmt/format.h>

#include <attune/autograd/ops.hpp>
#include <attune/models/layer_fields.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/check.hpp>

#include "forecast.hpp"
#include "support/run.hpp"
#include "support/run_directory.hpp"

namespace attune::forecast {

using Options = TrainOptions;
using models::choice_field, models::number_field;

Fields<Options> training_fields() {
  return joined<Options>(
      {{models::text_field<Options>(
            "csv", "file: a date in the first column, numbers in the others", &Options::csv),
        choice_field<Options, Protocol>(
            "protocol",
            "which rows to train, validate and test on: 70, 10 and 20 % (shares), or 12, 4 and 4 "
            "months of 30 days of hours (ett)",
            &Options::protocol, {{Protocol::shares, "shares"}, {Protocol::ett, "ett"}}),
        choice_field<Options, Loss>("loss", "what training minimises: squared or absolute errors",
                                    &Options::loss,
                                    {{Loss::squared, "squared"}, {Loss::absolute, "absolute"}})},
       step_fields<Options>("windows", "constant for half of the steps, then down to 2 % of it",
                            "order and dropout"),
       common_training_fields<Options>()});
}

Fields<Options> network_fields() {
  constexpr double largest = 1 << 16;
  Fields<Options> all = {
      choice_field<Options, Kind>(
          "model",
          "linear (NLinear), lstm (an encoder-decoder with attention, row by row) or segments (a "
          "GRU over segments, with attention)",
          &Options::kind,
          {{Kind::linear, "linear"}, {Kind::lstm, "lstm"}, {Kind::segments, "segments"}}),
      number_field<Options>("look-back", "rows to read", &Options::look_back, 1, largest),
      number_field<Options>("horizon", "rows to forecast", &Options::horizon, 1, largest),
      number_field<Options>("segment", "rows of a segment", &Options::segment, 1, largest),
      number_field<Options>("hidden", "size of states", &Options::hidden, 2, largest),
      number_field<Options>("dropout", "rate on annotations and outputs", &Options::dropout, 0,
                            0.99),
      choice_field<Options, bool>("attends", "whether the decoder over segments attends",
                                  &Options::attends, {{false, "no"}, {true, "yes"}})};
  for (auto& field : models::attention_fields<Options>())
    if (field.name != "longest") all.push_back(std::move(field));  // which the look-back says
  return all;
}

const Fields<Options>& all_fields() {
  static const auto all = joined<Options>({training_fields(), network_fields()});
  return all;
}

namespace {

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

/// Squared and absolute error on the test part.
std::vector<double> test_errors(const TrainOptions& options) {
  const Model model = Model::load(options.out / "best.safetensors");
  const TestData data = test_data(model);
  const Errors errors = measure(model, data.values, data.rows);
  return {errors.mse, errors.mae};
}

}  // namespace

TrainOptions stored_options(const std::filesystem::path& checkpoint) {
  return Model::load(checkpoint).options;
}

int train(const TrainOptions& options) {
  RunDirectory files(options.out, options.resume);
  const Table table = read_table(options.csv);
  if (files.resumes()) {
    // Throws where the checkpoint's sizes and tensors disagree, before it allocates these sizes.
    const Model last = Model::load(files.last());
    check_resumable(all_fields(), last.options, options, {"csv"});
    check_columns(options.csv, table, last.columns);
  }
  const Parts parts = parts_of(table, options.protocol);
  const frames::Scaling scaling =
      scaling_of(table.values.slice(parts.train.begin, parts.train.end), table.columns);
  const Tensor values = frames::scaled(table.values, scaling).to(DType::f32);
  const auto training = windows_of(parts.train, options, "the training part"),
             validation = windows_of(parts.validation, options, "the validation part");
  windows_of(parts.test, options, "the test part");  // which the report draws
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
           .starts_with_validation = true},
          files, *model.parameters, [&](Safetensors& file) { model.save(file); },
          {same_scaling(scaling, "rows"), adam, epochs, best});
  const auto schedule = late_decay(options.rate, options.steps);
  while (run.goes_on(options.steps)) {
    if (run.trains()) {
      const auto& windows = epochs.next();
      auto [loss, gradients] = run.backward(std::ssize(windows), [&](Index begin, Index end) {
        std::vector<Index> rows;
        for (Index i = begin; i < end; ++i) rows.push_back(training[windows[i]]);
        const auto [past, future] = windows_at(values, options, rows);
        const Var error = model(past) - future;
        return mean(options.loss == Loss::squared ? square(error) : abs(error));
      });
      const double rate = schedule(run.step());
      if (run.usable(loss, gradients)) {
        nn::clip_by_global_norm(gradients, options.clip);
        adam.set_rate(rate);
        adam.step(gradients);
      }
      run.stepped({.loss = loss, .rate = rate, .size = static_cast<double>(windows.size())});
    }
    const auto errors = run.validate([&] { return measure(model, values, validation); });
    if (!errors) continue;
    const auto [mse, mae, windows, by_step] = *errors;
    if (best.improves(run, {-mse}))
      run.save_best(
          fmt::format("mean squared error {:.4f}, absolute {:.4f} on {} windows of scaled values",
                      mse, mae, windows));
    run.save({{"mse", mse}, {"mae", mae}}, fmt::format("mse {:.4f}  mae {:.4f}", mse, mae));
  }
  return run.finish(
      fmt::format("forecast predict {} --model {}", options.csv.string(), options.out.string()));
}

std::vector<std::string> variant_names() { return names_of(variants()); }

int compare(CompareArguments options) {
  if (options.variants.empty()) options.variants = variant_names();
  check_each_once("--variants", options.variants);
  check_each_once("--horizons", options.horizons);
  std::vector<NamedRun<TrainOptions>> runs;
  for (const std::string& name : options.variants) {
    for (const Index horizon : options.horizons) {
      TrainOptions one = changed(all_fields(), options.train, variant_named(variants(), name));
      one.horizon = horizon;
      if (one.kind == Kind::linear) one.steps *= 3;  // each takes a fraction of the others' time
      check(one);
      runs.push_back({fmt::format("{}-{}", name, horizon), one});
    }
  }
  const auto errors =
      compare_runs<TrainOptions>(runs, options, 4, train, stored_options, test_errors);
  std::vector<std::string> horizons;
  for (const Index horizon : options.horizons) horizons.push_back(std::to_string(horizon));
  for (const std::size_t measure : {0, 1}) {
    std::vector<std::vector<Spread>> rows(options.variants.size());
    for (std::size_t i = 0; i < runs.size(); ++i)
      rows[i / horizons.size()].push_back(errors[i][measure]);
    print_table(measure == 0 ? "squared error" : "absolute error", horizons, options.variants, rows,
                3, 15);
  }
  return 0;
}

}  // namespace attune::forecast
