// How good a dates model is on given examples.
#pragma once

#include <optional>

#include "model.hpp"
#include "tsv.hpp"

namespace attune::dates {

/// What was written for one example.
struct Prediction {
  std::string written;
  double probability;
  bool exact;
};

struct Evaluation {
  std::vector<Prediction> predictions = {};   // in the order of the rows
  double exact_match = 0;                     // share of examples, 0 to 1
  double character_accuracy = 0;              // mean over examples, 0 to 1
  std::optional<double> gold_attention = {};  // where rows have spans
};

/// Sources and targets of rows as the model reads and writes them.
std::vector<text::Pair> encoded(const Model& model, std::span<const Row> rows);

/// Writes every row's date and compares. With `attention`, and where rows have spans, the target is
/// also forced: gold_attention is the mean attention on the source's year while characters 0-3 are
/// written, on its month while 5-6 are, and on its day while 8-9 are. Throws Interrupted.
Evaluation evaluate(const Model& model, std::span<const Row> rows, Index beam = 1,
                    bool attention = false);

}  // namespace attune::dates
