// What a model thinks of given translations: probabilities and attention of every word.
#pragma once

#include <attune/models/hypothesis.hpp>
#include <attune/models/text/vocabulary.hpp>
#include <attune/models/unroll.hpp>

namespace attune::models {

namespace detail {
std::vector<Hypothesis> forced_hypotheses(const Forced& forced, const Tensor& source_mask,
                                          const Target& target, std::int32_t end);
}  // namespace detail

/// For each sentence of a batch its target as the hypothesis that a search would have returned, had
/// it found these words: log-probabilities of each word and of `</s>`, and the weights (steps,
/// source words) f32, `</s>` included, without padding. The score is the log-probability. Throws on
/// a target that does not end with `end`.
template <Decoder M, Source Encoded>
std::vector<Hypothesis> force_decode(const M& model, const Encoded& encoded, const Target& target,
                                     std::int32_t end = text::Vocabulary::end) {
  const detail::Inference inference;
  return detail::forced_hypotheses(force(model, encoded, target.previous), encoded.mask, target,
                                   end);
}
template <WordModel M>
std::vector<Hypothesis> force_decode(const M& model, const text::Batch& batch) {
  const detail::Inference inference;
  return force_decode(model, model.encode(batch.source, batch.source_mask),
                      Target{batch.previous, batch.next, batch.target_mask});
}

}  // namespace attune::models
