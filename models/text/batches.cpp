#include <algorithm>

#include <fmt/format.h>

#include <attune/models/text/batches.hpp>
#include <attune/models/text/vocabulary.hpp>
#include <attune/tensor/check.hpp>

namespace attune::text {
namespace {

/// Sentences as columns, and the mask of what is not padding.
SourceBatch pad(std::span<const Sentence> sentences, DType mask_dtype) {
  const auto batch = static_cast<Index>(sentences.size());
  Index longest = 0;
  for (const Sentence& s : sentences) longest = std::max(longest, static_cast<Index>(s.size()));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(longest * batch), Vocabulary::pad);
  std::vector<float> mask(ids.size(), 0);
  for (std::size_t b = 0; b < sentences.size(); ++b) {
    for (std::size_t t = 0; t < sentences[b].size(); ++t) {
      ids[t * sentences.size() + b] = sentences[b][t];
      mask[t * sentences.size() + b] = 1;
    }
  }
  return {Tensor::of(Shape{longest, batch}, std::span<const std::int32_t>(ids)),
          Tensor::of(Shape{longest, batch}, std::span<const float>(mask)).to(mask_dtype)};
}

}  // namespace

SourceBatch make_source_batch(std::span<const Sentence> sources, DType mask_dtype) {
  if (sources.empty()) fail("batch", "there is no sentence");
  const auto empty = std::ranges::find_if(sources, &Sentence::empty);
  if (empty != sources.end())
    fail("batch", fmt::format("source {} has no words", empty - sources.begin()));
  return pad(sources, mask_dtype);
}

Batch make_batch(std::span<const Pair> pairs, DType mask_dtype) {
  std::vector<Sentence> sources, previous, next;
  for (const auto& [source, target] : pairs) {
    sources.push_back(source);
    previous.push_back(target);
    previous.back().insert(previous.back().begin(), Vocabulary::begin);
    next.push_back(target);
    next.back().push_back(Vocabulary::end);
  }
  const auto [source, source_mask] = make_source_batch(sources, mask_dtype);
  const auto [next_ids, target_mask] = pad(next, mask_dtype);
  return {source, source_mask, pad(previous, mask_dtype).source, next_ids, target_mask};
}

}  // namespace attune::text
