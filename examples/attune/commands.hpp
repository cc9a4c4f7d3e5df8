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

/// What belongs to each source: of arguments, of a file, or of standard input, line by line.
int predict(const UseOptions& options);

/// Exact matches, token errors by length, the confusion matrix, BLEU, chrF and perplexity.
int evaluate_pairs(const UseOptions& options);

/// A table of models on the same pairs.
int compare(const UseOptions& options);

/// Which source tokens the model attends to, for targets that are given, or for its own.
int align(const UseOptions& options);

/// The log-probability of each given target, </s> included.
int score(const UseOptions& options);

/// One self-contained HTML page about a model or an ensemble.
int report(const UseOptions& options);

/// A model whose weights are the means of those of several checkpoints of one training.
int average(const UseOptions& options);

/// What is in a checkpoint: options, vocabularies, and the shapes of its parameters.
int inspect(const UseOptions& options);

}  // namespace attune::pairs
