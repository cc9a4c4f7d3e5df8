#include <fmt/format.h>

#include <attune/autograd/ops.hpp>
#include <attune/nn/adam.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/nn/clip.hpp>

#include "program.hpp"
#include "support/run.hpp"
#include "support/run_directory.hpp"

namespace attune::forecast {
namespace {

/// A table, and its windows for training and validation.
struct Data {
  Table table;
  Parts parts;
  frames::Scaling scaling;
  Tensor values;  // scaled
  std::vector<Index> train, validation;

  explicit Data(const TrainOptions& o)
      : table(read_table(o.csv)), parts(parts_of(table, o.protocol)) {
    const Tensor& all = table.values;
    scaling = scaling_of(all.slice(parts.train.begin, parts.train.end), table.columns);
    values = frames::scaled(all, scaling).to(DType::f32);
    const WindowSizes sizes{o.network.look_back, o.network.horizon};
    train = windows_of(parts.train, sizes, "the training part");
    validation = windows_of(parts.validation, sizes, "the validation part");
    windows_of(parts.test, sizes, "the test part");  // which the report draws
  }
};

std::string description(const TrainOptions& o, const Data& data) {
  return fmt::format("{}: {} columns, {} rows from {}; windows: {} to train on, {} to validate on",
                     o.csv, data.table.columns.size(), data.table.rows(),
                     to_string(data.table.first), data.train.size(), data.validation.size());
}

std::string to_string(const Errors& errors) {
  return fmt::format("mean squared error {:.4f}, absolute {:.4f} on {} windows of scaled values",
                     errors.mse, errors.mae, errors.windows);
}

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

/// The mean over the windows whose targets begin at these rows.
Var loss_of(const Model& model, const Data& data, const std::vector<Index>& rows, Loss loss) {
  const auto [past, future] = windows_at(data.values, model.sizes(), rows);
  const Var error = model(past) - future;
  return mean(loss == Loss::squared ? square(error) : abs(error));
}

/// Throws for the first option that a resumed run may not change.
void check_same(const TrainOptions& stored, const TrainOptions& given) {
  auto before = models::fields_to_map(train_fields(), stored),
       after = models::fields_to_map(train_fields(), given);
  before.merge(models::fields_to_map(network_fields(), stored.network));
  after.merge(models::fields_to_map(network_fields(), given.network));
  for (const char* free : {"csv", "steps", "minutes", "validate-every", "max-skipped"})
    after[free] = before[free];
  attune::check_same("--resume", given.out / "last.safetensors", before, after);
}

/// Throws where a checkpoint was trained on other rows.
Saved same_rows(const TrainOptions& o, const Data& data) {
  return {[](Safetensors&) {},
          [&](const Safetensors& file) {
            for (const auto& [name, tensor] : frames::scaling_tensors(data.scaling)) {
              const Tensor& stored = nn::find_tensor(file, name, tensor.shape(), tensor.dtype());
              if (stored.to_vector<float>() == tensor.to_vector<float>()) continue;
              fail("checkpoint", fmt::format("'{}' is not that of {}: it was trained on other rows",
                                             name, o.csv));
            }
          }};
}

}  // namespace

std::span<const models::OptionField<TrainOptions>> train_fields() {
  using Options = TrainOptions;
  using models::choice_field, models::number_field, models::text_field;
  constexpr double many = 1e9;
  static const auto fields = joined<Options>(
      {{text_field<Options>("csv", "file: a date in the first column, numbers in the others",
                            &Options::csv),
        choice_field<Options, Protocol>(
            "protocol",
            "which rows to train, validate and test on: 70, 10 and 20 % "
            "(shares), or 12, 4 and 4 months of "
            "30 days of hours (ett)",
            &Options::protocol, {{Protocol::shares, "shares"}, {Protocol::ett, "ett"}}),
        number_field<Options>("steps", "batches to train on", &Options::steps, 1, many),
        number_field<Options>("batch", "windows in a batch", &Options::batch, 1, 1 << 16),
        number_field<Options>(
            "rate", "learning rate of Adam: constant for half of the steps, then down to 2 % of it",
            &Options::rate, 1e-9, 10),
        choice_field<Options, Loss>("loss", "what training minimises: squared or absolute errors",
                                    &Options::loss,
                                    {{Loss::squared, "squared"}, {Loss::absolute, "absolute"}}),
        number_field<Options>("seed", "of initial values, order and dropout", &Options::seed, 0,
                              0x1p64)},
       common_training_fields<Options>()});
  return fields;
}

TrainOptions stored_options(const std::filesystem::path& checkpoint) {
  return from_checkpoint(checkpoint, checkpoint_format, [](const Safetensors& file) {
    TrainOptions options;
    models::set_fields_from(train_fields(), options, file.metadata);
    models::set_fields_from(network_fields(), options.network, file.metadata);
    return options;
  });
}

TestData test_data(const Model& model, const std::filesystem::path& csv) {
  TrainOptions trained;
  models::set_fields_from(train_fields(), trained, model.metadata());
  const std::filesystem::path path = csv.empty() ? std::filesystem::path(trained.csv) : csv;
  const Table table = read_table(path);
  check_columns(path, table, model.columns());
  const Part test = parts_of(table, trained.protocol).test;
  return {.table = table,
          .values = frames::scaled(table.values, model.scaling()).to(DType::f32),
          .rows = windows_of(test, model.sizes(), "the test part")};
}

int train(const TrainOptions& options) {
  RunDirectory files(options.out, options.resume);
  if (files.resumes()) check_same(stored_options(files.last()), options);
  const Data data(options);
  // When a run is resumed, throws where the checkpoint's sizes and tensors disagree, before memory
  // of these sizes is taken.
  if (files.resumes()) check_columns(options.csv, data.table, Model::load(files.last()).columns());
  Model model(options.network, data.table.columns, data.scaling, options.seed);
  nn::Adam adam(model.parameters(), {.rate = options.rate});
  Epochs epochs([&](Index epoch) { return batches_of(options, data.train.size(), epoch); });
  Best best;
  const auto save_model = [&](Safetensors& file) {
    model.save(file);
    file.metadata.merge(models::fields_to_map(train_fields(), options));
  };
  Run run(options,
          {.seed = options.seed,
           .unit = "windows",
           .data = description(options, data),
           .starts_with_validation = true},
          files, model.parameters(), save_model, {same_rows(options, data), adam, epochs, best});
  const auto schedule = late_decay(options.rate, options.steps);
  while (run.goes_on(options.steps)) {
    if (run.trains()) {
      const auto& windows = epochs.next();
      auto [loss, gradients] = run.backward(std::ssize(windows), [&](Index begin, Index end) {
        std::vector<Index> rows;
        for (Index i = begin; i < end; ++i) rows.push_back(data.train[windows[i]]);
        return loss_of(model, data, rows, options.loss);
      });
      const double rate = schedule(run.step());
      if (run.usable(loss, gradients)) {
        nn::clip_by_global_norm(gradients, options.clip);
        adam.set_rate(rate);
        adam.step(gradients);
      }
      run.stepped({.loss = loss, .rate = rate, .size = static_cast<double>(windows.size())});
    }
    const auto errors = run.validate([&] { return measure(model, data.values, data.validation); });
    if (!errors) continue;
    if (best.improves(run, {-errors->mse})) run.save_best(to_string(*errors));
    run.save({{"mse", errors->mse}, {"mae", errors->mae}},
             fmt::format("mse {:.4f}  mae {:.4f}", errors->mse, errors->mae));
  }
  return run.finish(
      fmt::format("forecast predict {} --model {}", options.csv, options.out.string()));
}

}  // namespace attune::forecast
