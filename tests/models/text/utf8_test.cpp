#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

#include "support/errors.hpp"

namespace {

using attune::text::code_points;
using Points = std::vector<std::string>;

TEST_CASE("code_points: ASCII is a byte each") {
  CHECK(code_points("").empty());
  CHECK(code_points("a b") == Points{"a", " ", "b"});
  CHECK(code_points(std::string_view("a\0b", 3)) == Points{"a", std::string("\0", 1), "b"});
}

TEST_CASE("code_points: two, three and four bytes are one code point") {
  CHECK(code_points("日本語") == Points{"日", "本", "語"});
  CHECK(code_points("ü€🙂x") == Points{"\xC3\xBC", "\xE2\x82\xAC", "\xF0\x9F\x99\x82", "x"});
}

TEST_CASE("code_points: the first and last code points of each length") {
  const Points points = {
      "\x01",         "\x7F",         "\xC2\x80",     "\xDF\xBF",         "\xE0\xA0\x80",
      "\xED\x9F\xBF", "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"};
  std::string text;
  for (const std::string& point : points) text += point;
  CHECK(code_points(text) == points);
}

TEST_CASE("code_points: combining marks and joiners are code points of their own") {
  CHECK(code_points("e\u0301") == Points{"e", "\u0301"});
  CHECK(code_points("👩\u200D🚀") == Points{"👩", "\u200D", "🚀"});
}

/// The error names byte `at`, counted from 1.
void check_error(const std::string& text, int at) {
  const std::string message = fmt::format("text: byte {} is not UTF-8", at);
  CHECK_ERROR(message, code_points(text));
}

TEST_CASE("code_points: a truncated sequence is an error") {
  check_error("ab\xE6\x97", 3);
  check_error("\xF0\x9F\x99", 1);
  check_error("\xC3", 1);
  check_error("x\xE6y", 2);
  check_error("年\xE6\x97z", 4);
}

TEST_CASE("code_points: a continuation byte alone is an error") {
  check_error("a\x80", 2);
  check_error("ü\xBF", 3);
}

TEST_CASE("code_points: an overlong sequence is an error") {
  check_error("\xC0\x80", 1);
  check_error("a\xC1\xBF", 2);
  check_error("\xE0\x9F\xBF", 1);
  check_error("\xF0\x8F\xBF\xBF", 1);
}

TEST_CASE("code_points: surrogates are errors") {
  check_error("\xED\xA0\x80", 1);
  check_error("ab\xED\xBF\xBF", 3);
}

TEST_CASE("code_points: what lies beyond U+10FFFF is an error") {
  check_error("\xF4\x90\x80\x80", 1);
  check_error("a\xF8\x88\x80\x80\x80", 2);
  check_error("a\xFF", 2);
}

}  // namespace
