// Sentence pairs as padded tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <attune/tensor/tensor.hpp>

namespace attune::text {

/// Numbers of words, without begin and end.
using Sentence = std::vector<std::int32_t>;

/// A source and what it becomes.
struct Pair {
  Sentence source, target;
};

/// Sentences in columns, padded on the right; masks are 1 on words and 0 on padding.
struct Batch {
  Tensor source, source_mask;  // (S, B) i32, (S, B)
  Tensor previous, next;       // (T, B) i32: <s> y_1 .. y_n and y_1 .. y_n </s>
  Tensor target_mask;          // (T, B)
  Index sentences() const { return source.dim(1); }
};

/// Sources alone, for translating: source and source_mask.
struct SourceBatch {
  Tensor source, mask;  // (S, B)
};

/// Throws when there is no sentence, or a source without words.
SourceBatch make_source_batch(std::span<const Sentence> sources, DType mask_dtype = DType::f32);
Batch make_batch(std::span<const Pair> pairs, DType mask_dtype = DType::f32);

}  // namespace attune::text
