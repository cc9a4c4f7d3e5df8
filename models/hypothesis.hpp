// What a decoder wrote, and its unknown words.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <attune/models/text/vocabulary.hpp>
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

/// What source tokens become.
using Lexicon = std::unordered_map<std::string, std::string>;

/// The tokens of a hypothesis, each `<unk>` replaced by the source token with the largest attention
/// weight (the first of equals), or by what the lexicon has for that (Jean et al., 2015, section
/// 3.3; Luong et al., 2015, "Effective approaches", section 4.2). `source` are the tokens that the
/// model read, before any of them became `<unk>`. Throws when their number is not that of the
/// weights, or on an `<unk>` without weights.
std::vector<std::string> replace_unknown(const Hypothesis& hypothesis,
                                         std::span<const std::string> source,
                                         const text::Vocabulary& target,
                                         const Lexicon& lexicon = {});

}  // namespace attune::models
