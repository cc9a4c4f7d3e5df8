#include <doctest/doctest.h>

#include <attune/tensor/errors.hpp>
#include <attune/tensor/shape_check.hpp>

#include "support/naive.hpp"

namespace attune {

TEST_CASE("ShapeCheck: a letter has one extent, within a shape and across shapes") {
  ShapeCheck check("additive_scores");
  check("q", {32, 128}, "B A")("k", {7, 32, 128}, "S B A")("v", {128}, "A");
  CHECK(check['B'] == 32);
  CHECK(check['S'] == 7);
  CHECK(check['A'] == 128);
  CHECK_ERROR("additive_scores: k (S, B, A) is (7, 64, 128), but B = 32 in q",
              ShapeCheck("additive_scores")("q", {32, 128}, "B A")("k", {7, 64, 128}, "S B A"));
  ShapeCheck("square")("w", {3, 3}, "H H");
  CHECK_ERROR("square: w (H, H) is (3, 4), but H = 3 in w",
              ShapeCheck("square")("w", {3, 4}, "H H"));
  CHECK_ERROR("lstm: no shape with the letter Q was checked", ShapeCheck("lstm")['Q']);
}

TEST_CASE("ShapeCheck: a wrong number of axes is an error, unless \"...\" matches them") {
  CHECK_ERROR("lstm: h0 (B, H) is (3, 2, 5), but 2 axes were expected",
              ShapeCheck("lstm")("h0", {3, 2, 5}, "B H"));
  CHECK_ERROR("lstm: h0 (B) is (), but 1 axes were expected", ShapeCheck("lstm")("h0", {}, "B"));
  CHECK_ERROR("lstm: h0 is undefined", ShapeCheck("lstm")("h0", Tensor(), ""));
  ShapeCheck("scalar")("loss", scalar(1), "");
  ShapeCheck check("linear");
  check("w", {5, 4}, "K N");
  check("x", {3, 2, 5}, "... K");
  check("x", {5}, "... K");
  CHECK_ERROR("linear: x (..., K) is (3, 2, 7), but K = 5 in w", check("x", {3, 2, 7}, "... K"));
  CHECK_ERROR("linear: x (..., K, N) is (4), but at least 2 axes were expected",
              check("x", {4}, "... K N"));
}

TEST_CASE("ShapeCheck: a thirteenth letter is an error") {
  ShapeCheck check("op");
  check("x", {1, 2, 3, 4, 5, 6}, "A B C D E F")("y", {1, 2, 3, 4, 5, 6}, "G H I J K L");
  CHECK_ERROR("op: z (M) is (7), but more than 12 letters were checked", check("z", {7}, "M"));
}

TEST_CASE("ShapeCheck: a factor multiplies its letter, a number is an extent") {
  ShapeCheck check("lstm");
  check("xw", {5, 3, 8}, "T B 4H");
  CHECK(check['H'] == 2);
  check("w_h", {2, 8}, "H 4H");
  CHECK_ERROR("lstm: w_h (H, 4H) is (2, 6), but H = 2 in xw", check("w_h", {2, 6}, "H 4H"));
  CHECK_ERROR("lstm: xw (4H) is (9), but a multiple of 4 was expected",
              ShapeCheck("lstm")("xw", {9}, "4H"));
  ShapeCheck("pairs")("x", {3, 2}, "N 2");
  CHECK_ERROR("pairs: x (N, 2) is (3, 5), but 2 was expected",
              ShapeCheck("pairs")("x", {3, 5}, "N 2"));
}

TEST_CASE("Error: the message is one line that begins with the operation") {
  CHECK_ERROR("gather: id 7 at 2 is not in 0 to 5", fail("gather", "id 7 at 2 is not in 0 to 5"));
  CHECK_THROWS_AS(fail("a", "b"), std::runtime_error);
}

TEST_CASE("printable: letters of any script, symbols and backslashes are unchanged") {
  for (const char* text : {"", "W_h (3, 4) \\n", "Grüße 日付 تاريخ 👍🏽",
                           "\u00a0\u2027\u202f\u2065\u206a"})
    CHECK(printable(text) == text);
}

TEST_CASE("printable: ASCII and Unicode control characters are escaped") {
  using namespace std::string_literals;
  CHECK(printable("\x1b[2J\x7f") == R"(\x1b[2J\u007f)");
  CHECK(printable("a\0b\x1f"s) == R"(a\x00b\x1f)");
  CHECK(printable("one\r\n\ttwo") == R"(one\r\n\ttwo)");
  CHECK(printable("\u0080\u009b31m\u009f") == R"(\u0080\u009b31m\u009f)");
  CHECK(printable("\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069") ==
        R"(\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069)");
}

TEST_CASE("printable: bytes that are not UTF-8 are escaped one by one") {
  CHECK(printable("a\x9b\xff") == R"(a\x9b\xff)");
  CHECK(printable("\xc3\x28 \xe2\x82") == R"(\xc3( \xe2\x82)");             // truncated
  CHECK(printable("\xc0\x9b \xe0\x82\x9b") == R"(\xc0\x9b \xe0\x82\x9b)");  // overlong encodings
  CHECK(printable("\xed\xa0\x80") == R"(\xed\xa0\x80)");                    // a surrogate
  CHECK(printable("\xf4\x90\x80\x80 \xf8\x88") == R"(\xf4\x90\x80\x80 \xf8\x88)");  // too large
}

TEST_CASE("printable: chosen control characters are kept, and the function is idempotent") {
  const std::string once = printable("a\tb\n\x1b\u202e\xff", "\n\t");
  CHECK(once == "a\tb\n\\x1b\\u202e\\xff");
  CHECK(printable(once, "\n\t") == once);
  CHECK(printable("\u202d\u202e", "\u202e") == "\\u202d\u202e");
}

TEST_CASE("in_quotes: cuts a text to 80 bytes, at a character boundary") {
  using namespace std::string_literals;
  const std::string most(80, 'a');
  CHECK(in_quotes("") == "''");
  CHECK(in_quotes("a\n") == R"('a\n')");
  CHECK(in_quotes(most) == "'" + most + "'");
  CHECK(in_quotes(most + "b") == "'" + most + "…'");
  for (const char* character : {"é", "日", "👍"})
    for (std::size_t before = 77; before < 81; ++before) {
      const std::string start = most.substr(0, before), text = start + character;
      CHECK(in_quotes(text + most) ==
            "'" + (text.size() > 80 ? start : text + most.substr(text.size())) + "…'");
    }
  CHECK(in_quotes(std::string(5000, '\x1b')).size() < 90);
}

TEST_CASE("Error: control characters in quoted text are escaped, so that a message is one line") {
  CHECK(error_of([] { fail("load", "'\x1b]0;title\a\n' is no name"); }) ==
        R"(load: '\x1b]0;title\x07\n' is no name)");
  CHECK(std::string(Error("\xff").what()) == R"(\xff)");
}

}  // namespace attune
