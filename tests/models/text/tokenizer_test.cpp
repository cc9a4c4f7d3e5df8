#include <set>

#include <doctest/doctest.h>

#include <attune/models/text/tokenizer.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/random.hpp>

#include "support/errors.hpp"
#include "support/scratch_directory.hpp"

namespace {

using namespace attune;
using namespace attune::text;
using Tokens = std::vector<std::string>;

TEST_CASE("words: are separated by blanks of any kind") {
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

TEST_CASE("Tokenizer: words are joined with single blanks") {
  const Tokenizer tokenizer;
  CHECK(tokenizer.encode(" ein  mann &apos;s ") == Tokens{"ein", "mann", "&apos;s"});
  CHECK(tokenizer.decode(Tokens{"ein", "mann"}) == "ein mann");
  CHECK(tokenizer.encode("  ").empty());
  CHECK(tokenizer.decode({}).empty());
}

TEST_CASE("Tokenizer: characters are restored exactly") {
  const Tokenizer tokenizer = Characters{};
  CHECK(tokenizer.encode("a 日\u0301") == Tokens{"a", " ", "日", "\u0301"});
  CHECK(tokenizer.decode(tokenizer.encode("  a  日 ")) == "  a  日 ");
}

TEST_CASE("Tokenizer: JSON round trip") {
  CHECK(to_json(Tokenizer()) == R"({"kind":"words"})");
  CHECK(tokenizer_from_json(to_json(Tokenizer())).encode("ab c") == Tokens{"ab", "c"});
  CHECK(tokenizer_from_json(to_json(Characters{})).encode("ab") == Tokens{"a", "b"});
}

TEST_CASE("Tokenizer: a Rewriter in encode, decode and JSON") {
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
  CHECK_ERROR("tokenizer: a Rewriter is stored, but no RewriterFromJson was given",
              tokenizer_from_json(to_json(tokenizer)));
}

TEST_CASE("Tokenizer: other JSON is an error") {
  for (const char* json :
       {"", "{", "[]", "\"words\"", "{}", R"({"kind":1})", R"({"kind":"syllables"})",
        R"({"kind":"sentencepiece"})", R"({"kind":"sentencepiece","model":"0g"})",
        R"({"kind":"words","rewriter":{"words":["a"]}})"}) {
    INFO(json);
    CHECK_ERROR("tokenizer: words, characters or sentencepiece was expected, as to_json writes it",
                tokenizer_from_json(json));
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

TEST_CASE("SentencePiece: a build without the library throws" *
          doctest::skip(has_sentencepiece())) {
  const char* message =
      "sentencepiece: attune was built without it: libsentencepiece-dev was not found";
  CHECK_ERROR(message, SentencePiece::train(Tokens{"a"}));
  CHECK_ERROR(message, SentencePiece("x"));
  CHECK_ERROR(message, tokenizer_from_json(R"({"kind":"sentencepiece","model":"00"})"));
}

const bool absent = !has_sentencepiece();

TEST_CASE("SentencePiece: both kinds of model restore the text" * doctest::skip(absent)) {
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

TEST_CASE("SentencePiece: identity changes only blanks" * doctest::skip(absent)) {
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

TEST_CASE("SentencePiece: the same lines give the same bytes, and bytes or JSON the same model" *
          doctest::skip(absent)) {
  const Tokens lines = invented_lines(100);
  for (const PieceModel kind : {PieceModel::bpe, PieceModel::unigram}) {
    const SentencePieceOptions options = {.model = kind, .pieces = 50};
    const auto model = SentencePiece::train(lines, options);
    CHECK(model.bytes() == SentencePiece::train(lines, options).bytes());
    const SentencePiece loaded(model.bytes());
    CHECK(loaded.encode(lines[3]) == model.encode(lines[3]));
    CHECK(loaded.bytes() == model.bytes());
    const Tokenizer stored = tokenizer_from_json(to_json(Tokenizer(model)));
    CHECK(stored.encode(lines[3]) == model.encode(lines[3]));
    CHECK(stored.decode(stored.encode(lines[0])) == lines[0]);
  }
}

TEST_CASE("SentencePiece: a small text has fewer pieces than asked for" * doctest::skip(absent)) {
  for (const PieceModel kind : {PieceModel::bpe, PieceModel::unigram}) {
    const auto model = SentencePiece::train(Tokens{"a b"}, {.model = kind, .pieces = 8000});
    CHECK(model.decode(model.encode("a b")) == "a b");
  }
}

TEST_CASE("SentencePiece: least_pieces is the smallest number that train accepts" *
          doctest::skip(absent)) {
  for (const Tokens& lines : {Tokens{"abc ab", "", " c  d "}, Tokens{"a", "only ▅ here"},
                              Tokens{"é ▁ \u00a0 日\t本 😀 \uFFFD\uFFFE"}}) {
    const auto least = SentencePiece::least_pieces(lines);
    for (const PieceModel kind : {PieceModel::bpe, PieceModel::unigram}) {
      CHECK_NOTHROW(SentencePiece::train(lines, {.model = kind, .pieces = least}));
      CHECK_THROWS_AS(SentencePiece::train(lines, {.model = kind, .pieces = least - 1}), Error);
    }
  }
}

TEST_CASE("SentencePiece: long lines in training and encoding" * doctest::skip(absent)) {
  std::string line;
  for (int i = 0; i < 100'000; ++i) line += i % 3 == 0 ? "tick " : "tock ";
  const auto model = SentencePiece::train(Tokens{line}, {.pieces = 30});
  CHECK(model.encode(line).size() == 100'000);
}

TEST_CASE("SentencePiece: an invalid model is an error" * doctest::skip(absent)) {
  const std::string model = SentencePiece::train(Tokens{"a b"}).bytes();
  for (const std::string& bytes :
       {std::string(), std::string("just text\n"), model.substr(0, model.size() / 2)}) {
    CHECK_ERROR("sentencepiece: a model of sentencepiece was expected", SentencePiece{bytes});
  }
  const ScratchDirectory directory;
  const std::filesystem::path path = directory / "pieces.model";
  write_file(path, "just text\n");
  CHECK_ERROR(path.string() + ": a model of sentencepiece was expected", SentencePiece::load(path));
  CHECK_THROWS_AS(SentencePiece::load(directory / "missing"), Error);
  write_file(path, model);
  CHECK(SentencePiece::load(path).bytes() == model);
}

TEST_CASE("SentencePiece: a character map with an invalid offset is an error" *
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

TEST_CASE("SentencePiece: training without text, UTF-8 or enough pieces is an error" *
          doctest::skip(absent)) {
  CHECK_ERROR("sentencepiece: the training text is empty", SentencePiece::train({}));
  CHECK_ERROR("sentencepiece: the training text is empty",
              SentencePiece::train(Tokens{"", " ", "▁"}));
  CHECK_ERROR("sentencepiece: byte 2 is not UTF-8", SentencePiece::train(Tokens{"a\xFF"}));
  CHECK_ERROR("sentencepiece: pieces = 0 is out of range",
              SentencePiece::train(Tokens{"a"}, {.pieces = 0}));
  const std::string alphabet = "abcdefghijklmnopqrstuvwxyz";
  CHECK_THROWS_WITH_AS(SentencePiece::train(Tokens{alphabet}, {.pieces = 20}),
                       doctest::Contains("sentencepiece: Vocabulary size is smaller"), Error);
  CHECK_ERROR("sentencepiece: byte 1 is not UTF-8",
              SentencePiece::train(Tokens{"a"}).encode("\xFF"));
}

Tokens tokens_of(const Vocabulary& vocabulary) {
  return {vocabulary.tokens().begin(), vocabulary.tokens().end()};
}

TEST_CASE("make_vocabulary: descending frequency, ties by code points") {
  TokenCounts counts;
  count_tokens(counts, Tokens{"b", "a", "é", "z", "日", "b"});
  count_tokens(counts, Tokens{"a", "c", "🙂", "b"});
  CHECK(tokens_of(make_vocabulary(counts)) == Tokens{"b", "a", "c", "z", "é", "日", "🙂"});
}

TEST_CASE("make_vocabulary: excludes rare tokens and those beyond the maximum") {
  TokenCounts counts = {{"a", 5}, {"b", 3}, {"c", 3}, {"d", 1}};
  CHECK(tokens_of(make_vocabulary(counts, {.minimum_count = 2})) == Tokens{"a", "b", "c"});
  CHECK(tokens_of(make_vocabulary(counts, {.maximum_size = 6})) == Tokens{"a", "b"});
  CHECK(make_vocabulary(counts, {.maximum_size = 100}).size() == 8);
  CHECK(make_vocabulary({}).size() == 4);
  CHECK_ERROR("vocabulary: maximum_size = 4 must exceed the number of special tokens, 4",
              make_vocabulary(counts, {.maximum_size = 4}));
}

TEST_CASE("make_vocabulary: excludes words that equal special tokens") {
  CHECK(tokens_of(make_vocabulary({{"<s>", 9}, {"<unk>", 8}, {"<pad>", 7}, {"a", 1}})) ==
        Tokens{"a"});
}

struct File {
  ScratchDirectory directory;
  std::filesystem::path path = directory / "vocab";
  explicit File(const std::string& contents) { write_file(path, contents); }
};

TEST_CASE("read_vocabulary: one token per line, special tokens first") {
  CHECK(tokens_of(read_vocabulary(File("<unk>\n<s>\r\n</s>\n.\nthe\n \n日").path)) ==
        Tokens{".", "the", " ", "日"});
  CHECK(tokens_of(read_vocabulary(File("b\na\n").path)) == Tokens{"b", "a"});
  CHECK(read_vocabulary(File("").path).size() == 4);
}

TEST_CASE("read_vocabulary: an empty line, a duplicate, a late special token are errors") {
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
  CHECK(message("a\nb\na\n") == ":3: 'a' is already in line 1, expected each token once");
  CHECK(message("<s>\n<s>\n") == ":2: '<s>' is already in line 1, expected each token once");
  CHECK(message("a\n<unk>\n") == ":2: '<unk>' after other tokens, expected it at the top");
  CHECK(message("\xFF") == ":1: byte 1 of the line (0xFF) is not UTF-8, expected text in UTF-8");
}

TEST_CASE("write_vocabulary: read_vocabulary restores the tokens; others are an error") {
  const File file("");
  const Tokens tokens = {"a", " ", "b\uFEFF"};
  write_vocabulary(file.path, Vocabulary(tokens));
  CHECK(tokens_of(read_vocabulary(file.path)) == tokens);
  for (const std::string& token :
       Tokens{"", "\uFEFF", "\uFEFFa", "a\tb", "a\n", "\r", "\xFF", std::string(1, '\0')})
    CHECK_ERROR(
        "write_vocabulary: token 4 is empty, not UTF-8, or has a TAB, line break, NUL or "
        "leading U+FEFF",
        write_vocabulary(file.path, Vocabulary(Tokens{token})));
}

TEST_CASE("Codec: encodes a line to ids, and decodes it") {
  const Codec codec{.tokenizer = {}, .vocabulary = Vocabulary(Tokens{"ein", "mann"})};
  CHECK(codec.encode("ein mann  läuft") == Sentence{4, 5, Vocabulary::unknown});
  CHECK(codec.decode(Sentence{4, 5}) == "ein mann");
  CHECK(codec.encode("").empty());
}

TEST_CASE("Codec: special tokens in a text become <unk>") {
  const Codec codec{.tokenizer = {}, .vocabulary = Vocabulary(Tokens{"a"})};
  CHECK(codec.encode("a </s> <s> <pad> <unk> a") == Sentence{4, 3, 3, 3, 3, 4});
}

TEST_CASE("Codec: decoding ends at </s>, without <s> and padding") {
  const Codec codec{.tokenizer = Characters{}, .vocabulary = Vocabulary(Tokens{"a", "b"})};
  CHECK(codec.decode(Sentence{1, 4, 5, 0, 4, 2, 5, 5}) == "aba");
  CHECK(codec.decode(Sentence{2}).empty());
  CHECK_ERROR("vocabulary: token id 6 is not in 0 to 5", codec.decode(Sentence{6}));
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

using Numbers = std::vector<int>;

TEST_CASE("words_of_tokens: words, and -1 for blanks") {
  const std::string line = " ein  mann\u3000\U0001F642\u0301 ";
  CHECK(words_of_tokens(line, Tokenizer().encode(line)) == Numbers{0, 1, 2});
  CHECK(words_of_tokens(line, Tokenizer(Characters{}).encode(line)) ==
        Numbers{-1, 0, 0, 0, -1, -1, 1, 1, 1, 1, -1, 2, 2, -1});
  CHECK(words_of_tokens("", {}).empty());
}

TEST_CASE("words_of_tokens: pieces with ▁ for a blank") {
  CHECK(words_of_tokens("eine dame", Tokens{"▁", "ei", "ne", "▁da", "m", "e"}) ==
        Numbers{-1, 0, 0, 1, 1, 1});
  // ▁ in the text itself is a blank for sentencepiece, but not here.
  CHECK(words_of_tokens("a▁b c", Tokens{"▁a", "▁b", "▁c"}) == Numbers{0, 0, 1});
}

TEST_CASE("words_of_tokens: pieces learnt from the text, and unknown characters") {
  if (!has_sentencepiece()) return;
  const Tokens lines = {"ein mann reitet ein pferd", "eine frau und ein mann"};
  for (const PieceModel model : {PieceModel::bpe, PieceModel::unigram}) {
    const Tokenizer tokenizer = SentencePiece::train(lines, {.model = model, .pieces = 24});
    for (const std::string line : {"ein pferd", " mann  \u3000reitet\u00A0x🙂 q"}) {
      const Tokens tokens = tokenizer.encode(line);
      const Numbers numbers = words_of_tokens(line, tokens);
      REQUIRE(numbers.size() == tokens.size());
      // The concatenated pieces of each word are the word.
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

TEST_CASE("words_of_tokens: normalised pieces with more or fewer letters than the line") {
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
  CHECK_ERROR(error, words_of_tokens("ab c", Tokens{"ab"}));
  CHECK_ERROR(error, words_of_tokens("ab", Tokens{"ab", "c"}));
  CHECK_ERROR(error, words_of_tokens("ab", Tokens{"ab", "c", ""}));
  CHECK_ERROR(error, words_of_tokens("ab", Tokens{"▁ab", "▁c"}));
  CHECK_ERROR(error, words_of_tokens("ab", Tokens{}));
}

TEST_CASE("Vocabulary: ids 0 to 3 are the special tokens") {
  const Vocabulary empty;
  REQUIRE(empty.size() == 4);
  const Tokens special = {"<pad>", "<s>", "</s>", "<unk>"};
  const std::int32_t ids[] = {Vocabulary::pad, Vocabulary::begin, Vocabulary::end,
                              Vocabulary::unknown};
  for (std::int32_t id = 0; id < 4; ++id) {
    CHECK(ids[id] == id);
    CHECK(empty.token(id) == special[static_cast<std::size_t>(id)]);
  }
  CHECK(empty.id("</s>") == 2);
  CHECK(empty.tokens().empty());
}

TEST_CASE("Vocabulary: tokens have the ids 4, 5, ... in order; others are <unk>") {
  const Tokens tokens = {"b", "a", "ü"};
  const Vocabulary vocabulary(tokens);
  CHECK(vocabulary.size() == 7);
  const Codec codec{{}, vocabulary};
  CHECK(codec.encode(Tokens{"b", "a", "ü", "A", "", "<s>"}) == Sentence{4, 5, 6, 3, 3, 3});
  CHECK(vocabulary.id("<s>") == Vocabulary::begin);
  CHECK(vocabulary.id("A") == Vocabulary::unknown);
  CHECK(vocabulary.token(5) == "a");
  CHECK(tokens_of(vocabulary) == tokens);
  CHECK_ERROR("vocabulary: token id 7 is not in 0 to 6", vocabulary.token(7));
  CHECK_ERROR("vocabulary: token id -1 is not in 0 to 6", vocabulary.token(-1));
}

TEST_CASE("Vocabulary: a duplicate is an error, also of a special token") {
  CHECK_ERROR("vocabulary: 'a' occurs twice", Vocabulary(Tokens{"a", "b", "a"}));
  CHECK_ERROR("vocabulary: '<s>' occurs twice", Vocabulary(Tokens{"<s>"}));
}

TEST_CASE("Vocabulary: JSON round trip") {
  const Tokens tokens = {"a",   "\"", "\\", "\n", "年", "🙂", "e\u0301", std::string("\0", 1),
                         "</b>"};
  CHECK(tokens_of(vocabulary_from_json(to_json(Vocabulary(tokens)))) == tokens);
}

TEST_CASE("Vocabulary: JSON is an array of the tokens alone") {
  CHECK(to_json(Vocabulary()) == "[]");
  CHECK(to_json(Vocabulary(Tokens{"a", "年"})) == R"(["a","年"])");
  CHECK(tokens_of(vocabulary_from_json(R"( ["\u5e74", "b"] )")) == Tokens{"年", "b"});
}

TEST_CASE("Vocabulary: other JSON is an error") {
  for (const char* json : {"", "[", "{\"a\": 1}", "{\"a\": \"b\"}", "[1, 2]", "[\"a\", null]",
                           "\"a\"", "null", "[\"a\"] x", "[\"\xff\"]", "[[\"a\"]]"}) {
    INFO(json);
    CHECK_ERROR("vocabulary: a JSON array of tokens was expected", vocabulary_from_json(json));
  }
  CHECK_ERROR("vocabulary: 'a' occurs twice", vocabulary_from_json(R"(["a","a"])"));
}

TEST_CASE("Vocabulary: to_json of invalid UTF-8 is an error") {
  CHECK_THROWS_AS(to_json(Vocabulary(Tokens{"\xff"})), Error);
}

TEST_CASE("SentencePiece: a word of 70,000 letters is an error, not an abort" *
          doctest::skip(!has_sentencepiece())) {
  const std::vector<std::string> lines = {"a b ab", "ab " + std::string(70'000, 'x')};
  CHECK_ERROR(
      "sentencepiece: line 2: a word of 70000 letters, expected at most 32000 to learn subwords "
      "from",
      SentencePiece::train(lines, {.pieces = 60}));
  CHECK_ERROR("pairs.tsv:7: a word of 32001 letters, expected at most 32000 to learn subwords from",
              SentencePiece::check_words(std::string(32'001, 'x'), "pairs.tsv:7"));
  const std::vector<std::string> longest = {"a b " + std::string(32'000, 'x')};
  const auto model = SentencePiece::train(longest, {.pieces = 20});
  CHECK(model.decode(model.encode(lines[1])) == lines[1]);
}

}  // namespace
