#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <attune/models/text/batches.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/random.hpp>

namespace attune::text {
namespace {

/// Pads sentences to columns; also returns the mask.
SourceBatch pad(std::span<const Sentence> sentences) {
  std::vector<Index> lengths;
  for (const Sentence& s : sentences) lengths.push_back(std::ssize(s));
  Mask mask = mask_of(lengths);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(mask.size()), Vocabulary::pad);
  for (std::size_t b = 0; b < sentences.size(); ++b) {
    for (std::size_t t = 0; t < sentences[b].size(); ++t)
      ids[t * sentences.size() + b] = sentences[b][t];
  }
  return {Tensor::of<std::int32_t>(mask.shape(), ids), std::move(mask)};
}

Index next_words(const PairLengths& pair) { return Index{pair.target} + 1; }

void check_options(std::span<const PairLengths> pairs, const BatchOptions& options) {
  if (options.sentences < 1 || options.tokens < 0 || options.pool < 1)
    fail("epoch_batches", "sentences {}, tokens {}, pool {}: expected >= 1, >= 0 and >= 1",
         options.sentences, options.tokens, options.pool);
  if (pairs.size() > std::numeric_limits<std::uint32_t>::max())
    fail("epoch_batches", "{} pairs, expected at most 2^32 - 1", pairs.size());
  for (std::size_t i = 0; i < pairs.size() && options.tokens > 0; ++i) {
    if (const Index words = next_words(pairs[i]); words > options.tokens)
      fail("epoch_batches", "pair {} has {} target words with </s>, expected at most {}", i, words,
           options.tokens);
  }
}

/// Splits a pool that is sorted by length into batches, each as large as possible.
void cut(std::span<const std::uint32_t> pool, std::span<const PairLengths> pairs,
         const BatchOptions& options, std::vector<std::vector<std::uint32_t>>& batches) {
  for (std::size_t begin = 0, end; begin < pool.size(); begin = end) {
    const auto fits = [&](std::size_t last) {  // `last` has the longest target
      const auto count = static_cast<Index>(last + 1 - begin);
      return options.tokens > 0 ? count * next_words(pairs[pool[last]]) <= options.tokens
                                : count <= options.sentences;
    };
    end = begin + 1;
    while (end < pool.size() && fits(end)) ++end;
    const auto batch = pool.subspan(begin, end - begin);
    batches.emplace_back(batch.begin(), batch.end());
  }
}

}  // namespace

SourceBatch make_source_batch(std::span<const Sentence> sources) {
  if (sources.empty()) fail("batch", "there is no sentence");
  const auto empty = std::ranges::find_if(sources, &Sentence::empty);
  if (empty != sources.end()) fail("batch", "source {} has no tokens", empty - sources.begin());
  return pad(sources);
}

TargetBatch make_target_batch(std::span<const Sentence> targets, const TargetOptions& o) {
  if (targets.empty()) fail("batch", "there is no sentence");
  std::vector<Sentence> previous(targets.begin(), targets.end()), next = previous;
  for (Sentence& words : previous) words.insert(words.begin(), o.begin);
  for (Sentence& words : next) words.push_back(o.end);
  const auto [next_ids, mask] = pad(next);
  return {pad(previous).source, next_ids, mask};
}

Batch make_batch(std::span<const Pair> pairs) {
  std::vector<Sentence> sources, targets;
  for (const auto& [source, target] : pairs) {
    sources.push_back(source);
    targets.push_back(target);
  }
  const auto [source, source_mask] = make_source_batch(sources);
  const auto [previous, next, target_mask] = make_target_batch(targets);
  return {source, source_mask, previous, next, target_mask};
}

PairLengths lengths_of(const Pair& pair) {
  return {static_cast<int>(pair.source.size()), static_cast<int>(pair.target.size())};
}

std::vector<std::vector<std::uint32_t>> epoch_batches(std::span<const PairLengths> pairs,
                                                      const BatchOptions& options,
                                                      std::uint64_t seed, Integer epoch) {
  check_options(pairs, options);
  const std::string name = fmt::format("epoch {}", epoch);
  std::vector<std::uint32_t> order = shuffled(pairs.size(), Random(seed, name));
  std::vector<std::vector<std::uint32_t>> batches;
  const auto pool_size = static_cast<std::size_t>(options.pool);
  for (std::size_t begin = 0; begin < order.size(); begin += pool_size) {
    const std::span pool =
        std::span(order).subspan(begin, std::min(pool_size, order.size() - begin));
    std::ranges::stable_sort(
        pool, {}, [&](std::uint32_t i) { return std::tuple(pairs[i].target, pairs[i].source); });
    cut(pool, pairs, options, batches);
  }
  std::vector<std::vector<std::uint32_t>> result;
  for (const std::uint32_t i : shuffled(batches.size(), Random(seed, name + " batches")))
    result.push_back(std::move(batches[i]));
  return result;
}

std::vector<std::vector<std::uint32_t>> epoch_batches(std::span<const Pair> pairs,
                                                      const BatchOptions& options,
                                                      std::uint64_t seed, Integer epoch) {
  std::vector<PairLengths> lengths;
  for (const Pair& pair : pairs) lengths.push_back(lengths_of(pair));
  return epoch_batches(lengths, options, seed, epoch);
}

Batch make_batch(std::span<const Pair> pairs, std::span<const std::uint32_t> chosen) {
  std::vector<Pair> batch;
  for (const std::uint32_t i : chosen) {
    if (i >= pairs.size())
      fail("make_batch", "pair {} is not in 0 to {}", i, std::ssize(pairs) - 1);
    batch.push_back(pairs[i]);
  }
  return make_batch(batch);
}

}  // namespace attune::text
