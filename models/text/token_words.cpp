#include <algorithm>
#include <iterator>
#include <optional>

#include <attune/models/text/token_words.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::text {
namespace {

bool is_blank(const std::string& point) { return point == "\u2581" || words(point).empty(); }

/// Code points but for blanks, and for ▁, which is one to sentencepiece.
std::vector<std::string> letters(std::string_view text) {
  std::vector<std::string> found = code_points(text);
  std::erase_if(found, is_blank);
  return found;
}

std::vector<std::string> letters(std::span<const std::string> texts) {
  std::vector<std::string> all;
  for (const std::string& text : texts) std::ranges::move(letters(text), std::back_inserter(all));
  return all;
}

/// Of ASCII's letters exactly; of any others it is not known here which are a pair.
bool differ_in_case_at_most(const std::string& a, const std::string& b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return a == b || (a.size() > 1 && b.size() > 1) ||
         (lower(a[0]) == lower(b[0]) && a.size() == b.size());
}

/// For tokens that have the same letters as the line: the word of each letter is known.
std::vector<int> by_letters(std::string_view line, std::span<const std::string> tokens) {
  std::vector<int> word_of_letter;
  int word = 0;
  for (std::string_view text : words(line)) {
    word_of_letter.insert(word_of_letter.end(), letters(text).size(), word++);
  }
  std::vector<int> result;
  std::size_t read = 0;
  for (const std::string& token : tokens) {
    const std::size_t count = letters(token).size();
    result.push_back(count > 0 ? word_of_letter[read] : -1);
    read += count;
  }
  return result;
}

/// For pieces whose letters differ from the line's: words are counted by the blanks between them.
/// Nothing when the pieces have not as many words as the line, or do not begin with ▁, as those of
/// sentencepiece do.
std::optional<std::vector<int>> by_blanks(std::string_view line,
                                          std::span<const std::string> tokens) {
  if (tokens.empty() || !tokens.front().starts_with("\u2581")) return std::nullopt;
  std::vector<int> result;
  int word = -1;
  bool blank = true;
  for (const std::string& token : tokens) {
    int first = -1;
    for (const std::string& point : code_points(token)) {
      if (!is_blank(point)) {
        word += blank;
        if (first < 0) first = word;
      }
      blank = is_blank(point);
    }
    result.push_back(first);
  }
  if (word + 1 != std::ssize(words(line))) return std::nullopt;
  return result;
}

}  // namespace

std::vector<int> words_of_tokens(std::string_view line, std::span<const std::string> tokens) {
  const std::vector<std::string> read = letters(line), cut = letters(tokens);
  if (read == cut) return by_letters(line, tokens);
  if (auto found = by_blanks(line, tokens)) return *found;
  if (std::ranges::equal(read, cut, differ_in_case_at_most)) return by_letters(line, tokens);
  fail("words_of_tokens", "the tokens are not those of the line");
}

}  // namespace attune::text
