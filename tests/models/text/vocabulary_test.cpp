#include <doctest/doctest.h>

#include <attune/models/text/vocabulary.hpp>
#include <attune/tensor/check.hpp>

namespace {

using attune::Error;
using attune::text::Vocabulary;
using Tokens = std::vector<std::string>;

TEST_CASE("Vocabulary: the first four numbers are the special tokens") {
  const Vocabulary empty;
  REQUIRE(empty.size() == 4);
  CHECK(empty.token(Vocabulary::pad) == "<pad>");
  CHECK(empty.token(Vocabulary::begin) == "<s>");
  CHECK(empty.token(Vocabulary::end) == "</s>");
  CHECK(empty.token(Vocabulary::unknown) == "<unk>");
  CHECK(empty.token(0) == "<pad>");
  CHECK(empty.token(1) == "<s>");
  CHECK(empty.token(2) == "</s>");
  CHECK(empty.token(3) == "<unk>");
  CHECK(empty.id("</s>") == 2);
  CHECK(empty.tokens().empty());
}

TEST_CASE("Vocabulary: tokens are numbered from 4 on, in their order") {
  const Tokens tokens = {"b", "a", "ü"};
  const Vocabulary vocabulary(tokens);
  CHECK(vocabulary.size() == 7);
  CHECK(vocabulary.id("b") == 4);
  CHECK(vocabulary.id("a") == 5);
  CHECK(vocabulary.id("ü") == 6);
  CHECK(vocabulary.token(5) == "a");
  CHECK(Tokens(vocabulary.tokens().begin(), vocabulary.tokens().end()) == tokens);
}

TEST_CASE("Vocabulary: an unknown token is <unk>") {
  const Vocabulary vocabulary(Tokens{"a"});
  CHECK(vocabulary.id("A") == Vocabulary::unknown);
  CHECK(vocabulary.id("") == Vocabulary::unknown);
  CHECK(vocabulary.encode(Tokens{"a", "x", "a", "<s>"}) == std::vector<std::int32_t>{4, 3, 4, 1});
}

TEST_CASE("Vocabulary: a number that is not there is an error") {
  const Vocabulary vocabulary(Tokens{"a"});
  CHECK_THROWS_WITH_AS(vocabulary.token(5), "vocabulary: there is no token 5 among 5", Error);
  CHECK_THROWS_WITH_AS(vocabulary.token(-1), "vocabulary: there is no token -1 among 5", Error);
}

TEST_CASE("Vocabulary: a token that occurs twice is an error, also when it is a special one") {
  CHECK_THROWS_WITH_AS(Vocabulary(Tokens{"a", "b", "a"}), "vocabulary: 'a' occurs twice", Error);
  CHECK_THROWS_WITH_AS(Vocabulary(Tokens{"<s>"}), "vocabulary: '<s>' occurs twice", Error);
}

TEST_CASE("Vocabulary: JSON gives the same tokens back") {
  const Tokens tokens = {"a",   "\"", "\\", "\n", "年", "🙂", "e\u0301", std::string("\0", 1),
                         "</b>"};
  const Vocabulary back = attune::text::vocabulary_from_json(to_json(Vocabulary(tokens)));
  CHECK(Tokens(back.tokens().begin(), back.tokens().end()) == tokens);
  CHECK(back.id("年") == 8);
}

TEST_CASE("Vocabulary: JSON is an array of the tokens alone") {
  CHECK(to_json(Vocabulary()) == "[]");
  CHECK(to_json(Vocabulary(Tokens{"a", "年"})) == R"(["a","年"])");
  const Vocabulary read = attune::text::vocabulary_from_json(R"( ["\u5e74", "b"] )");
  CHECK(read.id("年") == 4);
  CHECK(read.id("b") == 5);
}

TEST_CASE("Vocabulary: JSON that is no array of tokens is an error") {
  for (const char* json : {"", "[", "{\"a\": 1}", "{\"a\": \"b\"}", "[1, 2]", "[\"a\", null]",
                           "\"a\"", "null", "[\"a\"] x", "[\"\xff\"]", "[[\"a\"]]"}) {
    INFO(json);
    CHECK_THROWS_WITH_AS(attune::text::vocabulary_from_json(json),
                         "vocabulary: a JSON array of tokens was expected", Error);
  }
  CHECK_THROWS_WITH_AS(attune::text::vocabulary_from_json(R"(["a","a"])"),
                       "vocabulary: 'a' occurs twice", Error);
}

TEST_CASE("Vocabulary: a token that is not UTF-8 cannot become JSON") {
  CHECK_THROWS_AS(to_json(Vocabulary(Tokens{"\xff"})), Error);
}

}  // namespace
