#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/models/text/utf8.hpp>

#include "support/errors.hpp"

namespace {

using attune::text::code_points;
using Points = std::vector<std::string>;

TEST_CASE("code_points: one to four bytes, first and last of each length; marks are separate") {
  const Points all[] = {{},
                        {"a", " ", std::string("\0", 1), "b"},
                        {"日", "本", "語", "ü", "€", "🙂", "x"},
                        {"\x01", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF",
                         "\xEE\x80\x80", "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"},
                        {"e", "\u0301", "👩", "\u200D", "🚀"}};
  for (const Points& points : all) {
    std::string text;
    for (const std::string& point : points) text += point;
    CHECK(code_points(text) == points);
  }
}

TEST_CASE("code_points: an error names the first invalid byte, counted from 1") {
  const std::pair<const char*, int> cases[] = {// Truncated.
                                               {"ab\xE6\x97", 3},
                                               {"\xF0\x9F\x99", 1},
                                               {"\xC3", 1},
                                               {"x\xE6y", 2},
                                               {"年\xE6\x97z", 4},
                                               // Only a continuation byte.
                                               {"a\x80", 2},
                                               {"ü\xBF", 3},
                                               // Overlong encoding.
                                               {"\xC0\x80", 1},
                                               {"a\xC1\xBF", 2},
                                               {"\xE0\x9F\xBF", 1},
                                               {"\xF0\x8F\xBF\xBF", 1},
                                               // Surrogates.
                                               {"\xED\xA0\x80", 1},
                                               {"ab\xED\xBF\xBF", 3},
                                               // Beyond U+10FFFF.
                                               {"\xF4\x90\x80\x80", 1},
                                               {"a\xF8\x88\x80\x80\x80", 2},
                                               {"a\xFF", 2}};
  for (const auto& [text, at] : cases) {
    const std::string message = fmt::format("text: byte {} is not UTF-8", at), bytes(text);
    CHECK_ERROR(message, code_points(bytes));
  }
}

TEST_CASE("visible: a character that joins the one before it gets a base") {
  for (const std::string joins : {"\u0301", "🏽", "\u200D"})
    CHECK(attune::text::visible(joins) == "◌" + joins);
  CHECK(attune::text::visible("👍🏽") == "👍🏽");
}

}  // namespace
