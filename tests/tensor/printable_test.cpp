#include <doctest/doctest.h>

#include <attune/tensor/check.hpp>

#include "support/naive.hpp"

namespace attune {

TEST_CASE("printable: letters of any script, signs and backslashes stay as they are") {
  for (const char* text : {"", "W_h (3, 4) \\n", "Grüße 日付 تاريخ 👍🏽",
                           "\u00a0\u2027\u202f\u2065\u206a"})
    CHECK(printable(text) == text);
}

TEST_CASE("printable: control characters are escaped, those of Unicode too") {
  using namespace std::string_literals;
  CHECK(printable("\x1b[2J\x7f") == R"(\x1b[2J\x7f)");
  CHECK(printable("a\0b\x1f"s) == R"(a\x00b\x1f)");
  CHECK(printable("one\r\n\ttwo") == R"(one\r\n\ttwo)");
  CHECK(printable("\u0080\u009b31m\u009f") == R"(\u0080\u009b31m\u009f)");
  CHECK(printable("\u2028\u2029\u202a\u202e\u2066\u2069") ==
        R"(\u2028\u2029\u202a\u202e\u2066\u2069)");
}

TEST_CASE("printable: bytes that are not UTF-8 are escaped one by one") {
  CHECK(printable("a\x9b\xff") == R"(a\x9b\xff)");
  CHECK(printable("\xc3\x28 \xe2\x82") == R"(\xc3( \xe2\x82)");             // cut short
  CHECK(printable("\xc0\x9b \xe0\x82\x9b") == R"(\xc0\x9b \xe0\x82\x9b)");  // too long forms
  CHECK(printable("\xed\xa0\x80") == R"(\xed\xa0\x80)");                    // a surrogate
  CHECK(printable("\xf4\x90\x80\x80 \xf8\x88") == R"(\xf4\x90\x80\x80 \xf8\x88)");  // too large
}

TEST_CASE("printable: some control characters can be kept, and what was made so stays so") {
  const std::string once = printable("a\tb\n\x1b\u202e\xff", "\n\t");
  CHECK(once == "a\tb\n\\x1b\\u202e\\xff");
  CHECK(printable(once, "\n\t") == once);
}

TEST_CASE("Error: a message is one line that does nothing to a terminal, whatever it quotes") {
  CHECK(error_of([] { fail("load", "'\x1b]0;title\a\n' is no name"); }) ==
        R"(load: '\x1b]0;title\x07\n' is no name)");
  CHECK(std::string(Error("\xff").what()) == R"(\xff)");
}

}  // namespace attune
