// Links between words, in lines and files.

#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <attune/models/text/alignment.hpp>
#include <attune/tensor/file.hpp>

#include "support/naive.hpp"
#include "support/scratch_directory.hpp"

namespace {

using namespace attune::text;
using attune::Error;
using attune::ScratchDirectory;
using attune::write_file;
using Alignments = std::vector<Alignment>;
using Gold = std::vector<GoldAlignment>;

TEST_CASE("parse_links: a line of links is read whatever the space between and around them") {
  CHECK(parse_links("0-0 1-2 1-10") == Alignment{{0, 0}, {1, 2}, {1, 10}});
  CHECK(parse_links(" \t0-0\t 1-2  \r") == Alignment{{0, 0}, {1, 2}});
  CHECK(parse_links("").empty());
  CHECK(parse_links("  ").empty());
}

TEST_CASE("parse_links: the result is sorted, and has each link once") {
  CHECK(parse_links("3-0 0-4 3-0 0-1") == Alignment{{0, 1}, {0, 4}, {3, 0}});
}

TEST_CASE("parse_links: positions may count from another number, and the target may stand first") {
  CHECK(parse_links("1-1 3-2", {.first = 1}) == Alignment{{0, 0}, {2, 1}});
  CHECK(parse_links("0-1 3-2", {.target_first = true}) == Alignment{{1, 0}, {2, 3}});
  CHECK_THROWS_WITH_AS(parse_links("1-1 2-0", {.first = 1}),
                       R"(parse_links: link "2-0": target position 0 is before the first, 1)",
                       Error);
  CHECK_THROWS_WITH_AS(parse_links("", {.first = -1}),
                       "alignments: the first position is -1, but must be >= 0", Error);
}

TEST_CASE("parse_links: what is not a link is an error that quotes it") {
  for (const char* bad :
       {"1", "-", "1-", "-1", "-1-1", "1--1", "1-+1", "+1-1", "1-1-1", "1:1", "a-b", "1p1", "1-1,",
        "1.0-1", "0x1-1", "99999999999-1", "1-99999999999", "1-1|0.5"}) {
    CHECK(attune::error_of([&] { parse_links("0-0 " + std::string(bad) + " 2-2"); }) ==
          "parse_links: \"" + std::string(bad) + "\" is not a link SOURCE-TARGET");
  }
  CHECK(attune::error_of([] { parse_links("\x01\xFF", {.target_first = true}); }) ==
        "parse_links: \"\\u0001\uFFFD\" is not a link TARGET-SOURCE");
}

TEST_CASE("read_alignments: a line for each sentence, with or without links") {
  const ScratchDirectory directory;
  const auto path = directory / "links.talp";
  const Alignments expected = {{{0, 0}, {2, 1}}, {}, {{1, 0}}};
  for (const char* text : {"0-0 2-1\n\n1-0\n", "0-0 2-1\n\n1-0", "2-1 0-0 \r\n\r\n1-0\r\n"}) {
    write_file(path, text);
    CHECK(read_alignments(path) == expected);
  }
  write_file(path, "0-0 1-2\n\n0-1\n");
  CHECK(read_alignments(path, {.target_first = true}) == expected);
  write_file(path, "0-0\n\n");
  CHECK(read_alignments(path) == Alignments{{{0, 0}}, {}});
  write_file(path, "");
  CHECK(read_alignments(path).empty());
}

TEST_CASE("read_alignments: a bad link is named by file and line") {
  const ScratchDirectory directory;
  const auto path = directory / "links.talp";
  write_file(path, "0-0\n1-1 1p2\n");
  CHECK(attune::error_of([&] { read_alignments(path); }) ==
        path.string() + ":2: \"1p2\" is not a link SOURCE-TARGET");
}

TEST_CASE("read_alignments: a link to a word that the sentence has not is an error") {
  const ScratchDirectory directory;
  const auto path = directory / "links.talp";
  const std::vector<SentenceLengths> sentences = {{2, 4}, {3, 1}};
  write_file(path, "1-3 0-0\n2-0\n");
  CHECK(read_alignments(path, sentences) == Alignments{{{0, 0}, {1, 3}}, {{2, 0}}});
  write_file(path, "1-3 0-0\n2-0 2-1\n");
  CHECK(attune::error_of([&] { read_alignments(path, sentences); }) ==
        path.string() +
            ":2: link \"2-1\": target position 1 is beyond the 1 words of the sentence");
  CHECK(read_alignments(path).size() == 2);  // nothing is known of the sentences
  write_file(path, "3-1\n2-0\n");
  CHECK(attune::error_of([&] { read_alignments(path, sentences); }) ==
        path.string() +
            ":1: link \"3-1\": source position 3 is beyond the 2 words of the sentence");
  write_file(path, "3-1\n0-2\n");
  CHECK(read_alignments(path, sentences, {.target_first = true}) == Alignments{{{1, 3}}, {{2, 0}}});
}

TEST_CASE("read_alignments: a line too few or too many is an error") {
  const ScratchDirectory directory;
  const auto path = directory / "links.talp";
  const std::vector<SentenceLengths> sentences(2, {1, 1});
  write_file(path, "0-0\n");
  CHECK(attune::error_of([&] { read_alignments(path, sentences); }) ==
        path.string() + ":2: the file ends, but there are 2 sentences");
  write_file(path, "0-0\n0-0\n\n0-0\n");
  CHECK(attune::error_of([&] { read_alignments(path, sentences); }) ==
        path.string() + ":3: a line too many, there are 2 sentences");
  write_file(path, "0-0\n");
  CHECK(attune::error_of([&] { read_alignments(path, std::vector<SentenceLengths>()); }) ==
        path.string() + ":1: a line too many, there are 0 sentences");
}

TEST_CASE("read_alignments: a file that is not there is named with the reason") {
  const ScratchDirectory directory;
  const std::string path = directory / "none.talp";
  for (const std::string& message : {attune::error_of([&] { read_alignments(path); }),
                                     attune::error_of([&] { read_gold_alignments(path); }),
                                     attune::error_of([&] { read_sentence_lengths(path); })}) {
    CHECK(message.starts_with(path + ": "));
    CHECK(message.ends_with("No such file or directory"));
  }
}

TEST_CASE("read_gold_alignments: sure and possible links, positions from 1") {
  const ScratchDirectory directory;
  const auto path = directory / "links.gold";
  write_file(path, "2-2 1-1 3p1\n\n4p1 1p4\n");
  const Gold gold = read_gold_alignments(path);
  REQUIRE(gold.size() == 3);
  CHECK(gold[0].sure == Alignment{{0, 0}, {1, 1}});
  CHECK(gold[0].possible == Alignment{{0, 0}, {1, 1}, {2, 0}});
  CHECK(gold[1].sure.empty());
  CHECK(gold[1].possible.empty());
  CHECK(gold[2].sure.empty());
  CHECK(gold[2].possible == Alignment{{0, 3}, {3, 0}});
  const Gold reversed = read_gold_alignments(path, {.target_first = true});
  CHECK(reversed[0].possible == Alignment{{0, 0}, {0, 2}, {1, 1}});
}

TEST_CASE("read_gold_alignments: a bad line is named by file and line") {
  const ScratchDirectory directory;
  const auto path = directory / "links.gold";
  const std::vector<SentenceLengths> sentences = {{3, 2}, {1, 2}};
  const auto message = [&](const char* text) {
    write_file(path, text);
    return attune::error_of([&] { read_gold_alignments(path, sentences); });
  };
  CHECK(message("3-2 3p1\n1p2\n") == "no error");
  CHECK(message("1-1\n1?2\n") ==
        path.string() +
            ":2: \"1?2\" is not a link SOURCE-TARGET, with p for - when it is only possible");
  CHECK(message("1-1 0p1\n\n") ==
        path.string() + ":1: link \"0p1\": source position 0 is before the first, 1");
  CHECK(message("1-1\n1p3\n") ==
        path.string() +
            ":2: link \"1p3\": target position 3 is beyond the 2 words of the sentence");
  CHECK(message("1-1\n") == path.string() + ":2: the file ends, but there are 2 sentences");
}

TEST_CASE("read_sentence_lengths: the words on either side of |||") {
  const ScratchDirectory directory;
  const auto path = directory / "text";
  write_file(path, "ein Haus . ||| a house .  \nja\t|||  oh yes \r\n|||\nx | y || ||| ||||");
  CHECK(read_sentence_lengths(path) ==
        std::vector<SentenceLengths>{{3, 3}, {1, 2}, {0, 0}, {4, 1}});
  write_file(path, "a ||| b\na b\n");
  CHECK(attune::error_of([&] { read_sentence_lengths(path); }) ==
        path.string() + ":2: expected words ||| words, got \"a b\"");
  write_file(path, "a ||| b ||| c\n");
  CHECK(attune::error_of([&] { read_sentence_lengths(path); }) ==
        path.string() + ":1: expected words ||| words, got \"a ||| b ||| c\"");
}

}  // namespace
