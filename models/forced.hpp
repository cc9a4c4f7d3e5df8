// What a model thinks of given translations: probabilities and attention of every word.
#pragma once

#include <concepts>

#include <attune/autograd/var.hpp>
#include <attune/models/hypothesis.hpp>
#include <attune/models/text/batches.hpp>

namespace attune::models {

/// A model that runs under the target words of a batch: logits (T, B, V), and weights (T, S, B) or
/// (T, heads, S, B), or undefined in a model without attention.
template <class M>
concept Forcible = requires(const M& model, const text::Batch& batch) {
  { model.force(batch).logits } -> std::convertible_to<Var>;
  { model.force(batch).weights } -> std::convertible_to<Var>;
};

namespace detail {
std::vector<Hypothesis> forced_hypotheses(const Tensor& logits, const Tensor& weights,
                                          const text::Batch& batch);
}  // namespace detail

/// For each sentence of a batch its target as the hypothesis that a search would have returned, had
/// it found these words: log-probabilities of each word and of </s>, and the weights (steps,
/// source words) f32, </s> included, without padding. The score is the log-probability. Throws on a
/// target that does not end with </s>.
template <Forcible M>
std::vector<Hypothesis> force_decode(const M& model, const text::Batch& batch) {
  const NoGrad no_grad;
  const auto forced = model.force(batch);
  return detail::forced_hypotheses(Var(forced.logits).value(), Var(forced.weights).value(), batch);
}

}  // namespace attune::models
