// The commands of `forecast`. Each prints to standard output and returns the exit status.
#pragma once

#include "model.hpp"
#include "support/comparing.hpp"
#include "support/training_options.hpp"

namespace attune::forecast {

enum class Loss { squared, absolute };

struct TrainOptions : TrainingOptions {
  TrainOptions() : TrainingOptions{.out = "forecast-model", .rate = 1e-3, .validate_every = 100} {}
  std::string csv;
  Protocol protocol = Protocol::shares;
  Index steps = 300;
  std::uint64_t seed = 1;
  Loss loss = Loss::absolute;
  NetworkOptions network;
};

/// Everything but `out`, `resume` and the network.
std::span<const models::OptionField<TrainOptions>> train_fields();

/// The options of a run that is to be resumed from this checkpoint. Errors begin with the path.
TrainOptions stored_options(const std::filesystem::path& checkpoint);

/// Trains until `steps`, or until interrupted; 128 + the number of the signal.
int train(const TrainOptions& options);

/// The rows that a model is tested on.
struct TestData {
  Table table;
  Tensor values;            // (rows, C) f32, scaled
  std::vector<Index> rows;  // where the targets of each window begin
};

/// From that file, or where it is empty from that of the model's training. Throws where it has
/// other columns.
TestData test_data(const Model& model, const std::filesystem::path& csv = {});

struct Arguments {
  std::filesystem::path model = "forecast-model/best.safetensors";
  std::filesystem::path csv = {};  // empty: that of the training
  bool json = false;
  std::filesystem::path out = {};  // of a report; empty: report.html beside the model
  Index examples = 4;
};

/// What comes after the last row of a file: a CSV of the same columns.
int predict(const Arguments& options);
/// Errors on the test part, over every window, by how far ahead.
int evaluate(const Arguments& options);
/// One self-contained HTML page: forecasts over what was measured, what was attended to, errors by
/// how far ahead, learning curves.
int report(const Arguments& options);

/// The names of all variants, in the order of the table.
std::vector<std::string> variant_names();

struct CompareArguments : Comparison {
  TrainOptions train;  // of each run, which has a directory of its own in `out`
  std::vector<Index> horizons = {24, 48, 96, 168, 192, 336, 720};
};

/// Trains every variant for every horizon with every seed, as far as that is not done yet, and
/// prints a table of their errors on the test part.
int compare(CompareArguments options);

}  // namespace attune::forecast
