// The task: word by word through a dictionary, in a form that the word before decides.
#pragma once

#include <vector>

#include <attune/models/text/batches.hpp>
#include <attune/tensor/random.hpp>

namespace attune::long_sentences {

/// A language of `words` words, each of one of two classes, and its translation: word w of the
/// source becomes form k of the word that the dictionary has for w, where k is the class of the
/// word before (0 for the first). Dictionary and classes are drawn from the seed. No word
/// occurs twice in a sentence: a sentence of 60 out of 80 words holds 334 bits, and each word tells
/// the place of the word after it.
class Task {
 public:
  Task(Index words, std::uint64_t seed);

  /// With the four special tokens; each word of the target has two forms.
  Index source_vocabulary() const { return 4 + words(); }
  Index target_vocabulary() const { return 4 + 2 * words(); }

  /// Throws unless the length is from 1 to the number of words.
  text::Sentence draw(Index length, Random& random) const;
  text::Sentence translate(const text::Sentence& source) const;

  /// `count` sentences of one length, and what becomes of them.
  std::vector<text::Pair> pairs(Index length, Index count, Random& random) const;

 private:
  Index words() const { return static_cast<Index>(dictionary_.size()); }

  std::vector<std::int32_t> dictionary_;  // a permutation of 0 .. words - 1
  std::vector<std::int32_t> classes_;     // 0 or 1, of each word of the source
};

}  // namespace attune::long_sentences
