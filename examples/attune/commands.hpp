// The commands. Each prints to standard output and returns the exit status.
#pragma once

#include <optional>

#include "data.hpp"
#include "options.hpp"

namespace attune::pairs {

/// Throws where a file of the training cannot be opened: before any is read, which may take long.
void check_files(const TrainOptions& options);

/// Trains until a limit is reached, or until interrupted: one model, or with --seeds several, each
/// in a directory of its own; measures them, and ends with a report. `survey` is that of a new run.
int train(const TrainOptions& options, const std::optional<Survey>& survey);

// The others, as main.cpp describes them.
int predict(const UseOptions& options);
int evaluate_pairs(const UseOptions& options);
int compare(const UseOptions& options);
int align(const UseOptions& options);
int score(const UseOptions& options);
int report(const UseOptions& options);
int average(const UseOptions& options);
int inspect(const UseOptions& options);

}  // namespace attune::pairs
