// Greedy and beam search over anything that has `start` and `step`.
#pragma once

#include <concepts>
#include <memory>
#include <vector>

#include <attune/autograd/ops.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/models/text/vocabulary.hpp>

namespace attune::models {

/// What a search needs of a model; see Bahdanau for what the calls mean. State is a value. The
/// weights are (S, B), (heads, S, B), or undefined in a model without attention.
template <class M>
concept Decoder = requires(const M& model, const Tensor& ids, const Tensor& mask) {
  {model.start(ids, mask)};
  { model.step(ids, model.start(ids, mask)).readout } -> std::convertible_to<Var>;
  { model.step(ids, model.start(ids, mask)).weights } -> std::convertible_to<Var>;
  {
    model.step(ids, model.start(ids, mask)).state
    } -> std::convertible_to<decltype(model.start(ids, mask))>;
  { model.logits(Var()) } -> std::convertible_to<Var>;
  {
    model.select(model.start(ids, mask), ids)
    } -> std::convertible_to<decltype(model.start(ids, mask))>;
};

struct SearchOptions {
  Index beam = 1;          // K; 1 is greedy search
  Index max_length = 100;  // most words; one more step may then write </s>
  double length_penalty =
      0;           // hypotheses are ranked by log-probability / lengthᵅ (Wu et al., 2016: 0.6-1)
  Index best = 1;  // how many of the K to return
};

/// A sentence that was written.
struct Hypothesis {
  std::vector<std::int32_t> words;             // without </s>
  std::vector<double> word_log_probabilities;  // of each word, and of </s> when `complete`
  double log_probability = 0;                  // their sum
  double score = 0;                            // what it was ranked by
  bool complete = false;                       // it ended with </s>, not at max_length
  /// (steps, S) f32: attention at each word, and at </s>. Of several heads the mean; undefined
  /// where the model has no attention.
  Tensor weights;
};

namespace detail {

/// The bookkeeping of a search over a batch: which hypotheses go on, and which are finished. A
/// sentence that is finished takes no more part in the steps.
class Beam {
 public:
  Beam(const Tensor& source_mask, const SearchOptions& options);
  ~Beam();

  bool done() const;
  /// The words written last, one for each running hypothesis (i32).
  Tensor words() const;
  /// Rows of the model's state from which each running hypothesis goes on (i32); null when they are
  /// the rows as they are.
  const Tensor* rows() const;
  /// log-probabilities (rows, V) and weights (S, rows), (heads, S, rows) or undefined of the step.
  void advance(const Tensor& log_probabilities, const Tensor& weights_of_heads);
  /// For each sentence its best hypotheses: complete ones first, by score.
  std::vector<std::vector<Hypothesis>> results() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace detail

/// The best hypotheses for each sentence of a batch: source (S, B) i32 and mask (S, B). Ties are
/// broken by the order of hypotheses and words, so the result is the same every time. Any word may
/// be written that the model gives a probability, <unk> and <s> too. Throws on a source without
/// words and on scores that are NaN.
template <Decoder M>
std::vector<std::vector<Hypothesis>> search(const M& model, const Tensor& source,
                                            const Tensor& mask, const SearchOptions& options = {}) {
  const NoGrad no_grad;
  detail::Beam beam(mask, options);
  auto state = model.start(source, mask);
  while (!beam.done()) {
    if (const Tensor* rows = beam.rows()) state = model.select(state, *rows);
    auto step = model.step(beam.words(), state);
    const Tensor scores = log_softmax(model.logits(step.readout), -1).value();
    beam.advance(scores, Var(step.weights).value());
    state = std::move(step.state);
  }
  return beam.results();
}

}  // namespace attune::models
