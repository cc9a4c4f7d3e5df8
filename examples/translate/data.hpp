// The text of a training run, as numbers.
#pragma once

#include <attune/models/metrics/alignment_error_rate.hpp>

#include "model.hpp"
#include "train.hpp"

namespace attune::translate {

/// Learns tokenizers and vocabularies from the training text.
Codecs learn_codecs(const TrainOptions& options);

/// The pairs to train on; what was left out is printed.
std::vector<text::Pair> training_pairs(const TrainOptions& options, const Codecs& codecs);

/// A number that is another one, almost surely, when the pairs or the links between them have
/// changed.
std::string fingerprint(std::span<const text::Pair> pairs,
                        std::span<const metrics::Alignment> links);

/// Sentences to validate on: all that have words.
struct Validation {
  std::vector<text::Pair> pairs;
  std::vector<std::string> references;  // as they are written
};
Validation validation_text(const std::string& source, const std::string& target,
                           const Codecs& codecs);

}  // namespace attune::translate
