#include <doctest/doctest.h>

#include <attune/models/text/tokenizer.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/random.hpp>

#include "support/scratch_directory.hpp"

namespace {

using namespace attune;
using namespace attune::text;
using Tokens = std::vector<std::string>;

TEST_CASE("words: stand between blanks of any kind") {
  using Views = std::vector<std::string_view>;
  CHECK(words("  a b\t\tc\r\n") == Views{"a", "b", "c"});
  CHECK(words("a\u00A0b\u3000c\u2009d\u2028e\u0085f\x1Cg") ==
        Views{"a", "b", "c", "d", "e", "f", "g"});
  CHECK(words("zero\u200Bwidth") == Views{"zero\u200Bwidth"});
  CHECK(words("").empty());
  CHECK(words(" \u3000").empty());
}

TEST_CASE("find_bad_byte: the first byte of the first bad sequence") {
  CHECK_FALSE(find_bad_byte("äb🙂"));
  CHECK(find_bad_byte("äb\xF0\x9F") == 3);
  CHECK(find_bad_byte("\x80") == 0);
}

TEST_CASE("Tokenizer: words come back with single blanks") {
  const Tokenizer tokenizer;
  CHECK(tokenizer.encode(" ein  mann &apos;s ") == Tokens{"ein", "mann", "&apos;s"});
  CHECK(tokenizer.decode(Tokens{"ein", "mann"}) == "ein mann");
  CHECK(tokenizer.encode("  ").empty());
  CHECK(tokenizer.decode({}).empty());
}

TEST_CASE("Tokenizer: characters come back as they were") {
  const Tokenizer tokenizer = Characters{};
  CHECK(tokenizer.encode("a 日\u0301") == Tokens{"a", " ", "日", "\u0301"});
  CHECK(tokenizer.decode(tokenizer.encode("  a  日 ")) == "  a  日 ");
}

TEST_CASE("Tokenizer: JSON gives the same one back") {
  CHECK(to_json(Tokenizer()) == R"({"kind":"words"})");
  CHECK(tokenizer_from_json(to_json(Tokenizer())).encode("ab c") == Tokens{"ab", "c"});
  CHECK(tokenizer_from_json(to_json(Characters{})).encode("ab") == Tokens{"a", "b"});
}

TEST_CASE("Tokenizer: a rewriter before and behind it, and in its JSON") {
  struct Reversed : Rewriter {
    std::string encode(std::string_view line) const override {
      return {line.rbegin(), line.rend()};
    }
    std::string decode(std::string_view line) const override { return encode(line); }
    std::string json() const override { return "reversed"; }
  };
  const auto rewriter = [](std::string_view json) {
    CHECK(json == "reversed");
    return std::make_shared<const Reversed>();
  };
  const Tokenizer tokenizer = Tokenizer().with(std::make_shared<const Reversed>());
  for (const Tokenizer& one : {tokenizer, tokenizer_from_json(to_json(tokenizer), rewriter)}) {
    CHECK(one.encode("ab c") == Tokens{"c", "ba"});
    CHECK(one.decode(Tokens{"c", "ba"}) == "ab c");
  }
  CHECK(to_json(tokenizer) == R"({"kind":"words","rewriter":"reversed"})");
  CHECK_THROWS_WITH_AS(tokenizer_from_json(to_json(tokenizer)),
                       "tokenizer: a rewriter is stored, but nothing makes it", Error);
}

TEST_CASE("Tokenizer: JSON of anything else is an error") {
  for (const char* json :
       {"", "{", "[]", "\"words\"", "{}", R"({"kind":1})", R"({"kind":"syllables"})",
        R"({"kind":"sentencepiece"})", R"({"kind":"sentencepiece","model":"0g"})",
        R"({"kind":"words","rewriter":{"words":["a"]}})"}) {
    INFO(json);
    CHECK_THROWS_WITH_AS(
        tokenizer_from_json(json),
        "tokenizer: words, characters or sentencepiece was expected, as to_json writes it", Error);
  }
}

// ---- sentencepiece ------------------------------------------------------------------------------

/// Lines of invented words from a few syllables.
Tokens invented_lines(int count) {
  const Tokens syllables = {"ka", "lö", "mi", "su", "te", "日", "&apos;", "n"};
  Random random(7);
  Tokens lines;
  for (int i = 0; i < count; ++i) {
    std::string line;
    for (int word = 0; word < 6; ++word) {
      if (word > 0) line += ' ';
      for (Index n = 1 + random.below(3); n > 0; --n)
        line += syllables[static_cast<std::size_t>(random.below(8))];
    }
    lines.push_back(line);
  }
  return lines;
}

TEST_CASE("SentencePiece: a build without the library says so" *
          doctest::skip(has_sentencepiece())) {
  const char* message =
      "sentencepiece: this attune is built without it: libsentencepiece-dev was not found";
  CHECK_THROWS_WITH_AS(SentencePiece::train(Tokens{"a"}), message, Error);
  CHECK_THROWS_WITH_AS(SentencePiece("x"), message, Error);
  CHECK_THROWS_WITH_AS(SentencePiece::load("x"), message, Error);
  CHECK_THROWS_WITH_AS(tokenizer_from_json(R"({"kind":"sentencepiece","model":"00"})"), message,
                       Error);
}

const bool absent = !has_sentencepiece();

TEST_CASE("SentencePiece: both kinds of model give back what they cut" * doctest::skip(absent)) {
  const Tokens lines = invented_lines(200);
  for (const PieceModel kind : {PieceModel::bpe, PieceModel::unigram}) {
    const auto model = SentencePiece::train(lines, {.model = kind, .pieces = 60});
    std::size_t pieces = 0, characters = 0;
    for (const std::string& line : lines) {
      const Tokens cut = model.encode(line);
      pieces += cut.size();
      characters += code_points(line).size();
      CHECK(model.decode(cut) == line);
    }
    CHECK(pieces < characters * 3 / 4);
  }
}

TEST_CASE("SentencePiece: identity leaves text as it is, but for blanks" * doctest::skip(absent)) {
  const auto model = SentencePiece::train(invented_lines(50), {.pieces = 40});
  for (const std::string line : {"&apos;s &quot; &amp;", "ﬁ Ａ １ \u00A0 e\u0301 é",
                                 "unseen: 🙂 ☃☃ 猫", "</s> <s> <unk> <pad>", "tab\there"}) {
    CHECK(model.decode(model.encode(line)) == line);
  }
  CHECK(model.decode(model.encode("  ka   mi ")) == "ka mi");
  CHECK(model.encode("").empty());
  CHECK(model.encode(" ").empty());
  CHECK(model.decode({}).empty());
  CHECK(model.decode(Tokens{"▁", "☃", "<unk>", "ka"}) == "☃ ⁇ ka");
  CHECK(model.decode(model.encode("ka▁mi")) == "ka mi");
}

TEST_CASE("SentencePiece: normalisation is an option" * doctest::skip(absent)) {
  const auto model =
      SentencePiece::train(Tokens{"Ａb ﬁ", "Ab fi"}, {.pieces = 20, .normalization = "nfkc"});
  CHECK(model.decode(model.encode("Ａb ﬁ")) == "Ab fi");
  CHECK_THROWS_AS(SentencePiece::train(Tokens{"a"}, {.normalization = "no such rule"}), Error);
}

TEST_CASE("SentencePiece: the same lines give the same bytes, and bytes the same model" *
          doctest::skip(absent)) {
  const Tokens lines = invented_lines(100);
  for (const PieceModel kind : {PieceModel::bpe, PieceModel::unigram}) {
    const SentencePieceOptions options = {.model = kind, .pieces = 50};
    const auto model = SentencePiece::train(lines, options);
    CHECK(model.bytes() == SentencePiece::train(lines, options).bytes());
    const SentencePiece loaded(model.bytes());
    CHECK(loaded.encode(lines[3]) == model.encode(lines[3]));
    CHECK(loaded.bytes() == model.bytes());
  }
}

TEST_CASE("SentencePiece: a Tokenizer in a checkpoint carries its model" * doctest::skip(absent)) {
  const Tokens lines = invented_lines(100);
  const Tokenizer tokenizer = SentencePiece::train(lines, {.pieces = 50});
  const Tokenizer back = tokenizer_from_json(to_json(tokenizer));
  CHECK(back.encode(lines[0]) == tokenizer.encode(lines[0]));
  CHECK(back.decode(back.encode(lines[0])) == lines[0]);
}

TEST_CASE("SentencePiece: a small text has fewer pieces than asked for" * doctest::skip(absent)) {
  for (const PieceModel kind : {PieceModel::bpe, PieceModel::unigram}) {
    const auto model = SentencePiece::train(Tokens{"a b"}, {.model = kind, .pieces = 8000});
    CHECK(model.decode(model.encode("a b")) == "a b");
  }
}

TEST_CASE("SentencePiece: long lines are trained on, and cut" * doctest::skip(absent)) {
  std::string line;
  for (int i = 0; i < 100'000; ++i) line += i % 3 == 0 ? "tick " : "tock ";
  const auto model = SentencePiece::train(Tokens{line}, {.pieces = 30});
  CHECK(model.encode(line).size() == 100'000);
}

TEST_CASE("SentencePiece: what is not a model is an error" * doctest::skip(absent)) {
  const std::string model = SentencePiece::train(Tokens{"a b"}).bytes();
  for (const std::string& bytes :
       {std::string(), std::string("just text\n"), model.substr(0, model.size() / 2)}) {
    CHECK_THROWS_WITH_AS(SentencePiece{bytes},
                         "sentencepiece: a model of sentencepiece was expected", Error);
  }
  const ScratchDirectory directory;
  const std::filesystem::path path = directory / "pieces.model";
  write_file(path, "just text\n");
  CHECK_THROWS_WITH_AS(SentencePiece::load(path),
                       (path.string() + ": a model of sentencepiece was expected").c_str(), Error);
  CHECK_THROWS_AS(SentencePiece::load(directory / "missing"), Error);
  write_file(path, model);
  CHECK(SentencePiece::load(path).bytes() == model);
}

TEST_CASE("SentencePiece: a table of characters that leads out of itself is an error" *
          doctest::skip(absent)) {
  const std::filesystem::path models = ATTUNE_SOURCE "/tests/fuzz/corpus/sentencepiece";
  CHECK(SentencePiece::load(models / "characters").encode("\ufb01").back() == "fi");
  for (const char* name :
       {"characters-trie", "characters-text", "characters-size", "characters-end"})
    CHECK_THROWS_AS(SentencePiece::load(models / name), Error);
  const Tokens lines = invented_lines(100);
  for (const char* rule : {"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"})
    CHECK_NOTHROW(SentencePiece::train(lines, {.pieces = 50, .normalization = rule}));
}

TEST_CASE("SentencePiece: training needs text, UTF-8 and room for its characters" *
          doctest::skip(absent)) {
  CHECK_THROWS_WITH_AS(SentencePiece::train({}), "sentencepiece: there is no text to train on",
                       Error);
  CHECK_THROWS_WITH_AS(SentencePiece::train(Tokens{"", " "}),
                       "sentencepiece: there is no text to train on", Error);
  CHECK_THROWS_WITH_AS(SentencePiece::train(Tokens{"a\xFF"}), "sentencepiece: byte 2 is not UTF-8",
                       Error);
  CHECK_THROWS_WITH_AS(SentencePiece::train(Tokens{"a"}, {.pieces = 0}),
                       "sentencepiece: 0 is not a number of pieces", Error);
  CHECK_THROWS_WITH_AS(SentencePiece::train(Tokens{"a"}, {.coverage = 0.5}),
                       "sentencepiece: a coverage of 0.5, expected one from 0.98 to 1", Error);
  const std::string alphabet = "abcdefghijklmnopqrstuvwxyz";
  CHECK_THROWS_WITH_AS(SentencePiece::train(Tokens{alphabet}, {.pieces = 20}),
                       doctest::Contains("sentencepiece: Vocabulary size is smaller"), Error);
  CHECK_THROWS_WITH_AS(SentencePiece::train(Tokens{"a"}).encode("\xFF"),
                       "sentencepiece: byte 1 is not UTF-8", Error);
}

}  // namespace
