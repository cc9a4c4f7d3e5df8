#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include <attune/models/metrics/error_rate.hpp>
#include <attune/tensor/random.hpp>

namespace attune::metrics {
namespace {

using Tokens = std::vector<std::int32_t>;

bool same(const Edits& e, std::int64_t substitutions, std::int64_t deletions,
          std::int64_t insertions, std::int64_t expected) {
  return e.substitutions == substitutions && e.deletions == deletions &&
         e.insertions == insertions && e.expected == expected;
}

TEST_CASE("edits: what is wrong, missing and too much") {
  CHECK(same(edits(Tokens{1, 2, 3}, Tokens{1, 2, 3}), 0, 0, 0, 3));
  CHECK(same(edits(Tokens{1, 9, 3}, Tokens{1, 2, 3}), 1, 0, 0, 3));
  CHECK(same(edits(Tokens{1, 3}, Tokens{1, 2, 3}), 0, 1, 0, 3));
  CHECK(same(edits(Tokens{1, 2, 2, 3}, Tokens{1, 2, 3}), 0, 0, 1, 3));
  CHECK(same(edits(Tokens{}, Tokens{4, 5}), 0, 2, 0, 2));
  CHECK(same(edits(Tokens{4, 5}, Tokens{}), 0, 0, 2, 0));
  CHECK(same(edits(Tokens{2, 1}, Tokens{1, 2}), 2, 0, 0, 2));  // rather than one of each other kind
}

TEST_CASE("edits: rates add up over sentences") {
  Edits total = edits(Tokens{1, 9}, Tokens{1, 2});
  total += edits(Tokens{3, 4, 5}, Tokens{3, 4});
  CHECK(total.count() == 2);
  CHECK(total.rate() == doctest::Approx(0.5));
  CHECK(Edits{}.rate() == 0);
  CHECK(std::isinf(edits(Tokens{1}, Tokens{}).rate()));
}

TEST_CASE("side_by_side: which token was taken for which, and what has none beside it") {
  constexpr std::int32_t none = TokenPair::no_token;
  CHECK(side_by_side(Tokens{1, 9, 3}, Tokens{1, 2, 3}) ==
        std::vector<TokenPair>{{1, 1}, {9, 2}, {3, 3}});
  CHECK(side_by_side(Tokens{1, 3, 5}, Tokens{1, 2, 3}) ==
        std::vector<TokenPair>{{1, 1}, {3, 2}, {5, 3}});  // two, which are substitutions
  CHECK(side_by_side(Tokens{1, 3}, Tokens{1, 2, 3}) ==
        std::vector<TokenPair>{{1, 1}, {none, 2}, {3, 3}});
  CHECK(side_by_side(Tokens{4}, Tokens{}) == std::vector<TokenPair>{{4, none}});
  CHECK(side_by_side(Tokens{}, Tokens{}).empty());
}

/// The fewest edits, by their definition.
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
    Edits beside{.expected = e.expected};
    Tokens left, right;
    for (const auto& [w, x] : side_by_side(written, expected)) {
      if (w >= 0) left.push_back(w);
      if (x >= 0) right.push_back(x);
      beside.insertions += x < 0, beside.deletions += w < 0;
      beside.substitutions += w >= 0 && x >= 0 && w != x;
    }
    CHECK(left == written);
    CHECK(right == expected);
    CHECK(same(beside, e.substitutions, e.deletions, e.insertions, e.expected));
  }
}

}  // namespace
}  // namespace attune::metrics
