#include <attune/models/text/token_words.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::text {
namespace {

/// Code points but for blanks, and for ▁, which is one to sentencepiece.
std::vector<std::string> letters(std::string_view text) {
  std::vector<std::string> found = code_points(text);
  std::erase_if(found,
                [](const std::string& point) { return point == "\u2581" || words(point).empty(); });
  return found;
}

}  // namespace

std::vector<int> words_of_tokens(std::string_view line, std::span<const std::string> tokens) {
  std::vector<int> word_of_letter;
  int word = 0;
  for (std::string_view text : words(line)) {
    word_of_letter.insert(word_of_letter.end(), letters(text).size(), word++);
  }
  std::vector<int> result;
  std::size_t read = 0;
  for (const std::string& token : tokens) {
    const std::size_t first = read;
    read += letters(token).size();
    if (read > word_of_letter.size()) break;
    result.push_back(read > first ? word_of_letter[first] : -1);
  }
  if (read != word_of_letter.size())
    fail("words_of_tokens", "the tokens are not those of the line");
  return result;
}

}  // namespace attune::text
