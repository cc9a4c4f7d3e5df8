#include "support/unexpected.hpp"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <utility>

namespace attune {
namespace {

/// How many letters are put in, left out, exchanged or swapped to make b of a (Damerau, 1964).
std::size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, row);
  }
  return last.back();
}

/// The parts between hyphens.
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> words;
  std::istringstream parts(name);
  for (std::string word; std::getline(parts, word, '-');)
    if (!word.empty()) words.push_back(word);
  return words;
}

bool share_a_word(const std::string& a, const std::string& b) {
  const std::vector<std::string> words = words_of(b);
  return std::ranges::any_of(words_of(a), [&](const std::string& word) {
    return std::ranges::find(words, word) != words.end();
  });
}

}  // namespace

std::optional<std::string> nearest_name(const std::string& given,
                                        const std::vector<std::string>& names) {
  std::optional<std::string> nearest;
  std::size_t fewest = 0;
  for (const std::string& name : names) {
    const std::size_t n = edits(given, name);
    const bool near = n <= std::max<std::size_t>(1, given.size() / 3) || share_a_word(given, name);
    if (near && (!nearest || n < fewest)) nearest = name, fewest = n;
  }
  return nearest;
}

}  // namespace attune
