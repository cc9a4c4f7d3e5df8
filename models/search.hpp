// Decoding word by word: greedy and beam search, sampling, and forced decoding.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <attune/models/decoder.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/models/unroll.hpp>
#include <attune/tensor/random.hpp>

namespace attune::models {

/// A decoded sentence.
struct Hypothesis {
  std::vector<std::int32_t> words;             // without `</s>`
  std::vector<double> word_log_probabilities;  // of each word, and of `</s>` when `complete`
  double log_probability = 0;                  // their sum
  double score = 0;                            // by which a search ranks
  bool complete = false;                       // ends with `</s>`; otherwise cut at max_length
  /// (steps, S) f32: attention at each word, and at `</s>`; undefined without attention.
  Tensor weights;
};

/// The text of a hypothesis of the sentence of that number.
using TextOf = std::function<std::string(const Hypothesis& hypothesis, Index number)>;

/// The hypotheses of one sentence, best first; a sampled one has no others.
using Translation = std::vector<Hypothesis>;

/// The tokens of a hypothesis. Each `<unk>` becomes the source token with the largest attention
/// weight, the first of equals (Jean et al., 2015, section 3.3; Luong et al., 2015, "Effective
/// approaches", section 4.2). `source` has the tokens of the text, none replaced by `<unk>`. Throws
/// when their number is not that of the weights, and on an `<unk>` without weights.
std::vector<std::string> replace_unknown(const Hypothesis& hypothesis,
                                         std::span<const std::string> source,
                                         const text::Vocabulary& target);

// ---- Search and sampling

/// Each word is drawn from p_v ∝ exp(x_v / temperature) of the logits x, among the likeliest words:
/// at most `top_k` (Fan et al., 2018), and the fewest with the total probability `top_p` (nucleus
/// sampling, Holtzman et al., 2020). Of words with equal probabilities the smaller counts as
/// likelier.
struct SamplingOptions {
  double temperature = 1;  // below 1 the likely words become likelier
  Index top_k = 0;         // 0: all words
  double top_p = 1;
  std::uint64_t seed = 1;
};

/// Hypotheses are ranked by s(Y, X) of Wu et al. (2016), equation 14, with p_ij the attention
/// weight of source word i at target word j, or at `</s>`:
///     s = log P(Y|X) / |Y|ᵅ + β Σ_i log(min(Σ_j p_ij, 1))
/// with |Y| words, `</s>` included. α (`length_penalty`; in the paper 0.6 to 0.7 with |Y|ᵅ) offsets
/// the cost of each word; β penalises source words without attention. Σ_j p_ij is at least 10⁻¹⁰.
struct SearchOptions {
  Index beam = 1;               // K; 1 is greedy search
  Index max_length = 100;       // most words; one more step may then write `</s>`
  bool within_source = false;   // no more words than the source has places
  double length_penalty = 0;    // α
  double coverage_penalty = 0;  // β
  Index best = 1;               // how many of the K it returns
  bool weights = true;          // whether the hypotheses have weights
  OutputTokens output_tokens = OutputTokens::words;
  /// `<s>` and `</s>`. Without an end word (-1), as language models of characters may have none,
  /// every sentence is max_length words long.
  std::int32_t begin = text::Vocabulary::begin, end = text::Vocabulary::end;
  /// Draws one sentence for each source instead of searching: beam, best and penalties do not matter.
  std::optional<SamplingOptions> sampling = {};
};

namespace detail {

struct NextScores {
  Tensor logits;   // (rows, V)
  Tensor weights;  // (S, rows) or undefined
};
/// One step of a model for each running hypothesis, after its last word, words (1, rows) i32.
/// Before it, the model's state moves to `rows` (i32), unless that is null. Finished sentences have
/// no rows.
using NextStep = std::function<NextScores(const Tensor& words, const Tensor* rows)>;

/// Moves the model to its first state, of these sentences (i32).
using Restart = std::function<void(const Tensor& sentences)>;

/// Steps until all sentences of a batch are finished. `numbers` are theirs. With `text`, a search
/// returns hypotheses of other texts, for which it may have to restart.
std::vector<Translation> decode(const Tensor& source_mask, SearchOptions options,
                                std::span<const Index> numbers, const NextStep& step,
                                const TextOf& text = {}, const Restart& restart = {});

template <Decoder M, Source Encoded>
std::vector<Translation> decode(const M& model, const Encoded& encoded,
                                const SearchOptions& options, std::span<const Index> numbers = {},
                                const TextOf& text = {}) {
  const Inference inference;
  auto state = model.start(encoded);
  const auto step = [&](const Tensor& last, const Tensor* rows) {
    if (rows) state = model.select(state, *rows);
    const auto words = model.read(last);
    auto next_step = model.step(words[0], state);
    std::vector<typename M::Output> outputs;
    outputs.push_back(std::move(next_step.output));
    state = std::move(next_step.state);
    return NextScores{Var(model.logits(words, outputs)).value()[0], Var(next_step.weights).value()};
  };
  return decode(encoded.mask, options, numbers, step, text, [&](const Tensor& sentences) {
    state = model.select(model.start(encoded), sentences);
  });
}

}  // namespace detail

/// The best hypotheses for each source of a batch, by score. Ties go to the earlier hypothesis and
/// the smaller word, so results are reproducible. At max_length a hypothesis is complete if `</s>`
/// is its likeliest next word, else cut; its score is that of the words it has.
///
/// Each step keeps the continuations with the largest log-probability; length normalisation applies
/// to finished hypotheses, which keep their place among the K. The search of a sentence ends when K
/// are finished, or when no running hypothesis can reach the `best` any more: log-probabilities
/// only fall and the coverage term is at most 0, so a score is at most log P so far, divided by the
/// largest |Y|ᵅ within reach. With α = 0 the search ends early, with α = 1 seldom before
/// `max_length`.
///
/// Throws on a source without words, on scores that are NaN, and on β > 0 without attention.
template <Decoder M, Source Encoded>
std::vector<Translation> search(const M& model, const Encoded& encoded,
                                const SearchOptions& options = {}) {
  return detail::decode(model, encoded, options);
}
template <WordModel M>
std::vector<Translation> search(const M& model, const text::SourceBatch& batch,
                                const SearchOptions& options = {}) {
  const detail::Inference inference;
  return search(model, model.encode(batch.source, batch.mask), options);
}

/// Draws one sentence for each source. Log-probabilities, which are the scores too, are the model's
/// own, at temperature 1 and over all words that it writes. The sentence depends on the seed and on its number in
/// `numbers` (default: 0 to B - 1), not on the batch. Throws on a source without words and on
/// scores that are NaN.
template <Decoder M, Source Encoded>
std::vector<Hypothesis> sample(const M& model, const Encoded& encoded,
                               const SamplingOptions& sampling = {}, SearchOptions options = {},
                               std::span<const Index> numbers = {}) {
  options.sampling = sampling;
  std::vector<Hypothesis> drawn;
  for (Translation& one : detail::decode(model, encoded, options, numbers))
    drawn.push_back(std::move(one.front()));
  return drawn;
}

// ---- Given words

namespace detail {

/// weights (T, S, B) or undefined
std::vector<Hypothesis> forced_hypotheses(const AffineLogits& logits, const Tensor& weights,
                                          const Tensor& source_mask, const Target& target,
                                          const SearchOptions& options);

}  // namespace detail

/// The targets as hypotheses: log-probabilities of each word and of `</s>`, as a search computes
/// them, and weights (steps, source words) f32, `</s>` included, without padding. The score is the
/// log-probability. Of the options `writes`, to which each sentence adds the words of its target,
/// `end` and `weights` matter. Throws on a target that does not end with `end`.
template <Decoder M, Source Encoded>
std::vector<Hypothesis> force_decode(const M& model, const Encoded& encoded, const Target& target,
                                     const SearchOptions& options = {}) {
  const detail::Inference inference;
  const Unrolled<M> all = unroll(model, encoded, target.previous, target.mask, options.weights);
  return detail::forced_hypotheses(AffineLogits{model.logits(all.words, all.outputs)},
                                   all.weights.empty() ? Tensor() : stack(all.weights).value(),
                                   encoded.mask, target, options);
}
template <WordModel M>
std::vector<Hypothesis> force_decode(const M& model, const text::Batch& batch,
                                     const SearchOptions& options = {}) {
  const detail::Inference inference;
  return force_decode(model, model.encode(batch.source, batch.source_mask),
                      Target{batch.previous, batch.next, batch.target_mask}, options);
}

// ---- Many sentences, sorted by length and cut into batches

struct TranslateOptions {
  SearchOptions how = {};
  Index sentences = 64;      // most in a batch
  Index words = 8192;        // most in a batch, padding included; a longer sentence stands alone
  DType dtype = DType::f32;  // of the model's parameters
  Index first = 0;           // number of the first sentence, by which each is sampled
  /// Of hypotheses with one text, which subwords may have, only the best is returned. Where that
  /// leaves fewer than `best`, the search is repeated with a beam twice as wide, up to 1,024.
  TextOf text = {};
};

namespace detail {
/// Translates a batch; `numbers` are those of its sentences.
using TranslateBatch = std::function<std::vector<Translation>(const text::SourceBatch& batch,
                                                              std::span<const Index> numbers)>;
std::vector<Translation> translate(std::span<const text::Sentence> sources,
                                   const TranslateOptions& options, const TranslateBatch& batch);
}  // namespace detail

/// The translations of sentences, in their order. A sentence without words has one hypothesis,
/// which is complete, without words, and has log-probability 0. The results are the same however
/// sentences are batched. Throws as `search` and `sample` do, and on limits below 1.
template <WordModel M>
std::vector<Translation> translate(const M& model, std::span<const text::Sentence> sources,
                                   const TranslateOptions& options = {}) {
  const detail::Inference inference;
  return detail::translate(
      sources, options, [&](const text::SourceBatch& batch, std::span<const Index> numbers) {
        const auto encoded = model.encode(batch.source, batch.mask);
        return detail::decode(model, encoded, options.how, numbers, options.text);
      });
}

}  // namespace attune::models
