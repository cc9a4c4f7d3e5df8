#include <algorithm>
#include <numeric>

#include <doctest/doctest.h>

#include <attune/models/text/batches.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/random.hpp>

#include "nn/tools.hpp"
#include "support/errors.hpp"

namespace {

using namespace attune;
using text::Pair;
using text::Sentence;

Tensor ids(const Shape& shape, std::initializer_list<std::int32_t> values) {
  return Tensor::of(shape, values);
}

TEST_CASE("make_batch: columns are padded at the end; previous has <s>, next has </s>") {
  const std::vector<Pair> pairs = {{{5, 6, 7}, {8}}, {{9}, {10, 11}}};
  const text::Batch batch = text::make_batch(pairs);
  CHECK(batch.sentences() == 2);
  CHECK(identical(batch.source, ids({3, 2}, {5, 9, 6, 0, 7, 0})));
  CHECK(identical(batch.source_mask, ids({3, 2}, {1, 1, 1, 0, 1, 0}).to(DType::f32)));
  CHECK(identical(batch.previous, ids({3, 2}, {1, 1, 8, 10, 0, 11})));
  CHECK(identical(batch.next, ids({3, 2}, {8, 10, 2, 11, 0, 2})));
  CHECK(identical(batch.target_mask, ids({3, 2}, {1, 1, 1, 1, 0, 1}).to(DType::f32)));
}

TEST_CASE("make_batch: an empty target is <s> and </s>") {
  const std::vector<Pair> pairs = {{{5}, {}}};
  const text::Batch batch = text::make_batch(pairs);
  CHECK(identical(batch.previous, ids({1, 1}, {text::Vocabulary::begin})));
  CHECK(identical(batch.next, ids({1, 1}, {text::Vocabulary::end})));
  CHECK(batch.target_mask.item() == 1);
}

TEST_CASE("make_source_batch: a batch without targets") {
  const std::vector<Sentence> sources = {{5}, {6, 7}, {8, 9}};
  const text::SourceBatch batch = text::make_source_batch(sources);
  CHECK(identical(batch.source, ids({2, 3}, {5, 6, 8, 0, 7, 9})));
  CHECK(identical(batch.mask, Tensor::of({2, 3}, {1.f, 1.f, 1.f, 0.f, 1.f, 1.f})));
}

TEST_CASE("make_batch: no sentences, or a source without words, are errors") {
  CHECK_ERROR("batch: there is no sentence", text::make_batch({}));
  CHECK_ERROR("batch: there is no sentence", text::make_source_batch({}));
  const std::vector<Pair> pairs = {{{5}, {6}}, {{}, {7}}};
  CHECK_ERROR("batch: source 1 has no tokens", text::make_batch(pairs));
}

using text::BatchOptions;
using text::epoch_batches;
using Batches = std::vector<std::vector<std::uint32_t>>;

/// Pairs of 1 to 30 source and 0 to 29 target words.
std::vector<Pair> random_pairs(std::size_t count) {
  Random random(11);
  std::vector<Pair> pairs(count);
  for (Pair& pair : pairs) {
    pair.source = Sentence(static_cast<std::size_t>(1 + random.below(30)), 5);
    pair.target = Sentence(static_cast<std::size_t>(random.below(30)), 6);
  }
  return pairs;
}

std::vector<std::uint32_t> all_numbers(const Batches& batches) {
  std::vector<std::uint32_t> numbers;
  for (const auto& batch : batches) numbers.insert(numbers.end(), batch.begin(), batch.end());
  return numbers;
}

bool has_each_once(const Batches& batches, std::size_t count) {
  std::vector<std::uint32_t> numbers = all_numbers(batches), expected(count);
  std::iota(expected.begin(), expected.end(), 0);
  std::ranges::sort(numbers);
  return numbers == expected;
}

/// Target words with </s> and padding.
std::size_t target_area(const std::vector<Pair>& pairs, const std::vector<std::uint32_t>& batch) {
  std::size_t longest = 0;
  for (const auto i : batch) longest = std::max(longest, pairs[i].target.size() + 1);
  return longest * batch.size();
}

TEST_CASE("epoch_batches: each pair once, in batches of that many sentences") {
  const auto pairs = random_pairs(205);
  const Batches batches = epoch_batches(pairs, {.sentences = 20}, 1, 0);
  CHECK(has_each_once(batches, 205));
  REQUIRE(batches.size() == 11);
  CHECK(std::ranges::count_if(batches, [](const auto& b) { return b.size() == 20; }) == 10);
}

TEST_CASE("epoch_batches: by tokens, each batch is as large as the limit allows") {
  const auto pairs = random_pairs(500);
  const Batches batches = epoch_batches(pairs, {.tokens = 200}, 1, 0);
  CHECK(has_each_once(batches, 500));
  std::size_t total = 0;
  for (const auto& batch : batches) {
    CHECK(target_area(pairs, batch) <= 200);
    total += target_area(pairs, batch);
  }
  CHECK(total > 150 * batches.size());
}

TEST_CASE("epoch_batches: batches by tokens have little padding") {
  std::vector<Pair> pairs(10, Pair{{5}, {6, 7, 8}});  // 4 target words with </s>
  for (const auto& batch : epoch_batches(pairs, {.tokens = 20}, 1, 0)) CHECK(batch.size() == 5);
}

TEST_CASE("epoch_batches: pairs of a batch have similar lengths") {
  const auto pairs = random_pairs(1000);
  std::size_t sorted = 0, mixed = 0, words = 0;
  for (const auto& batch : epoch_batches(pairs, {.sentences = 20}, 1, 0))
    sorted += target_area(pairs, batch);
  for (const auto& batch : epoch_batches(pairs, {.sentences = 20, .pool = 20}, 1, 0))
    mixed += target_area(pairs, batch);
  for (const Pair& pair : pairs) words += pair.target.size() + 1;
  CHECK(sorted < words * 105 / 100);
  CHECK(mixed > words * 150 / 100);
}

TEST_CASE("epoch_batches: depend on pairs, options, seed and epoch alone") {
  const auto pairs = random_pairs(300);
  const BatchOptions options = {.sentences = 16};
  const Batches epoch = epoch_batches(pairs, options, 5, 2);
  CHECK(epoch == epoch_batches(pairs, options, 5, 2));
  CHECK(epoch != epoch_batches(pairs, options, 5, 3));
  CHECK(epoch != epoch_batches(pairs, options, 6, 2));
}

TEST_CASE("epoch_batches: the order of lengths is random") {
  const auto pairs = random_pairs(1000);
  const Batches batches = epoch_batches(pairs, {.sentences = 20}, 1, 0);
  std::vector<std::size_t> areas;
  for (const auto& batch : batches) areas.push_back(target_area(pairs, batch));
  CHECK_FALSE(std::ranges::is_sorted(areas));
}

TEST_CASE("epoch_batches: no pairs, no batches; one pair, one batch") {
  CHECK(epoch_batches(std::vector<Pair>(), {}, 1, 0).empty());
  CHECK(epoch_batches(random_pairs(1), {}, 1, 0) == Batches{{0}});
}

TEST_CASE("epoch_batches: a pair too long for a batch and bad options are errors") {
  const std::vector<Pair> pairs = {{{5}, {6}}, {{5}, {6, 7, 8}}};
  CHECK_ERROR("epoch_batches: pair 1 has 4 target words with </s>, expected at most 3",
              epoch_batches(pairs, {.tokens = 3}, 1, 0));
  CHECK_ERROR("epoch_batches: sentences 0, tokens 0, pool 10000: expected >= 1, >= 0 and >= 1",
              epoch_batches(pairs, {.sentences = 0}, 1, 0));
  CHECK_THROWS_AS(epoch_batches(pairs, {.tokens = -1}, 1, 0), Error);
  CHECK_THROWS_AS(epoch_batches(pairs, {.pool = 0}, 1, 0), Error);
}

TEST_CASE("make_batch: selected pairs, in the given order") {
  const std::vector<Pair> pairs = {{{5}, {6}}, {{7}, {8}}, {{9}, {10}}};
  const std::vector<std::uint32_t> chosen = {2, 0};
  const text::Batch batch = text::make_batch(pairs, chosen);
  CHECK(batch.source.to_vector<std::int32_t>() == std::vector<std::int32_t>{9, 5});
}

}  // namespace
