// `dates train`
#pragma once

#include <span>

#include <attune/models/option_field.hpp>

#include "data.hpp"
#include "support/training_options.hpp"

namespace attune::dates {

struct TrainOptions : TrainingOptions {
  TrainOptions() : TrainingOptions{.out = "dates-model", .validate_every = 250} {}
  Index steps = 0;  // 0: what suits the number of locales
  DataOptions data;
  ModelOptions model = model_options("bahdanau");
};

/// Everything but `out`, `resume` and the model: names, help and checks.
std::span<const models::OptionField<TrainOptions>> train_fields();

/// The same with a number of steps, where it was left open.
TrainOptions with_steps(TrainOptions options);

/// The options that a checkpoint's metadata keeps. Throws when one is missing or not understood.
TrainOptions train_options_from(Metadata metadata);

/// The options of a run that is to be resumed from this checkpoint. Errors begin with the path.
TrainOptions stored_options(const std::filesystem::path& checkpoint);

/// Throws an Error that names the first option which a resumed run may not change: the model's name
/// before all that depends on it. `operation` is what the error begins with.
void check_same(const TrainOptions& stored, const TrainOptions& given,
                const char* operation = "--resume");

/// Trains until `steps`, or until interrupted. Returns the exit status: 0, or 128 + the number of a
/// signal, which is 130 after Ctrl-C.
int train(const TrainOptions& options);

}  // namespace attune::dates
