// Word alignments: links in the Pharaoh form, gold links, lengths of sentences, and what is made of
// them.
#include <algorithm>
#include <vector>

#include <attune/models/guided_alignment.hpp>
#include <attune/models/metrics/alignment_error_rate.hpp>
#include <attune/models/metrics/symmetrise.hpp>
#include <attune/models/report/alignment.hpp>

#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;
using text::Alignment;

std::string written(const std::vector<Alignment>& alignments) {
  std::string text;
  for (const Alignment& links : alignments) text += report::pharaoh(links) + "\n";
  return text;
}

void check_line(std::string_view line, const text::LinkFormat& format) {
  const auto links = fuzz::accepted([&] { return text::parse_links(line, format); });
  if (!links) return;
  expect(std::ranges::is_sorted(*links), "links out of order");
  expect(text::parse_links(report::pharaoh(*links)) == *links, "other links come back");
}

bool contains_all(const Alignment& all, const Alignment& some) {
  return std::ranges::includes(all, some);
}

void check_symmetrised(const Alignment& a, const Alignment& b, fuzz::Choices& choices) {
  using metrics::Symmetrisation;
  const auto made = [&](Symmetrisation method) {
    return metrics::symmetrise(
        a, b,
        {.method = method,
         .grow = choices.one_in(2) ? metrics::Unlinked::both : metrics::Unlinked::either,
         .final = choices.one_in(2) ? metrics::Unlinked::both : metrics::Unlinked::either});
  };
  const Alignment common = made(Symmetrisation::intersection), all = made(Symmetrisation::unite);
  for (const auto method : {Symmetrisation::grow_diag, Symmetrisation::grow_diag_final}) {
    const Alignment grown = made(method);
    expect(contains_all(grown, common) && contains_all(all, grown), "symmetrise: not in between");
  }
}

void check_score(const std::vector<Alignment>& found,
                 const std::vector<text::GoldAlignment>& gold) {
  const auto score = fuzz::accepted([&] { return metrics::alignment_error_rate(found, gold); });
  expect(score.has_value() == (found.size() == gold.size()), "alignment_error_rate");
  if (!score) return;
  for (const double share : {score->error_rate(), score->precision(), score->recall()})
    expect(share >= 0 && share <= 1, "alignment_error_rate: not a share");
}

}  // namespace

void fuzz_one(std::string_view input) {
  fuzz::Choices choices(input.substr(0, 4));
  input.remove_prefix(std::min<std::size_t>(4, input.size()));
  const text::LinkFormat format{choices.between(-1, 2), choices.one_in(2)};
  const std::string_view links = fuzz::take(input, "\n---\n"), gold = fuzz::take(input, "\n---\n");
  check_line(links.substr(0, links.find('\n')), format);

  const fuzz::MemoryFile links_file(links), gold_file(gold), lengths_file(input);
  const auto read =
      fuzz::accepted([&] { return text::read_alignments(links_file.path(), format); });
  const auto read_gold = fuzz::accepted([&] {
    return text::read_gold_alignments(gold_file.path(), {format.first, format.target_first});
  });
  const auto lengths =
      fuzz::accepted([&] { return text::read_sentence_lengths(lengths_file.path()); });
  if (read) {
    const fuzz::MemoryFile again(written(*read));
    expect(text::read_alignments(again.path()) == *read, "read_alignments: others come back");
    if (read->size() >= 2) {
      fuzz::accepted([&] { return check_symmetrised((*read)[0], (*read)[1], choices), true; });
    }
  }
  if (read && read_gold) check_score(*read, *read_gold);
  if (!lengths) return;
  const auto checked =
      fuzz::accepted([&] { return text::read_alignments(links_file.path(), *lengths, format); });
  expect(!checked || checked == read, "read_alignments: other links with lengths");
  for (std::size_t i = 0; checked && i < lengths->size(); ++i) {
    for (const auto& [source, target] : (*checked)[i]) {
      expect(source >= 0 && source < (*lengths)[i].source && target >= 0 &&
                 target < (*lengths)[i].target,
             "read_alignments: a link to no word");
    }
  }
}
