#include <algorithm>

#include <fmt/format.h>

#include <attune/models/metrics/ngrams.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::metrics {

void Units::add(std::string_view unit) {
  const std::size_t begin = text_.size();
  text_ += unit;
  units_.push_back({begin, text_.size()});
}

Units Units::of_words(std::span<const std::string_view> words) {
  Units units;
  for (const std::string_view word : words) {
    units.add(word);
    units.text_ += ' ';
  }
  return units;
}

Units Units::of_characters(std::string_view text) {
  Units units;
  for (const std::string_view word : text::words(text)) {
    for (const std::string& point : text::code_points(word)) units.add(point);
  }
  return units;
}

NgramCounts count_ngrams(const Units& units, std::size_t n) {
  NgramCounts counts;
  for (std::size_t i = 0; i + n <= units.size(); ++i) ++counts[units.ngram(i, n)];
  return counts;
}

std::int64_t ngrams_in(const Units& units, std::size_t n) {
  return units.size() < n ? 0 : static_cast<std::int64_t>(units.size() - n + 1);
}

std::int64_t count_matches(const NgramCounts& a, const NgramCounts& b) {
  std::int64_t matches = 0;
  for (const auto& [ngram, count] : a) {
    if (const auto other = b.find(ngram); other != b.end())
      matches += std::min(count, other->second);
  }
  return matches;
}

std::vector<std::string_view> given(const char* operation,
                                    std::span<const std::string> references) {
  std::vector<std::string_view> found;
  for (const std::string& reference : references) {
    if (!reference.empty()) found.push_back(reference);
  }
  if (found.empty()) fail(operation, "a sentence has no reference");
  return found;
}

void check_as_many(const char* operation, std::size_t hypotheses, std::size_t references) {
  if (hypotheses != references) {
    fail(operation,
         fmt::format("{} hypotheses, but references of {} sentences", hypotheses, references));
  }
}

}  // namespace attune::metrics
