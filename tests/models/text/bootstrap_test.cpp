#include <doctest/doctest.h>

#include <attune/models/text/metrics.hpp>

#include "support/errors.hpp"

namespace {

using namespace attune::metrics;
using doctest::Approx;
using Statistics = std::vector<BleuStatistics>;

/// A sentence of 8 words of which all or no n-grams match.
BleuStatistics right() { return {8, 8, {8, 7, 6, 5}, {8, 7, 6, 5}}; }
BleuStatistics wrong() { return {8, 8, {0, 0, 0, 0}, {8, 7, 6, 5}}; }

TEST_CASE("bleu_interval: equal sentences have an interval of length 0") {
  const auto [low, high] = bleu_interval(Statistics(5, right()));
  CHECK(low == Approx(100));
  CHECK(high == Approx(100));
}

TEST_CASE(
    "bleu_interval: of one right and one wrong sentence, a quarter of the samples is all right") {
  // Two draws: both right 1/4, one right 1/2, none right 1/4. All precisions are equal, so
  // BLEU is 100, 50 and 0.
  const Statistics sentences = {right(), wrong()};
  const auto [low, high] = bleu_interval(sentences);
  CHECK(low == 0);
  CHECK(high == Approx(100));
}

TEST_CASE("bleu_interval: normal distribution for many sentences") {
  // 400 sentences, half of them right: the mean is 50 ± 1.96 · 50 / √400 = 50 ± 4.9.
  Statistics sentences(200, right());
  sentences.resize(400, wrong());
  const auto [low, high] = bleu_interval(sentences);
  CHECK(low == Approx(45.1).epsilon(0.02));
  CHECK(high == Approx(54.9).epsilon(0.02));
}

TEST_CASE("paired_bootstrap: one better sentence of two has no effect in 1/4 of the samples") {
  // The second system's sentences are right and wrong, those of the first are both right: only
  // (right, right), a quarter of the draws, shows no difference.
  const auto result = paired_bootstrap(Statistics{right(), right()}, Statistics{right(), wrong()});
  CHECK(result.difference == Approx(50));
  CHECK(result.p_value == Approx(0.25).epsilon(0.16));  // 3 standard deviations
  CHECK(result.interval.low == 0);
  CHECK(result.interval.high == Approx(100));
}

TEST_CASE("paired_bootstrap: exchanging the systems changes only the sign") {
  Statistics a(30, right()), b(30, right());
  for (std::size_t i = 0; i < 9; ++i) a[i] = wrong();
  for (std::size_t i = 5; i < 19; ++i) b[i] = wrong();
  const auto ab = paired_bootstrap(a, b), ba = paired_bootstrap(b, a);
  CHECK(ab.difference == Approx(100 * 5.0 / 30));
  CHECK(ba.difference == -ab.difference);
  CHECK(ba.p_value == ab.p_value);
  CHECK(ba.interval.low == -ab.interval.high);
}

TEST_CASE("paired_bootstrap: always better has the smallest possible p") {
  const auto result = paired_bootstrap(Statistics(7, right()), Statistics(7, wrong()));
  CHECK(result.p_value == 1.0 / 1001);
}

TEST_CASE("paired_bootstrap: a system compared with itself has p = 1") {
  Statistics sentences(5, right());
  sentences.resize(9, wrong());
  const auto result = paired_bootstrap(sentences, sentences);
  CHECK(result.difference == 0);
  CHECK(result.p_value == 1);
}

TEST_CASE("bootstrap: no sentences, and unequal numbers, are errors") {
  const Statistics one = {right()}, two = {right(), wrong()};
  CHECK_ERROR("bootstrap: there is no sentence", bleu_interval({}));
  CHECK_ERROR("bootstrap: 1 sentences of the first system, but 2 of the second",
              paired_bootstrap(one, two));
}

TEST_CASE("bleu_by_length: a limit belongs to the bucket below it") {
  const Statistics sentences = {right(), wrong(), right(), wrong(), right()};
  const std::vector<std::int64_t> lengths = {10, 11, 0, 20, 21}, limits = {10, 20, 30};
  const auto buckets = bleu_by_length(sentences, lengths, limits);
  REQUIRE(buckets.size() == 4);
  CHECK(buckets[0].shortest == 0);
  CHECK(buckets[0].longest == 10);
  CHECK(buckets[0].sentences == 2);
  CHECK(buckets[0].bleu == Approx(100));
  CHECK(buckets[1].shortest == 11);
  CHECK(buckets[1].longest == 20);
  CHECK(buckets[1].sentences == 2);
  CHECK(buckets[1].bleu == 0);
  CHECK(buckets[2].sentences == 1);
  CHECK(buckets[3].shortest == 31);
  CHECK_FALSE(buckets[3].longest.has_value());
  CHECK(buckets[3].sentences == 0);
  CHECK(buckets[3].bleu == 0);
}

TEST_CASE("bleu_by_length: without limits there is one bucket") {
  const Statistics sentences = {right(), wrong()};
  const auto buckets = bleu_by_length(sentences, std::vector<std::int64_t>{3, 4}, {});
  REQUIRE(buckets.size() == 1);
  CHECK(buckets[0].bleu == bleu(sentences));
}

TEST_CASE("bleu_by_length: wrong numbers of lengths and unsorted limits are errors") {
  const Statistics one = {right()};
  const std::vector<std::int64_t> length = {3}, limits = {10, 10};
  CHECK_ERROR("bleu_by_length: 1 sentences, but 0 lengths", bleu_by_length(one, {}, {}));
  CHECK_ERROR("bleu_by_length: the limits 10, 10 do not ascend",
              bleu_by_length(one, length, limits));
}

}  // namespace
