// Word alignments in lines and files.

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <attune/models/text/corpus.hpp>
#include <attune/tensor/file.hpp>

#include "support/naive.hpp"
#include "support/scratch_directory.hpp"

namespace {

using namespace attune::text;

TEST_CASE("parse_links: any spaces between and around links") {
  CHECK(parse_links("0-0 1-2 1-10") == Alignment{{0, 0}, {1, 2}, {1, 10}});
  CHECK(parse_links(" \t0-0\t 1-2  \r") == Alignment{{0, 0}, {1, 2}});
  CHECK(parse_links("").empty());
  CHECK(parse_links("  ").empty());
}

TEST_CASE("parse_links: the result is sorted, and has each link once") {
  CHECK(parse_links("3-0 0-4 3-0 0-1") == Alignment{{0, 1}, {0, 4}, {3, 0}});
}

TEST_CASE("parse_links: a malformed link is an error that quotes it") {
  for (const char* bad :
       {"1", "-", "1-", "-1", "-1-1", "1--1", "1-+1", "+1-1", "1-1-1", "1:1", "a-b", "1p1", "1-1,",
        "1.0-1", "0x1-1", "99999999999-1", "1-99999999999", "1-1|0.5"}) {
    CHECK(attune::error_of([&] { parse_links("0-0 " + std::string(bad) + " 2-2"); }) ==
          "parse_links: '" + std::string(bad) + "' is not a link SOURCE-TARGET");
  }
}

TEST_CASE("parse_links: a link out of range is an error") {
  const PairLengths lengths = {.source = 3, .target = 1};
  const auto error = [&](const char* line) {
    return attune::error_of([&] { parse_links(line, lengths, "file:2"); });
  };
  CHECK(parse_links("2-0 0-0", lengths) == Alignment{{0, 0}, {2, 0}});
  CHECK(error("2-0 2-1") ==
        "file:2: link '2-1': target position 1 is beyond the 1 words of the sentence");
  CHECK(error("3-0") ==
        "file:2: link '3-0': source position 3 is beyond the 3 words of the sentence");
  CHECK(error("1p0") == "file:2: '1p0' is not a link SOURCE-TARGET");
}

TEST_CASE("read_gold_alignments: sure and possible links, positions from 1") {
  const attune::ScratchDirectory directory;
  const auto path = directory / "links.gold";
  const auto read = [&](const char* text, const std::vector<PairLengths>& sentences) {
    attune::write_file(path, text);
    return read_gold_alignments(path, sentences);
  };
  const auto gold = read("2-2 1-1 3p1\n\n4p1 1p4\n", {{3, 2}, {1, 1}, {4, 4}});
  CHECK(gold[0].sure == Alignment{{0, 0}, {1, 1}});
  CHECK(gold[0].possible == Alignment{{0, 0}, {1, 1}, {2, 0}});
  CHECK(gold[1].possible.empty());
  CHECK(gold[2].sure.empty());
  CHECK(gold[2].possible == Alignment{{0, 3}, {3, 0}});
  const auto error = [&](const char* text) {
    const std::string message = attune::error_of([&] { read(text, {{3, 2}, {1, 2}}); });
    return message.starts_with(path.string()) ? message.substr(path.string().size()) : message;
  };
  CHECK(error("3-2 3p1\n1p2\n") == "no error");
  CHECK(error("1-1\n1?2\n") ==
        ":2: '1?2' is not a link SOURCE-TARGET, with p for - when it is only possible");
  CHECK(error("1-1 0p1\n\n") ==
        ":1: link '0p1': source position 0 is too small, positions count from 1");
  CHECK(error("1-1\n1p3\n") ==
        ":2: link '1p3': target position 3 is beyond the 2 words of the sentence");
  CHECK(error("1-1\n") == ":2: the file has 1 lines, expected 2, one per sentence");
  CHECK(error("1-1\n\n\n") == ":3: more lines than the 2 sentences");
}

}  // namespace
