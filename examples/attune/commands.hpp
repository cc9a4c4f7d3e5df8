// The commands. Each prints to standard output and returns the exit status.
#pragma once

#include <optional>

#include "data.hpp"
#include "options.hpp"

namespace attune::pairs {

/// Throws if a training file cannot be opened. Called before any is read, which can take long.
void check_files(const TrainOptions& options);

/// The options of the model `given.from`, as defaults of a training that starts from it. Data and
/// duration are the defaults of `train`; the learning rate is a quarter and constant. Throws if the
/// model is in the directory --out.
TrainOptions options_to_start_from(const TrainOptions& given);

/// Trains until a limit is reached, or until interrupted: one model, or with --seeds several, each
/// in its own directory. Then evaluates them and writes a report. `survey` is set for a new run.
int train(const TrainOptions& options, const std::optional<Survey>& survey);

// The other commands are described in main.cpp.
int predict(const UseOptions& options);
int evaluate_pairs(const UseOptions& options);
int compare(const UseOptions& options);
int align(const UseOptions& options);
/// True if `align` has only sources: the model then predicts the targets.
bool predicts_targets(const UseOptions& options);
int score(const UseOptions& options);
int report(const UseOptions& options);
int average(const UseOptions& options);
int inspect(const UseOptions& options);

}  // namespace attune::pairs
