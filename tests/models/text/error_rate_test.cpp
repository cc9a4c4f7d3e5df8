#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/models/text/corpus.hpp>
#include <attune/models/text/metrics.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/random.hpp>

#include "support/capture.hpp"
#include "support/errors.hpp"

namespace attune::metrics {
namespace {

using Tokens = std::vector<std::int32_t>;

bool same(const Edits& e, std::int64_t substitutions, std::int64_t deletions,
          std::int64_t insertions, std::int64_t expected) {
  return e.substitutions == substitutions && e.deletions == deletions &&
         e.insertions == insertions && e.expected == expected;
}

TEST_CASE("edits: substitutions, deletions and insertions") {
  CHECK(same(edits(Tokens{1, 2, 3}, Tokens{1, 2, 3}), 0, 0, 0, 3));
  CHECK(same(edits(Tokens{1, 9, 3}, Tokens{1, 2, 3}), 1, 0, 0, 3));
  CHECK(same(edits(Tokens{1, 3}, Tokens{1, 2, 3}), 0, 1, 0, 3));
  CHECK(same(edits(Tokens{1, 2, 2, 3}, Tokens{1, 2, 3}), 0, 0, 1, 3));
  CHECK(same(edits(Tokens{}, Tokens{4, 5}), 0, 2, 0, 2));
  CHECK(same(edits(Tokens{4, 5}, Tokens{}), 0, 0, 2, 0));
  CHECK(same(edits(Tokens{2, 1}, Tokens{1, 2}), 2, 0, 0, 2));  // rather than one of each other kind
}

TEST_CASE("edits: counts are summed over sentences") {
  Edits total = edits(Tokens{1, 9}, Tokens{1, 2});
  total += edits(Tokens{3, 4, 5}, Tokens{3, 4});
  CHECK(total.count() == 2);
  CHECK(total.rate() == doctest::Approx(0.5));
  CHECK(Edits{}.rate() == 0);
  CHECK(edits(Tokens{1, 2}, Tokens{}).rate() == 2);  // as jiwer.wer("", "a b")
}

TEST_CASE("edit_alignment: pairs of tokens, and unpaired tokens") {
  constexpr std::int32_t none = TokenPair::no_token;
  CHECK(edit_alignment(Tokens{1, 9, 3}, Tokens{1, 2, 3}) ==
        std::vector<TokenPair>{{1, 1}, {9, 2}, {3, 3}});
  CHECK(edit_alignment(Tokens{1, 3, 5}, Tokens{1, 2, 3}) ==
        std::vector<TokenPair>{{1, 1}, {3, 2}, {5, 3}});  // two, which are substitutions
  CHECK(edit_alignment(Tokens{1, 3}, Tokens{1, 2, 3}) ==
        std::vector<TokenPair>{{1, 1}, {none, 2}, {3, 3}});
  CHECK(edit_alignment(Tokens{4}, Tokens{}) == std::vector<TokenPair>{{4, none}});
  CHECK(edit_alignment(Tokens{}, Tokens{}).empty());
}

/// The minimum number of edits, by definition.
std::int64_t fewest(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  if (a.empty() || b.empty()) return std::ssize(a) + std::ssize(b);
  return std::min<std::int64_t>({fewest(a.subspan(1), b.subspan(1)) + (a[0] != b[0]),
                                 fewest(a.subspan(1), b) + 1, fewest(a, b.subspan(1)) + 1});
}

TEST_CASE(
    "edits: as few as there can be, as many more insertions than deletions as lengths differ, and "
    "the same side by side") {
  Random random(1);
  for (int i = 0; i < 50; ++i) {
    Tokens written(static_cast<std::size_t>(random.below(6))),
        expected(static_cast<std::size_t>(random.below(6)));
    for (auto* tokens : {&written, &expected})
      for (auto& token : *tokens) token = static_cast<std::int32_t>(random.below(3));
    const Edits e = edits(written, expected);
    CHECK(e.count() == fewest(written, expected));
    CHECK(e.insertions - e.deletions == std::ssize(written) - std::ssize(expected));
    Edits pairs_edits{.expected = e.expected};
    Tokens left, right;
    for (const auto& [w, x] : edit_alignment(written, expected)) {
      if (w >= 0) left.push_back(w);
      if (x >= 0) right.push_back(x);
      pairs_edits.insertions += x < 0, pairs_edits.deletions += w < 0;
      pairs_edits.substitutions += w >= 0 && x >= 0 && w != x;
    }
    CHECK(left == written);
    CHECK(right == expected);
    CHECK(same(pairs_edits, e.substitutions, e.deletions, e.insertions, e.expected));
  }
}

}  // namespace
}  // namespace attune::metrics

