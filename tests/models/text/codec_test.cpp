#include <doctest/doctest.h>

#include <attune/models/text/codec.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

#include "support/scratch_directory.hpp"

namespace {

using namespace attune;
using namespace attune::text;
using Tokens = std::vector<std::string>;

Tokens tokens_of(const Vocabulary& vocabulary) {
  return {vocabulary.tokens().begin(), vocabulary.tokens().end()};
}

TEST_CASE("make_vocabulary: the most frequent tokens first, then by code points") {
  TokenCounts counts;
  count_tokens(counts, Tokens{"b", "a", "é", "z", "日", "b"});
  count_tokens(counts, Tokens{"a", "c", "🙂", "b"});
  CHECK(tokens_of(make_vocabulary(counts)) == Tokens{"b", "a", "c", "z", "é", "日", "🙂"});
}

TEST_CASE("make_vocabulary: rare tokens and those beyond the maximum are left out") {
  TokenCounts counts = {{"a", 5}, {"b", 3}, {"c", 3}, {"d", 1}};
  CHECK(tokens_of(make_vocabulary(counts, {.minimum_count = 2})) == Tokens{"a", "b", "c"});
  CHECK(tokens_of(make_vocabulary(counts, {.maximum_size = 6})) == Tokens{"a", "b"});
  CHECK(make_vocabulary(counts, {.maximum_size = 100}).size() == 8);
  CHECK(make_vocabulary({}).size() == 4);
  CHECK_THROWS_WITH_AS(make_vocabulary(counts, {.maximum_size = 4}),
                       "vocabulary: a size of at most 4 has no room beside the 4 special tokens",
                       Error);
}

TEST_CASE("make_vocabulary: words that are spelt like special tokens are left out") {
  CHECK(tokens_of(make_vocabulary({{"<s>", 9}, {"<unk>", 8}, {"<pad>", 7}, {"a", 1}})) ==
        Tokens{"a"});
}

struct File {
  ScratchDirectory directory;
  std::filesystem::path path = directory / "vocab";
  explicit File(const std::string& contents) { write_file(path, contents); }
};

TEST_CASE("read_vocabulary: a token on each line, special ones at the top") {
  CHECK(tokens_of(read_vocabulary(File("<unk>\n<s>\r\n</s>\n.\nthe\n \n日").path)) ==
        Tokens{".", "the", " ", "日"});
  CHECK(tokens_of(read_vocabulary(File("b\na\n").path)) == Tokens{"b", "a"});
  CHECK(read_vocabulary(File("").path).size() == 4);
}

TEST_CASE("read_vocabulary: an empty line, a token twice, a special one too late are errors") {
  const auto message = [](const std::string& contents) {
    const File file(contents);
    try {
      read_vocabulary(file.path);
    } catch (const Error& error) {
      return std::string(error.what()).substr(file.path.string().size());
    }
    return std::string("no error");
  };
  CHECK(message("a\n\nb\n") == ":2: an empty line, expected a token");
  CHECK(message("a\nb\na\n") == ":3: 'a' stands in line 1 already, expected each token once");
  CHECK(message("<s>\n<s>\n") == ":2: '<s>' stands in line 1 already, expected each token once");
  CHECK(message("a\n<unk>\n") == ":2: '<unk>' after other tokens, expected it at the top");
  CHECK(message("\xFF") == ":1: byte 1 of the line (0xFF) is not UTF-8, expected text in UTF-8");
}

TEST_CASE("Codec: a line becomes numbers, and numbers the line") {
  const Codec codec{.tokenizer = {}, .vocabulary = Vocabulary(Tokens{"ein", "mann"})};
  CHECK(codec.encode("ein mann  läuft") == Sentence{4, 5, Vocabulary::unknown});
  CHECK(codec.decode(Sentence{4, 5}) == "ein mann");
  CHECK(codec.encode("").empty());
}

TEST_CASE("Codec: a text cannot end, begin or pad a sentence") {
  const Codec codec{.tokenizer = {}, .vocabulary = Vocabulary(Tokens{"a"})};
  CHECK(codec.encode("a </s> <s> <pad> <unk> a") == Sentence{4, 3, 3, 3, 3, 4});
}

TEST_CASE("Codec: what is read ends at </s>, without <s> and padding") {
  const Codec codec{.tokenizer = Characters{}, .vocabulary = Vocabulary(Tokens{"a", "b"})};
  CHECK(codec.decode(Sentence{1, 4, 5, 0, 4, 2, 5, 5}) == "aba");
  CHECK(codec.decode(Sentence{2}).empty());
  CHECK_THROWS_WITH_AS(codec.decode(Sentence{6}), "vocabulary: there is no token 6 among 6", Error);
}

TEST_CASE("Codec: pieces of both languages share a model and have vocabularies of their own" *
          doctest::skip(!has_sentencepiece())) {
  const Tokens german = {"das alte haus", "das neue haus", "ein altes haus"};
  const Tokens english = {"the old house", "the new house", "an old house"};
  Tokens both = german;
  both.insert(both.end(), english.begin(), english.end());
  const Tokenizer pieces = SentencePiece::train(both, {.pieces = 40});
  TokenCounts counts;
  for (const std::string& line : english) count_tokens(counts, pieces.encode(line));
  const Codec codec{.tokenizer = pieces, .vocabulary = make_vocabulary(counts)};
  for (const std::string& line : english) CHECK(codec.decode(codec.encode(line)) == line);
  CHECK(codec.vocabulary.size() == static_cast<std::int64_t>(counts.size()) + 4);
}

}  // namespace
