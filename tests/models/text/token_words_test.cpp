#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include <attune/models/text/token_words.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace {

using namespace attune;
using namespace attune::text;
using Tokens = std::vector<std::string>;
using Numbers = std::vector<int>;

TEST_CASE("words_of_tokens: words are themselves, blanks belong to none") {
  const std::string line = " ein  mann\u3000\U0001F642\u0301 ";
  CHECK(words_of_tokens(line, Tokenizer().encode(line)) == Numbers{0, 1, 2});
  CHECK(words_of_tokens(line, Tokenizer(Characters{}).encode(line)) ==
        Numbers{-1, 0, 0, 0, -1, -1, 1, 1, 1, 1, -1, 2, 2, -1});
  CHECK(words_of_tokens("", {}).empty());
}

TEST_CASE("words_of_tokens: pieces with ▁ for a blank") {
  CHECK(words_of_tokens("eine dame", Tokens{"▁", "ei", "ne", "▁da", "m", "e"}) ==
        Numbers{-1, 0, 0, 1, 1, 1});
  // ▁ in the text itself is a blank to sentencepiece, but not to us.
  CHECK(words_of_tokens("a▁b c", Tokens{"▁a", "▁b", "▁c"}) == Numbers{0, 0, 1});
}

TEST_CASE("words_of_tokens: any pieces that were learnt from the text, and new characters") {
  if (!has_sentencepiece()) return;
  const Tokens lines = {"ein mann reitet ein pferd", "eine frau und ein mann"};
  for (const PieceModel model : {PieceModel::bpe, PieceModel::unigram}) {
    const Tokenizer tokenizer = SentencePiece::train(lines, {.model = model, .pieces = 24});
    for (const std::string line : {"ein pferd", " mann  \u3000reitet\u00A0x🙂 q"}) {
      const Tokens tokens = tokenizer.encode(line);
      const Numbers numbers = words_of_tokens(line, tokens);
      REQUIRE(numbers.size() == tokens.size());
      // The pieces of each word, put together, are the word.
      const auto found = words(line);
      Tokens joined(found.size());
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        for (const std::string& point : code_points(tokens[i])) {
          if (point == "▁" || words(point).empty()) continue;
          joined.at(static_cast<std::size_t>(numbers[i])) += point;
        }
      }
      CHECK(joined == Tokens(found.begin(), found.end()));
    }
  }
}

TEST_CASE("words_of_tokens: pieces that are normalised, more or fewer letters than in the line") {
  CHECK(words_of_tokens("½ ﬁnds A", Tokens{"▁1", "⁄2", "▁fi", "nd", "s", "▁", "a"}) ==
        Numbers{0, 0, 1, 1, 1, -1, 2});
  CHECK(words_of_tokens("ﬁ e\u0301 x", Tokens{"▁fi", "▁é", "▁x"}) == Numbers{0, 1, 2});
  CHECK(words_of_tokens("ﬁ e\u0301", Tokens{"▁f", "i▁é"}) == Numbers{0, 0});
  if (!has_sentencepiece()) return;
  const Tokens lines = {"a ½ … x", "x ½ b …"};
  const Tokenizer tokenizer =
      SentencePiece::train(lines, {.pieces = 20, .normalization = "nmt_nfkc"});
  const Tokens tokens = tokenizer.encode("a ½ … x");
  Numbers numbers = words_of_tokens("a ½ … x", tokens);
  CHECK(numbers.size() == tokens.size());
  std::erase(numbers, -1);
  CHECK(std::is_sorted(numbers.begin(), numbers.end()));
  CHECK(std::set(numbers.begin(), numbers.end()) == std::set{0, 1, 2, 3});
}

TEST_CASE("words_of_tokens: tokens in another case") {
  CHECK(words_of_tokens("ΟΔΟΣ Ein", Tokens{"οδος", "ein"}) == Numbers{0, 1});
}

TEST_CASE("words_of_tokens: tokens of another line are an error") {
  const char* error = "words_of_tokens: the tokens are not those of the line";
  CHECK_THROWS_WITH_AS(words_of_tokens("ab c", Tokens{"ab"}), error, Error);
  CHECK_THROWS_WITH_AS(words_of_tokens("ab", Tokens{"ab", "c"}), error, Error);
  CHECK_THROWS_WITH_AS(words_of_tokens("ab", Tokens{"ab", "c", ""}), error, Error);
  CHECK_THROWS_WITH_AS(words_of_tokens("ab", Tokens{"▁ab", "▁c"}), error, Error);
  CHECK_THROWS_WITH_AS(words_of_tokens("ab", Tokens{}), error, Error);
}

}  // namespace
