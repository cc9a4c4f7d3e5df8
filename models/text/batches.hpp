// Batches: sentence pairs as padded tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <attune/models/text/corpus.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune::text {

/// A source sentence and its target sentence.
struct Pair {
  Sentence source, target;
};

/// A batch of pairs: one sentence per column, padded at the end; masks are 1 on tokens, else 0.
struct Batch {
  Tensor source;          // (S, B) i32
  Mask source_mask;       // (S, B)
  Tensor previous, next;  // (T, B) i32: `<s>` y_1 .. y_n and y_1 .. y_n `</s>`
  Mask target_mask;       // (T, B)
  Index sentences() const { return source.dim(1); }
};

/// A batch of sources without targets, for translation.
struct SourceBatch {
  Tensor source;  // (S, B) i32
  Mask mask;      // (S, B)
};

/// A batch of targets, for models whose source is not a sentence.
struct TargetBatch {
  Tensor previous, next;  // (T, B) i32: `<s>` y_1 .. y_n and y_1 .. y_n `</s>`
  Mask mask;              // (T, B)
};

/// Pads sentences to a batch. Throw if there is no sentence, or if a source is empty.
SourceBatch make_source_batch(std::span<const Sentence> sources);
struct TargetOptions {
  std::int32_t begin = Vocabulary::begin, end = Vocabulary::end;  // `<s>`, `</s>`
};
TargetBatch make_target_batch(std::span<const Sentence> targets, const TargetOptions& options = {});
Batch make_batch(std::span<const Pair> pairs);

PairLengths lengths_of(const Pair& pair);

/// Options for splitting pairs into batches.
struct BatchOptions {
  Index sentences = 80;  ///< pairs per batch, if tokens = 0
  /// If > 0, the maximum number of target tokens per batch, including `</s>` and padding.
  Index tokens = 0;
  /// Batches are formed from pools of this many random pairs, sorted by length. A larger pool needs
  /// less padding, but shuffles less. The last batch of a pool may be smaller.
  Index pool = 10'000;
};

/// The batches of an epoch in random order, as indices of pairs. Each pair is in one batch, with
/// pairs of similar length (of the target, then of the source). The result depends only on the
/// arguments, so training can resume at any batch of any epoch. Throws unless sentences >= 1, pool
/// >= 1, tokens >= 0 and, if tokens > 0, each target with `</s>` has at most that many tokens.
std::vector<std::vector<std::uint32_t>> epoch_batches(std::span<const PairLengths> pairs,
                                                      const BatchOptions& options,
                                                      std::uint64_t seed, Integer epoch);
std::vector<std::vector<std::uint32_t>> epoch_batches(std::span<const Pair> pairs,
                                                      const BatchOptions& options,
                                                      std::uint64_t seed, Integer epoch);

/// The batch of the pairs with the indices `chosen`.
Batch make_batch(std::span<const Pair> pairs, std::span<const std::uint32_t> chosen);

}  // namespace attune::text
