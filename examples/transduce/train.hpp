// `transduce train`
#pragma once

#include <span>

#include <attune/models/option_field.hpp>

#include "model.hpp"
#include "pairs.hpp"
#include "support/training_options.hpp"
#include "units.hpp"

namespace attune::transduce {

struct TrainOptions : TrainingOptions {
  TrainOptions()
      : TrainingOptions{.out = "transduce-model",
                        .rate = 2e-3,
                        .batch = 64,
                        .validate_every = 250,
                        .average = 0.998} {}
  std::string train, valid;  // files; empty valid: some of train
  Index held_out = 1000;
  text::Columns columns = text::Columns::source_first;
  Units source_units = Units::automatic, target_units = Units::automatic;
  Index pieces = 500;
  Index steps = 0;  // 0: what suits the number of pairs
  Index patience = 12;
  std::uint64_t seed = 1;
  ModelOptions model = model_options("conditional");
};

/// Everything but `out`, `resume` and the model: names, help and checks.
std::span<const models::OptionField<TrainOptions>> train_fields();

/// The options that a checkpoint's metadata keeps. Throws when one is missing or not understood.
TrainOptions train_options_from(const Metadata& metadata);

/// The options of a run that is to be resumed from this checkpoint. Errors begin with the path.
TrainOptions stored_options(const std::filesystem::path& checkpoint);

/// Pairs to train on, and to choose the best weights by.
struct Data {
  std::vector<Row> train, valid;
  /// Almost surely another text for other pairs. A checkpoint keeps it as "pairs".
  std::string fingerprint() const;
};
/// Throws for what is not a regular file, as it is read again later, to measure models.
Data read_data(const TrainOptions& options);

/// Trains until one of the limits is reached, or until interrupted. Returns the exit status: 0, or
/// 128 + the number of a signal, which is 130 after Ctrl-C.
int train(const TrainOptions& options);

}  // namespace attune::transduce
