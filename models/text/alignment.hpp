// Word alignments: links between the words of a sentence pair.
#pragma once

#include <compare>
#include <string_view>
#include <vector>

#include <attune/tensor/cxx20.hpp>

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

/// Words of a sentence pair.
struct SentenceLengths {
  int source = 0, target = 0;
  bool operator==(const SentenceLengths&) const = default;
};

/// A line of links, as fast_align, Moses and eflomal write them (the "Pharaoh" or "TALP" form):
/// "0-0 1-2 1-3", each SOURCE-TARGET, separated by spaces or tabs; no links at all is an empty
/// line. Throws an Error with the link that is none.
Alignment parse_links(std::string_view line);
/// A line whose sentences are known: links to words that are not there are errors too. Errors begin
/// with `where`.
Alignment parse_links(std::string_view line, const SentenceLengths& lengths,
                      std::string_view where);

}  // namespace attune::text
