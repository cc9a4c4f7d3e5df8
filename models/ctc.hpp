// What a model that was trained with CTC has read (Graves et al., 2006).
#pragma once

#include <attune/models/hypothesis.hpp>
#include <attune/models/text/batches.hpp>

namespace attune::models {

/// For each sentence the most likely symbol of every frame, repeated ones once, without blanks: the
/// most likely path, though not always the most likely labels (section 3.2, "best path").
/// logits (T, B, V), mask (T, B)
std::vector<text::Sentence> ctc_greedy(const Tensor& logits, const Tensor& mask,
                                       std::int32_t blank = 0);

struct CtcSearchOptions {
  Index beam = 16;  // prefixes that are kept at each frame
  Index best = 1;   // how many of them to return
  std::int32_t blank = 0;
};

/// Labels and the logarithm of their probability, summed over those paths that the search has kept.
struct CtcHypothesis {
  text::Sentence labels;
  double log_probability = 0;
};

/// For each sentence the most likely labels, best first, by a search over prefixes, frame by frame
/// (Hannun et al., 2014, algorithm 1, without a language model): paths that differ only in how they
/// stretch the labels are added up. With a beam large enough for all prefixes it is exact. Throws
/// unless 1 <= best <= beam, and on logits that are NaN.
std::vector<std::vector<CtcHypothesis>> ctc_search(const Tensor& logits, const Tensor& mask,
                                                   const CtcSearchOptions& options = {});

}  // namespace attune::models
