#include "train.hpp"

#include <fmt/format.h>

#include <attune/autograd/ops.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/nn/checkpoint.hpp>

#include "support/checkpoint.hpp"
#include "support/output.hpp"
#include "support/training_run.hpp"

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
  }
};

constexpr double worst = 1e300;

/// An error as a checkpoint has it: one that is not finite is the worst.
std::string stored(double error) { return fmt::format("{}", error < worst ? error : worst); }

class Run : public TrainingRun {
 public:
  Run(const TrainOptions& options, RunDirectory& files, const Data& data, Model& model)
      : TrainingRun(
            options,
            {.speed = "windows_per_s", .weights = "loss_count", .starts_with_validation = true},
            options.seed, files, model.parameters(), {.rate = options.rate}),
        options_(options),
        data_(data),
        model_(model) {}

 private:
  void describe() const override {
    say("{}: {} columns, {} rows from {}; windows: {} to train on, {} to validate on\n{}\n",
        options_.csv, data_.table.columns.size(), data_.table.rows(), to_string(data_.table.first),
        data_.train.size(), data_.validation.size(), machinery());
    if (resumes()) say("resuming at step {} of {}\n", step(), std::max(step(), options_.steps));
  }

  std::string end() const override { return step() < options_.steps ? "" : "finished"; }
  Index total_steps() const override { return options_.steps; }

  double rate() const override { return late_decay(options_.rate, options_.steps)(step()); }

  StepBatch next_batch() override {
    const std::vector<Index> rows = next_rows();
    StepBatch batch = in_shards(
        options_.shards, std::ssize(rows), [](Index) { return 1; },
        [=, this](Index begin, Index end) {
          return loss(std::vector(rows.begin() + begin, rows.begin() + end));
        });
    batch.size = static_cast<double>(rows.size());
    return batch;
  }

  Var loss(const std::vector<Index>& rows) const {
    const auto [past, future] = windows_at(data_.values, model_.sizes(), rows);
    const Var error = model_(past) - future;
    return mean(options_.loss == Loss::squared ? square(error) : abs(error));
  }

  /// The windows of this step: each once in an epoch, in a random order.
  std::vector<Index> next_rows() {
    const Index n = std::ssize(data_.train), batches = (n + options_.batch - 1) / options_.batch;
    const Index epoch = step() / batches, begin = step() % batches * options_.batch;
    if (epoch != epoch_) {
      order_ = shuffled(data_.train.size(),
                        Random(options_.seed, static_cast<std::uint64_t>(epoch) + 1));
      epoch_ = epoch;
    }
    std::vector<Index> rows;
    for (Index i = begin; i < std::min(n, begin + options_.batch); ++i)
      rows.push_back(data_.train[order_[static_cast<std::size_t>(i)]]);
    return rows;
  }

  void validate() override {
    last_ = measure(model_, data_.values, data_.validation);
    if (step() == 0 || (best_.windows > 0 && (!(last_.mse < best_.mse) || diverges()))) return;
    best_ = last_;
    save_best();
  }

  std::string best_result() const override {
    if (best_.windows == 0) return {};
    return fmt::format("mean squared error {:.4f}, absolute {:.4f} on {} windows of scaled values",
                       best_.mse, best_.mae, best_.windows);
  }

  std::string status() const override {
    return fmt::format("{:5.0f} windows/s  loss {:.4f}  mse {:.4f}  mae {:.4f}", per_second(),
                       mean_loss(), last_.mse, last_.mae);
  }

  report::LogFields measures() const override { return {{"mse", last_.mse}, {"mae", last_.mae}}; }

  void save_model(Safetensors& file) const override {
    model_.save(file);
    file.metadata.merge(models::fields_to_map(train_fields(), options_));
    file.metadata["mse"] = stored(last_.mse);
    file.metadata["mae"] = stored(last_.mae);
  }

  void save_progress(Safetensors& file) const override {
    file.metadata["best_mse"] = stored(best_.mse);
    file.metadata["best_mae"] = stored(best_.mae);
    file.metadata["best_windows"] = fmt::format("{}", best_.windows);
  }

  void check(const Safetensors& file) const override {
    for (const auto& [name, tensor] : frames::scaling_tensors(data_.scaling)) {
      const Tensor& stored = nn::find_tensor(file, name, tensor.shape(), tensor.dtype());
      if (stored.to_vector<float>() == tensor.to_vector<float>()) continue;
      fail("checkpoint",
           fmt::format("'{}' is not that of {}: it was trained on other rows", name, options_.csv));
    }
  }

  void load_progress(const Safetensors& file) override {
    const auto error = [&](const char* name) {
      return nn::load_number(file.metadata, name, 0, worst);
    };
    last_.mse = error("mse"), last_.mae = error("mae");
    best_.mse = error("best_mse"), best_.mae = error("best_mae");
    best_.windows = nn::load_count(file.metadata, "best_windows");
  }

  const TrainOptions& options_;
  const Data& data_;
  Model& model_;
  std::vector<std::uint32_t> order_;
  Index epoch_ = -1;
  Errors last_, best_;
};

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
    models::set_fields_from(train_fields(), options, file.metadata, {"average"});
    models::set_fields_from(network_fields(), options.network, file.metadata);
    return options;
  });
}

void check_same(const TrainOptions& stored, const TrainOptions& given) {
  auto before = models::fields_to_map(train_fields(), stored),
       after = models::fields_to_map(train_fields(), given);
  before.merge(models::fields_to_map(network_fields(), stored.network));
  after.merge(models::fields_to_map(network_fields(), given.network));
  for (const char* free : {"csv", "steps", "validate-every", "max-skipped"})
    after[free] = before[free];
  attune::check_same("--resume", given.out / "last.safetensors", before, after);
}

TestData test_data(const Model& model, const std::filesystem::path& csv) {
  TrainOptions trained;
  models::set_fields_from(train_fields(), trained, model.metadata(), {"average"});
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
  return Run(options, files, data, model).go();
}

}  // namespace attune::forecast
