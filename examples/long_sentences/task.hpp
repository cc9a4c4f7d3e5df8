// The task that all models learn.
#pragma once

#include <vector>

#include <attune/models/any_model.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/tensor/random.hpp>

namespace attune::long_sentences {

/// A random language of `words` words, each of one of two classes, and its translation: word w of
/// the source becomes form k of the word that the dictionary has for w, where k is the class of the
/// word before (0 for the first word). The seed decides dictionary and classes. No word occurs twice
/// in a sentence, so each word determines the position of the next one, and a sentence of 60 out of
/// 80 words carries 334 bits.
class Task {
 public:
  Task(Index words, std::uint64_t seed);

  /// With the four special tokens; each word of the target has two forms.
  models::Vocabularies vocabularies() const { return {4 + words_, 4 + 2 * words_}; }

  text::Sentence draw(Index length, Random& random) const;
  text::Sentence translate(const text::Sentence& source) const;

  /// `count` sentences of one length with their translations.
  std::vector<text::Pair> pairs(Index length, Index count, Random& random) const;

 private:
  Index words_;
  text::Sentence dictionary_;          // a permutation of the words
  std::vector<std::int32_t> classes_;  // 0 or 1, of each word of the source
};

}  // namespace attune::long_sentences
