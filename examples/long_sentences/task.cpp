#include "task.hpp"

#include <numeric>
#include <utility>

namespace attune::long_sentences {

constexpr std::int32_t first_word = 4;  // after <pad>, <s>, </s> and <unk>

Task::Task(Index words, std::uint64_t seed) : words_(words) {
  Random random(seed, "dictionary");
  dictionary_ = draw(words, random);
  for (Index i = 0; i < words; ++i) classes_.push_back(static_cast<std::int32_t>(random.below(2)));
}

/// The beginning of a random permutation of all words (Fisher and Yates).
text::Sentence Task::draw(Index length, Random& random) const {
  text::Sentence words(static_cast<std::size_t>(words_));
  std::iota(words.begin(), words.end(), first_word);
  for (Index i = 0; i < length; ++i) std::swap(words[i], words[i + random.below(words_ - i)]);
  words.resize(static_cast<std::size_t>(length));
  return words;
}

text::Sentence Task::translate(const text::Sentence& source) const {
  text::Sentence target;
  std::int32_t form = 0;
  for (const std::int32_t word : source) {
    const auto w = static_cast<std::size_t>(word - first_word);
    target.push_back(first_word + 2 * (dictionary_[w] - first_word) + form);
    form = classes_[w];
  }
  return target;
}

std::vector<text::Pair> Task::pairs(Index length, Index count, Random& random) const {
  std::vector<text::Pair> pairs;
  for (Index i = 0; i < count; ++i) {
    text::Sentence source = draw(length, random);
    pairs.push_back({source, translate(source)});
  }
  return pairs;
}

}  // namespace attune::long_sentences