namespace {

using namespace attune::metrics;
using namespace attune::text;
using attune::Error;
using Alignments = std::vector<Alignment>;
using Gold = std::vector<GoldAlignment>;

// ---- The score ----------------------------------------------------------------------------------

TEST_CASE("alignment_error_rate: a sentence computed by hand") {
  // A = 5 links, of which 0-0 and 2-1 are sure, 1-2 only possible, 3-3 and 4-0 neither.
  const Alignments found = {{{0, 0}, {1, 2}, {2, 1}, {3, 3}, {4, 0}}};
  const Gold gold = {{{{0, 0}, {2, 1}, {3, 4}}, {{0, 0}, {2, 1}, {3, 4}, {1, 2}, {1, 1}}}};
  const AlignmentScore score = alignment_error_rate(found, gold);
  CHECK(score.links == 5);
  CHECK(score.sure == 3);
  CHECK(score.in_sure == 2);
  CHECK(score.in_possible == 3);
  CHECK(score.error_rate() == doctest::Approx(1 - (2 + 3) / (5. + 3)));
  CHECK(score.precision() == doctest::Approx(3 / 5.));
  CHECK(score.recall() == doctest::Approx(2 / 3.));
}

TEST_CASE("alignment_error_rate: error rate, precision and recall of corpora") {
  const Gold sure_and_possible = {{{{0, 0}, {1, 1}}, {{0, 0}, {1, 1}, {2, 1}, {2, 2}}}};
  const struct {
    Alignments found;
    Gold gold;
    double error_rate, precision, recall;
  } cases[] = {// All sure links and any possible ones make no error.
               {{{{0, 0}, {1, 1}}}, sure_and_possible, 0, 1, 1},
               {{{{0, 0}, {1, 1}, {2, 2}}}, sure_and_possible, 0, 1, 1},
               {{{{2, 1}, {0, 0}, {2, 2}, {1, 1}}}, sure_and_possible, 0, 1, 1},
               // Source and target are not interchangeable.
               {{{{0, 1}}}, {{{{1, 0}}, {}}}, 1, 0, 0},
               // Sums, not a mean: the first sentence alone has 0, the second 1.
               {{{{0, 0}}, {{0, 1}, {1, 0}, {1, 1}}},
                {{{{0, 0}}, {}}, {{{0, 0}}, {}}},
                1 - (1 + 1) / (4. + 2),
                1 / 4.,
                1 / 2.},
               // No links: 1, or 0 if there are no gold links either.
               {{{}}, {{{{0, 0}}, {}}}, 1, 1, 0},
               {{}, {}, 0, 1, 1},
               // Without sure links: the part of A that is not possible.
               {{{{0, 0}, {0, 1}, {0, 2}, {1, 0}}}, {{{}, {{0, 1}}}}, 0.75, 0.25, 1}};
  for (const auto& [found, gold, error_rate, precision, recall] : cases) {
    const AlignmentScore score = alignment_error_rate(found, gold);
    CHECK(score.error_rate() == doctest::Approx(error_rate));
    CHECK(score.precision() == doctest::Approx(precision));
    CHECK(score.recall() == doctest::Approx(recall));
  }
}

TEST_CASE("alignment_error_rate: sure links are possible, also if not given so") {
  const Alignments found = {{{0, 0}, {1, 1}}};
  CHECK(alignment_error_rate(found, Gold{{{{0, 0}}, {{1, 1}}}}).in_possible == 2);
  CHECK(alignment_error_rate(found, Gold{{{{0, 0}}, {{1, 1}, {0, 0}}}}).in_possible == 2);
}

TEST_CASE("alignment_error_rate: a link given twice counts once, in any order") {
  const AlignmentScore score =
      alignment_error_rate(Alignments{{{2, 0}, {0, 1}, {2, 0}}},
                           Gold{{{{2, 0}, {0, 0}, {2, 0}}, {{2, 0}, {0, 1}, {0, 1}}}});
  CHECK(score.links == 2);
  CHECK(score.sure == 2);
  CHECK(score.in_sure == 1);
  CHECK(score.in_possible == 2);
}

TEST_CASE("alignment_error_rate: different numbers of sentences are an error") {
  CHECK_ERROR("alignment_error_rate: 2 sentences, but 3 of gold",
              alignment_error_rate(Alignments(2), Gold(3)));
}

// ---- Published values --------------------------------------------------------------------------

const std::filesystem::path kPublished =
    std::filesystem::path(ATTUNE_SOURCE).parent_path() / "shared/data/word-alignment";

/// Gold alignments of the Canadian Hansards (English-French) and of the shared tasks of 2003 and
/// 2005 (Romanian-English) with the output of aligners. Their licences do not allow redistribution.
struct Published {
  std::filesystem::path folder;
  std::string pair;
  std::vector<PairLengths> sentences;
  Gold gold;

