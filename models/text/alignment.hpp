// Word alignments: links between the words of a sentence pair, and files of gold links.
#pragma once

#include <compare>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::text {

/// A word of the source and the word of the target it belongs to, both counted from 0.
struct Link {
  int source = 0, target = 0;
  auto operator<=>(const Link&) const = default;
};

/// The links of a sentence pair. As a set: the order does not matter, and a link that is there
/// twice counts once. Functions that return one sort it.
using Alignment = std::vector<Link>;

/// By source, then target, each link once.
Alignment sorted(Alignment links);

/// Links drawn by people: sure links S and possible links P. S is a subset of P by definition,
/// so a sure link may be given in `possible` too or be left out of it.
struct GoldAlignment {
  Alignment sure, possible;
};

/// Words of a sentence pair.
struct SentenceLengths {
  int source = 0, target = 0;
  bool operator==(const SentenceLengths&) const = default;
};

/// A line of links, as fast_align, Moses and eflomal write them (the "Pharaoh" or "TALP" form):
/// "0-0 1-2 1-3", each SOURCE-TARGET, separated by spaces or tabs; an empty line has no links.
/// Throws an Error that begins with `where` and quotes the link when one is malformed or, where the
/// lengths are known, points beyond the sentence.
Alignment parse_links(std::string_view line, const std::optional<SentenceLengths>& lengths = {},
                      std::string_view where = "parse_links");

/// A file of gold links, one line for each sentence pair: "1-1 2-3 2p4", where 2-3 is sure and 2p4
/// is only possible, and words count from 1. In the result, `possible` has the sure links too.
/// Throws an Error "FILE:LINE: ..." on anything else, on links to words that are not there, and on
/// more or fewer lines than sentences.
std::vector<GoldAlignment> read_gold_alignments(const std::filesystem::path& path,
                                                std::span<const SentenceLengths> sentences);

}  // namespace attune::text
