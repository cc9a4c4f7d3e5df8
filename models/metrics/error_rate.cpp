#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <attune/models/metrics/error_rate.hpp>
#include <attune/tensor/check.hpp>

namespace attune::metrics {

double Edits::rate() const {
  if (expected > 0) return static_cast<double>(count()) / static_cast<double>(expected);
  return count() == 0 ? 0 : std::numeric_limits<double>::infinity();
}

Edits& Edits::operator+=(const Edits& other) {
  substitutions += other.substitutions;
  deletions += other.deletions;
  insertions += other.insertions;
  expected += other.expected;
  return *this;
}

std::vector<TokenPair> side_by_side(std::span<const std::int32_t> written,
                                    std::span<const std::int32_t> expected) {
  // cost[i][j]: of the first i and j tokens. A substitution costs a little less than any other
  // edit, so that among equally few edits those with the most substitutions are taken.
  const std::size_t columns = expected.size() + 1;
  const std::int64_t other = std::ssize(written) + std::ssize(expected) + 1,
                     substitution = other - 1;
  std::vector<std::int64_t> cost((written.size() + 1) * columns);
  const auto kept = [&](std::size_t i, std::size_t j) {
    return cost[(i - 1) * columns + j - 1] + (written[i - 1] == expected[j - 1] ? 0 : substitution);
  };
  for (std::size_t i = 0; i <= written.size(); ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      std::int64_t& best = cost[i * columns + j];
      if (i == 0 || j == 0) {
        best = static_cast<std::int64_t>(i + j) * other;
        continue;
      }
      best = std::min(
          {kept(i, j), cost[(i - 1) * columns + j] + other, cost[i * columns + j - 1] + other});
    }
  }
  std::vector<TokenPair> pairs;
  for (std::size_t i = written.size(), j = expected.size(); i > 0 || j > 0;) {
    const std::int64_t best = cost[i * columns + j];
    if (i > 0 && j > 0 && best == kept(i, j)) {
      pairs.push_back({written[--i], expected[--j]});
    } else if (i > 0 && best == cost[(i - 1) * columns + j] + other) {
      pairs.push_back({written[--i], TokenPair::no_token});
    } else {
      pairs.push_back({TokenPair::no_token, expected[--j]});
    }
  }
  std::ranges::reverse(pairs);
  return pairs;
}

Edits edits(std::span<const std::int32_t> written, std::span<const std::int32_t> expected) {
  Edits edits{.expected = std::ssize(expected)};
  for (const TokenPair& pair : side_by_side(written, expected)) {
    if (pair.expected == TokenPair::no_token) {
      ++edits.insertions;
    } else if (pair.written == TokenPair::no_token) {
      ++edits.deletions;
    } else {
      edits.substitutions += pair.written != pair.expected;
    }
  }
  return edits;
}

// ---- Alignments

namespace {

using text::Alignment;

Alignment both(const Alignment& a, const Alignment& b) {
  Alignment links;
  std::ranges::set_intersection(a, b, std::back_inserter(links));
  return links;
}

double share(std::size_t part, std::size_t whole) {
  return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
}

void check_positions(const Alignment& links, std::size_t sentence, const char* which) {
  for (const auto& [source, target] : links) {
    if (source >= 0 && target >= 0) continue;
    fail("alignment_error_rate",
         fmt::format("sentence {}: a {} link is ({}, {}), but positions count from 0", sentence,
                     which, source, target));
  }
}

}  // namespace

double AlignmentScore::error_rate() const { return 1 - share(in_sure + in_possible, links + sure); }
double AlignmentScore::precision() const { return share(in_possible, links); }
double AlignmentScore::recall() const { return share(in_sure, sure); }

AlignmentScore alignment_error_rate(std::span<const Alignment> found,
                                    std::span<const text::GoldAlignment> gold) {
  if (found.size() != gold.size()) {
    fail("alignment_error_rate",
         fmt::format("{} sentences, but {} of gold", found.size(), gold.size()));
  }
  AlignmentScore score;
  for (std::size_t i = 0; i < found.size(); ++i) {
    check_positions(found[i], i, "found");
    check_positions(gold[i].sure, i, "sure");
    check_positions(gold[i].possible, i, "possible");
    const Alignment a = text::sorted(found[i]), s = text::sorted(gold[i].sure);
    Alignment p = gold[i].possible;
    p.insert(p.end(), s.begin(), s.end());
    score.links += a.size();
    score.sure += s.size();
    score.in_sure += both(a, s).size();
    score.in_possible += both(a, text::sorted(std::move(p))).size();
  }
  return score;
}

}  // namespace attune::metrics