  Published(const std::string& name, const std::string& languages)
      : folder(kPublished / name), pair(languages) {
    for (const std::string& line : read_lines(LineReader(folder / (pair + ".src-tgt")))) {
      const auto all = words(line);
      const auto bar = static_cast<int>(std::ranges::find(all, "|||") - all.begin());
      sentences.push_back({bar, static_cast<int>(all.size()) - bar - 1});
    }
    gold = read_gold_alignments(folder / (pair + ".gold"), sentences);
  }

  Alignments output(const std::string& name, bool target_first = false) const {
    Alignments all;
    for (const std::string& line : read_lines(LineReader(folder / name))) {
      all.push_back(parse_links(line));
      for (Link& link : all.back())
        if (target_first) std::swap(link.source, link.target);
    }
    return all;
  }
};

bool without_published_alignments() {
  if (std::filesystem::is_directory(kPublished)) return false;
  MESSAGE("skipped: there is no ../shared/data/word-alignment next to the sources");
  return true;
}

TEST_CASE("alignment_error_rate: published outputs have the published values") {
  if (without_published_alignments()) return;
  struct Figures {
    const char* system;
    double forward, reverse, grow_diagonal, grow_diagonal_final;  // per cent
  };
  const auto check = [](const Published& data, const Figures& figures) {
    const auto [system, forward, reverse, grow_diagonal, grow_diagonal_final] = figures;
    for (const auto& [kind, expected] : {std::pair("", forward), std::pair(".reverse", reverse),
                                         std::pair(".grow-diagonal", grow_diagonal),
                                         std::pair(".grow-diagonal-final", grow_diagonal_final)}) {
      CAPTURE(data.pair);
      CAPTURE_BINDING(system);
      CAPTURE_BINDING(kind);
      const AlignmentScore score =
          alignment_error_rate(data.output(fmt::format("{}.{}{}.talp", system, data.pair, kind),
                                           kind == std::string(".reverse")),
                               data.gold);
      CHECK(std::abs(100 * score.error_rate() - expected) <= 0.00501);
    }
  };
  const Published hansards("enfr-hansards", "enfr");
  CHECK(hansards.gold.size() == 447);
  check(hansards, {"fastalign", 16.39, 15.89, 10.48, 12.09});
  check(hansards, {"giza", 7.99, 9.75, 5.94, 6.16});
  const Published romanian("roen", "roen");
  CHECK(romanian.gold.size() == 248);
  check(romanian, {"fastalign", 33.80, 35.55, 32.08, 32.20});
  check(romanian, {"giza", 28.71, 32.22, 27.92, 26.40});
  for (const auto& [data, expected] : {std::pair(&hansards, 4.07), std::pair(&romanian, 20.75)}) {
    const Alignments found = data->output(data->pair + ".awesome-align.out");
    const AlignmentScore score = alignment_error_rate(found, data->gold);
    CHECK(std::abs(100 * score.error_rate() - expected) <= 0.00501);
  }
}

}  // namespace
