// `forecast train`
#pragma once

#include "model.hpp"
#include "support/training_options.hpp"
#include "table.hpp"

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

/// Throws an Error that names the first option which a resumed run may not change.
void check_same(const TrainOptions& stored, const TrainOptions& given);

/// What a model is tested on.
struct TestData {
  Table table;
  Tensor values;            // (rows, C) f32, scaled
  std::vector<Index> rows;  // where the targets of each window begin
};

/// From that file, or where it is empty from that of the model's training. Throws where it has
/// other columns.
TestData test_data(const Model& model, const std::filesystem::path& csv = {});

/// Trains until `steps`, or until interrupted. Returns the exit status.
int train(const TrainOptions& options);

}  // namespace attune::forecast
