// Counting n-grams, for BLEU and chrF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace attune::metrics {

/// A text as units (words, characters), of which n-grams are made.
class Units {
 public:
  /// Words get a blank between them: they have none inside, so no two n-grams are spelt alike.
  static Units of_words(std::span<const std::string_view> words);
  /// Code points, without blanks. Throws when the text is not UTF-8.
  static Units of_characters(std::string_view text);

  std::size_t size() const { return units_.size(); }
  /// The n-gram that starts with unit i.
  std::string_view ngram(std::size_t i, std::size_t n) const {
    const std::size_t begin = units_[i].begin;
    return std::string_view(text_).substr(begin, units_[i + n - 1].end - begin);
  }

 private:
  struct Range {
    std::size_t begin, end;
  };
  void add(std::string_view unit);

  std::string text_;
  std::vector<Range> units_;
};

/// How often each n-gram occurs: views into the units, which must stay where they are.
using NgramCounts = std::unordered_map<std::string_view, std::int64_t>;
NgramCounts count_ngrams(const Units& units, std::size_t n);
/// How many there are: 0 when the text is shorter than n.
std::int64_t ngrams_in(const Units& units, std::size_t n);

/// Those that are in both, each as often as where it is rarer.
std::int64_t count_matches(const NgramCounts& a, const NgramCounts& b);

/// The references of a sentence, without empty ones, which stand for none. Throws when that leaves
/// none.
std::vector<std::string_view> given(const char* operation, std::span<const std::string> references);

/// Throws when there are not as many of one as of the other.
void check_as_many(const char* operation, std::size_t hypotheses, std::size_t references);

}  // namespace attune::metrics
