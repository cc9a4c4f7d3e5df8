#include <fmt/format.h>

#include <attune/models/forced.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/normalize.hpp>

namespace attune::models::detail {
namespace {

void check_shapes(const Tensor& logits, const Tensor& weights, const Tensor& source_mask,
                  const Target& target) {
  ShapeCheck check("force_decode");
  check("next", target.next.shape(), "T B")("logits", logits.shape(), "T B V");
  if (!weights.defined()) return;
  check("source", source_mask.shape(), "S B")("weights", weights.shape(), "T S B");
}

/// log p of each word of a batch (T, B).
Tensor log_probabilities(const Tensor& logits, const Target& target) {
  return -cross_entropy_forward(logits.reshape({-1, logits.dim(-1)}), target.next.reshape({-1}),
                                target.mask.to(logits.dtype()).reshape({-1}))
              .loss.reshape(target.next.shape());
}

/// Sentence b of words or log-probabilities (T, B).
template <class T>
std::vector<T> sentence(const Tensor& x, Index b, Index steps) {
  return slice(x.slice(0, steps), 1, b, b + 1).to_vector<T>();
}

}  // namespace

std::vector<Hypothesis> forced_hypotheses(const Forced& forced, const Tensor& source_mask,
                                          const Target& target, std::int32_t end) {
  const Tensor logits = forced.logits.value(), of_heads = forced.weights.value();
  const Tensor weights = of_heads.rank() == 4 ? mean(of_heads, {1}) : of_heads;
  check_shapes(logits, weights, source_mask, target);
  const Tensor log_p = log_probabilities(logits, target);
  const auto target_lengths = lengths_of(target.mask), source_lengths = lengths_of(source_mask);
  std::vector<Hypothesis> hypotheses(target_lengths.size());
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    Hypothesis& h = hypotheses[i];
    const Index b = static_cast<Index>(i), steps = target_lengths[i];
    h.words = sentence<std::int32_t>(target.next, b, steps);
    if (h.words.empty() || h.words.back() != end)
      fail("force_decode", fmt::format("target {} does not end with word {}", i, end));
    h.words.pop_back();
    h.word_log_probabilities = sentence<double>(log_p, b, steps);
    for (double log_probability : h.word_log_probabilities) h.log_probability += log_probability;
    h.score = h.log_probability;
    h.complete = true;
    if (!weights.defined()) continue;
    const Tensor own = slice(weights.slice(0, steps), 2, b, b + 1);  // (steps, S, 1)
    h.weights = slice(own, 1, 0, source_lengths[i]).reshape({steps, -1}).to(DType::f32);
  }
  return hypotheses;
}

}  // namespace attune::models::detail
