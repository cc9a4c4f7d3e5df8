// Arbitrary bytes as text: UTF-8 validation, code points, words, tokens, escaping.
#include <numeric>

#include <attune/models/text/heatmap.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/models/text/utf8.hpp>

#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;

/// Bytes of the first code point; 0 if ill-formed (The Unicode Standard, table 3-7).
std::size_t well_formed(std::string_view text) {
  const auto in = [&](std::size_t i, int low, int high) {
    return i < text.size() && static_cast<unsigned char>(text[i]) >= low &&
           static_cast<unsigned char>(text[i]) <= high;
  };
  if (in(0, 0, 0x7F)) return 1;
  if (in(0, 0xC2, 0xDF)) return in(1, 0x80, 0xBF) ? 2 : 0;
  const int low = in(0, 0xE0, 0xE0) ? 0xA0 : in(0, 0xF0, 0xF0) ? 0x90 : 0x80;
  const int high = in(0, 0xED, 0xED) ? 0x9F : in(0, 0xF4, 0xF4) ? 0x8F : 0xBF;
  if (!in(1, low, high) || !in(2, 0x80, 0xBF)) return 0;
  if (in(0, 0xE0, 0xEF)) return 3;
  return in(0, 0xF0, 0xF4) && in(3, 0x80, 0xBF) ? 4 : 0;
}

std::optional<std::size_t> first_bad_byte(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = well_formed(text.substr(at));
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::nullopt;
}

void check_words(std::string_view line) {
  const char* end = line.data();
  for (const std::string_view word : text::words(line)) {
    expect(!word.empty() && word.data() >= end, "words: empty or out of order");
    expect(text::words(word).size() == 1, "words: a word contains a blank");
    end = word.data() + word.size();
  }
  expect(end <= line.data() + line.size(), "words: beyond the end of the line");
}

void check_tokens(std::string_view line, const text::Tokenizer& tokenizer) {
  const auto tokens = tokenizer.encode(line);
  expect(tokenizer.encode(tokenizer.decode(tokens)) == tokens, "tokens differ after decoding");
  const std::vector<int> words = text::words_of_tokens(line, tokens);
  expect(words.size() == tokens.size(), "words_of_tokens: wrong size");
  const int count = static_cast<int>(text::words(line).size());
  for (const int word : words) expect(word >= -1 && word < count, "words_of_tokens: out of range");
}

void check_shown(std::string_view text) {
  const std::string shown = report::escape(text);
  expect(!first_bad_byte(shown), "escape: not UTF-8");
  expect(shown.find_first_of("<>\"'") == shown.npos, "escape: contains markup");
  expect(!first_bad_byte(printable(text)), "printable: not UTF-8");
  expect(printable(printable(text)) == printable(text), "printable: not idempotent");
}

}  // namespace

void fuzz_one(std::string_view input) {
  const auto bad = first_bad_byte(input);
  expect(text::find_bad_byte(input) == bad, "find_bad_byte: wrong position");
  check_words(input);
  check_shown(input);
  const auto points = fuzz::accepted([&] { return text::code_points(input); });
  expect(points.has_value() == !bad, "code_points: wrong validation of UTF-8");
  if (!points) return;
  expect(std::accumulate(points->begin(), points->end(), std::string()) == input,
         "code_points: their concatenation is not the text");
  check_tokens(input, text::Characters{});
  check_tokens(input, text::Words{});
}
