// The translation task that all models learn.
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <attune/models/any_model.hpp>
#include <attune/models/search.hpp>
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
  Task(Index words, std::uint64_t seed) : words_(words) {
    Random random(seed, "dictionary");
    dictionary_ = draw(words, random);
    for (Index i = 0; i < words; ++i)
      classes_.push_back(static_cast<std::int32_t>(random.below(2)));
  }

  /// With the four special tokens; each word of the target has two forms.
  models::Vocabularies vocabularies() const {
    return {first_word + words_, first_word + 2 * words_};
  }

  /// The beginning of a random permutation of all words (Fisher and Yates).
  text::Sentence draw(Index length, Random& random) const {
    text::Sentence words(static_cast<std::size_t>(words_));
    std::iota(words.begin(), words.end(), first_word);
    for (Index i = 0; i < length; ++i) std::swap(words[i], words[i + random.below(words_ - i)]);
    words.resize(static_cast<std::size_t>(length));
    return words;
  }

  text::Sentence translate(const text::Sentence& source) const {
    text::Sentence target;
    std::int32_t form = 0;
    for (const std::int32_t word : source) {
      const auto w = static_cast<std::size_t>(word - first_word);
      target.push_back(first_word + 2 * (dictionary_[w] - first_word) + form);
      form = classes_[w];
    }
    return target;
  }

  /// `count` sentences of one length with their translations.
  std::vector<text::Pair> pairs(Index length, Index count, Random& random) const {
    std::vector<text::Pair> pairs;
    for (Index i = 0; i < count; ++i) {
      text::Sentence source = draw(length, random);
      pairs.push_back({source, translate(source)});
    }
    return pairs;
  }

 private:
  static constexpr std::int32_t first_word = 4;  // after <pad>, <s>, </s> and <unk>

  Index words_;
  text::Sentence dictionary_;          // a permutation of the words
  std::vector<std::int32_t> classes_;  // 0 or 1, of each word of the source
};

/// The share of target positions that greedy search gets right.
double accuracy(const models::WordModel auto& model, const std::vector<text::Pair>& pairs) {
  std::vector<text::Sentence> sources;
  for (const text::Pair& pair : pairs) sources.push_back(pair.source);
  const models::SearchOptions greedy{.max_length = std::ssize(sources.front()) + 5};
  const auto found = models::translate(model, sources, {.how = greedy});
  double sum = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const text::Sentence &written = found[i].front().words, &target = pairs[i].target;
    double right = 0;
    for (std::size_t t = 0; t < std::min(written.size(), target.size()); ++t)
      right += written[t] == target[t];
    sum += right / static_cast<double>(std::max(written.size(), target.size()));
  }
  return sum / static_cast<double>(pairs.size());
}

}  // namespace attune::long_sentences
