// Word alignments in the Pharaoh format.
#include <algorithm>

#include <attune/models/text/corpus.hpp>

#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;

}  // namespace

void fuzz_one(std::string_view input) {
  fuzz::Choices choices(input.substr(0, 4));
  input.remove_prefix(std::min<std::size_t>(4, input.size()));
  const text::PairLengths lengths{choices.between(0, 10), choices.between(0, 10)};
  const auto links = fuzz::accepted([&] { return text::parse_links(input); });
  const auto checked = fuzz::accepted([&] { return text::parse_links(input, lengths, "line"); });
  if (links) expect(std::ranges::is_sorted(*links), "links are not sorted");
  expect(!checked || checked == links, "links depend on lengths");
  if (!checked) return;
  for (const auto& [source, target] : *checked)
    expect(source < lengths.source && target < lengths.target,
           "a link to a word that does not exist");
}
