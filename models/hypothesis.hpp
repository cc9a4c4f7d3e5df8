// What a decoder wrote.
#pragma once

#include <cstdint>
#include <vector>

#include <attune/tensor/tensor.hpp>

namespace attune::models {

/// A sentence that was written.
struct Hypothesis {
  std::vector<std::int32_t> words;             // without `</s>`
  std::vector<double> word_log_probabilities;  // of each word, and of `</s>` when `complete`
  double log_probability = 0;                  // their sum
  double score = 0;                            // what it was ranked by
  bool complete = false;                       // it ended with `</s>`, not at max_length
  /// (steps, S) f32: attention at each word, and at `</s>`. Of several heads the mean; undefined
  /// where the model has no attention.
  Tensor weights;
};

}  // namespace attune::models
