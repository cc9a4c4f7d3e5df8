// Links between words, in lines.

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <attune/models/text/alignment.hpp>

#include "support/naive.hpp"

namespace {

using namespace attune::text;

TEST_CASE("parse_links: a line of links is read whatever the space between and around them") {
  CHECK(parse_links("0-0 1-2 1-10") == Alignment{{0, 0}, {1, 2}, {1, 10}});
  CHECK(parse_links(" \t0-0\t 1-2  \r") == Alignment{{0, 0}, {1, 2}});
  CHECK(parse_links("").empty());
  CHECK(parse_links("  ").empty());
}

TEST_CASE("parse_links: the result is sorted, and has each link once") {
  CHECK(parse_links("3-0 0-4 3-0 0-1") == Alignment{{0, 1}, {0, 4}, {3, 0}});
}

TEST_CASE("parse_links: what is not a link is an error that quotes it") {
  for (const char* bad :
       {"1", "-", "1-", "-1", "-1-1", "1--1", "1-+1", "+1-1", "1-1-1", "1:1", "a-b", "1p1", "1-1,",
        "1.0-1", "0x1-1", "99999999999-1", "1-99999999999", "1-1|0.5"}) {
    CHECK(attune::error_of([&] { parse_links("0-0 " + std::string(bad) + " 2-2"); }) ==
          "parse_links: \"" + std::string(bad) + "\" is not a link SOURCE-TARGET");
  }
}

TEST_CASE("parse_links: a link to a word that the sentence has not is an error") {
  const auto error = [](const char* line) {
    return attune::error_of([&] { parse_links(line, {.source = 3, .target = 1}, "file:2"); });
  };
  CHECK(parse_links("2-0 0-0", {.source = 3, .target = 1}, "") == Alignment{{0, 0}, {2, 0}});
  CHECK(error("2-0 2-1") ==
        "file:2: link \"2-1\": target position 1 is beyond the 1 words of the sentence");
  CHECK(error("3-0") ==
        "file:2: link \"3-0\": source position 3 is beyond the 3 words of the sentence");
  CHECK(error("1p0") == "file:2: \"1p0\" is not a link SOURCE-TARGET");
}

}  // namespace
