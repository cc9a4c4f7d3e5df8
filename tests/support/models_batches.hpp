// Small batches of random sentences.
#pragma once

#include <vector>

#include <attune/models/text/batches.hpp>
#include <attune/tensor/random.hpp>

namespace attune::test {

/// Sentences of these lengths, with tokens drawn from [lowest, vocabulary).
inline std::vector<text::Sentence> random_sentences(const std::vector<Index>& lengths,
                                                    Index vocabulary, std::uint64_t seed,
                                                    Index lowest = 3) {
  Random random(seed);
  std::vector<text::Sentence> sentences;
  for (Index length : lengths) {
    text::Sentence& sentence = sentences.emplace_back();
    for (Index i = 0; i < length; ++i) {
      sentence.push_back(static_cast<std::int32_t>(lowest + random.below(vocabulary - lowest)));
    }
  }
  return sentences;
}

/// Pairs of different lengths: the longest source does not belong to the longest target.
inline std::vector<text::Pair> ragged_pairs(Index source_vocabulary, Index target_vocabulary,
                                            std::uint64_t seed) {
  const auto sources = random_sentences({2, 4, 1}, source_vocabulary, seed);
  const auto targets = random_sentences({3, 0, 1}, target_vocabulary, seed + 1);
  std::vector<text::Pair> pairs;
  for (std::size_t i = 0; i < sources.size(); ++i) pairs.push_back({sources[i], targets[i]});
  return pairs;
}

}  // namespace attune::test
