// Sentence pairs as padded tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <attune/models/text/corpus.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune::text {

/// A source and what it becomes.
struct Pair {
  Sentence source, target;
};

/// Sentences in columns, padded on the right; masks are 1 on words and 0 on padding.
struct Batch {
  Tensor source;          // (S, B) i32
  Mask source_mask;       // (S, B)
  Tensor previous, next;  // (T, B) i32: `<s>` y_1 .. y_n and y_1 .. y_n `</s>`
  Mask target_mask;       // (T, B)
  Index sentences() const { return source.dim(1); }
};

/// Sources alone, for translation.
struct SourceBatch {
  Tensor source;  // (S, B) i32
  Mask mask;      // (S, B)
};

/// Targets alone, for sources other than words.
struct TargetBatch {
  Tensor previous, next;  // (T, B) i32: `<s>` y_1 .. y_n and y_1 .. y_n `</s>`
  Mask mask;              // (T, B)
};

/// Throws when there is no sentence, or a source without words.
SourceBatch make_source_batch(std::span<const Sentence> sources, DType mask_dtype = DType::f32);
struct TargetOptions {
  std::int32_t begin = Vocabulary::begin, end = Vocabulary::end;  // `<s>`, `</s>`
  DType mask_dtype = DType::f32;
};
TargetBatch make_target_batch(std::span<const Sentence> targets, const TargetOptions& options = {});
Batch make_batch(std::span<const Pair> pairs, DType mask_dtype = DType::f32);

PairLengths lengths_of(const Pair& pair);

/// How pairs become batches.
struct BatchOptions {
  Index sentences = 80;  ///< of a batch
  /// Instead, when positive: the most target words of a batch, with `</s>` and padding.
  Index tokens = 0;
  /// Number of random pairs that are sorted by length before batches are cut from them. A
  /// larger pool pads less and shuffles less. The last batch of a pool may be smaller.
  Index pool = 10'000;
};

/// The batches of an epoch, as numbers of pairs: each pair once, in batches of similar length (of
/// the target, then of the source), in a random order. It depends on its arguments alone, so that a
/// run can resume from any batch of any epoch. Throws unless sentences >= 1, pool >= 1, tokens >= 0
/// and, where tokens > 0, no target has more words, with `</s>`.
std::vector<std::vector<std::uint32_t>> epoch_batches(std::span<const PairLengths> pairs,
                                                      const BatchOptions& options,
                                                      std::uint64_t seed, Index epoch);
std::vector<std::vector<std::uint32_t>> epoch_batches(std::span<const Pair> pairs,
                                                      const BatchOptions& options,
                                                      std::uint64_t seed, Index epoch);

/// Those pairs as a batch.
Batch make_batch(std::span<const Pair> pairs, std::span<const std::uint32_t> chosen,
                 DType mask_dtype = DType::f32);

}  // namespace attune::text
