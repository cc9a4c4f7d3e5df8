// Writing a batch of sentences word by word: greedy and beam search, sampling, and given words.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include <attune/models/decoder.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/models/text/vocabulary.hpp>
#include <attune/models/unroll.hpp>
#include <attune/tensor/random.hpp>

namespace attune::models {

/// A sentence that was written.
struct Hypothesis {
  std::vector<std::int32_t> words;             // without `</s>`
  std::vector<double> word_log_probabilities;  // of each word, and of `</s>` when `complete`
  double log_probability = 0;                  // their sum
  double score = 0;                            // what it was ranked by
  bool complete = false;                       // it ended with `</s>`, not at max_length
  /// (steps, S) f32: attention at each word, and at `</s>`. Of several heads the mean; undefined
  /// where the model has no attention.
  Tensor weights;
};

/// Translations of single tokens.
using Lexicon = std::unordered_map<std::string, std::string>;

/// The tokens of a hypothesis. Each `<unk>` becomes the source token with the largest attention
/// weight (the first of equals), or that token's entry in the lexicon (Jean et al., 2015, section
/// 3.3; Luong et al., 2015, "Effective approaches", section 4.2). `source` has the source tokens as
/// they were before any became `<unk>`. Throws when their number is not that of the weights, or on
/// an `<unk>` without weights.
std::vector<std::string> replace_unknown(const Hypothesis& hypothesis,
                                         std::span<const std::string> source,
                                         const text::Vocabulary& target,
                                         const Lexicon& lexicon = {});

namespace detail {

/// The running and the finished hypotheses of a batch. Finished sentences leave the batch. A derived
/// class chooses the words.
class Decoding {
 public:
  virtual ~Decoding() = default;

  bool done() const { return running_.empty(); }
  /// The words written last, one for each running hypothesis: (1, rows) i32.
  Tensor words() const;
  /// The row of the model's state that each running hypothesis continues (i32); null for the rows
  /// 0, 1, 2, ..., where no state has to move.
  const Tensor* rows() const { return rows_moved_ ? &rows_ : nullptr; }
  /// One step: logits (rows, V); weights (S, rows), (heads, S, rows) or undefined.
  void advance(const Tensor& logits, const Tensor& weights_of_heads);

 protected:
  struct History;

  /// A hypothesis that is not finished.
  struct Running {
    std::size_t sentence;
    std::shared_ptr<History> last;  // null before the first word
    double log_probability = 0;
    Index length = 0;
  };

  /// A continuation of a running hypothesis by one word.
  struct Candidate {
    Index row;
    std::int32_t word;
    double total;  // log-probability of the whole
  };

  /// The model's scores for the rows of one sentence.
  struct Scores {
    const Tensor& logits;       // (rows, V), of all sentences
    const Tensor& log_sum_exp;  // (rows)
    Index begin, end;           // the sentence's rows
  };

  Decoding(const char* operation, const Tensor& source_mask, Index max_length, std::int32_t begin,
           std::int32_t end, bool within_source = false);
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;

  /// The next words of one sentence. Several sentences are processed in parallel.
  virtual std::vector<Candidate> choose(const Scores& scores) = 0;
  /// What a finished hypothesis is ranked by.
  virtual double score(const Hypothesis& finished) const { return finished.log_probability; }
  /// Whether the hypotheses in `running` can no longer change the sentence's result.
  virtual bool settled(std::size_t, std::span<const Running>) const { return false; }

  const char* operation_;
  std::vector<Running> running_;  // one for each row of the model's next step
  std::vector<std::vector<Hypothesis>> finished_;

 private:
  void check_step(const Tensor& logits, const Tensor& weights) const;
  std::vector<std::vector<Candidate>> candidates(const Tensor& logits);
  Running extend(const Candidate& candidate, std::span<const float> weights) const;
  void finish(const Running& end, bool complete);

  Index source_steps_;
  std::vector<Index> most_words_;  // of each sentence
  std::int32_t begin_, end_;
  std::vector<Index> source_lengths_;
  Tensor rows_;
  bool rows_moved_ = false;
};

/// Runs a model until all sentences of a batch are finished.
template <Decoder M, Source Encoded>
void decode(const M& model, const Encoded& encoded, Decoding& decoding) {
  const detail::Inference inference;
  auto state = model.start(encoded);
  while (!decoding.done()) {
    if (const Tensor* rows = decoding.rows()) state = model.select(state, *rows);
    const auto words = model.read(decoding.words());
    auto step = model.step(words[0], state);
    const Var weights = step.weights;
    std::vector<typename M::Output> outputs;
    outputs.push_back(std::move(step.output));
    decoding.advance(Var(model.logits(words, outputs)).value()[0], weights.value());
    state = std::move(step.state);
  }
}

}  // namespace detail

// ---- Search

/// The divisor lp(Y) of the log-probability of |Y| words, `</s>` included:
///  * length: |Y|ᵅ
///  * shifted: ((5 + |Y|) / 6)ᵅ  (Wu et al., 2016, equation 14)
enum class LengthNormalization { length, shifted };

/// Hypotheses are ranked by s(Y, X) of Wu et al. (2016), equation 14, with p_ij the attention weight
/// of source word i at target word j, or at `</s>`:
///     s = log P(Y|X) / lp(Y) + β Σ_i log(min(Σ_j p_ij, 1))
/// α (`length_penalty`, 0.6 to 1 in the paper) offsets the log-probability that every word costs; β
/// penalises source words without attention. Σ_j p_ij is at least 10⁻¹⁰.
struct SearchOptions {
  Index beam = 1;              // K; 1 is greedy search
  Index max_length = 100;      // most words; one more step may then write `</s>`
  bool within_source = false;  // at most as many words as the source has places
  double length_penalty = 0;   // α
  LengthNormalization length_normalization = LengthNormalization::length;
  double coverage_penalty = 0;  // β
  Index best = 1;               // how many of the K to return
  std::int32_t begin = text::Vocabulary::begin, end = text::Vocabulary::end;  // `<s>`, `</s>`
};

namespace detail {

class Beam : public Decoding {
 public:
  Beam(const Tensor& source_mask, const SearchOptions& options);

  /// For each sentence its best hypotheses: complete ones first, by score.
  std::vector<std::vector<Hypothesis>> results() const;

 private:
  std::vector<Candidate> choose(const Scores& scores) override;
  double score(const Hypothesis& finished) const override;
  bool settled(std::size_t sentence, std::span<const Running> running) const override;
  double normalized(double log_probability, Index length) const;

  SearchOptions options_;
};

}  // namespace detail

/// The best hypotheses for each source of a batch. Ties go to the earlier hypothesis and the smaller
/// word, so results are reproducible. Any word with a probability may be written, `<unk>` and `<s>`
/// too.
///
/// Each step keeps the continuations with the largest log-probability; length normalisation applies
/// to finished hypotheses, which keep their place among the K. The search of a sentence ends when K
/// are finished, or when no running hypothesis can reach the `best` any more: log-probabilities only
/// fall and the coverage term is at most 0, so a score is at most log P so far, divided by the
/// largest lp within reach. With α = 0 the search ends early, with α = 1 seldom before `max_length`.
///
/// Throws on a source without words, on scores that are NaN, and on β > 0 without attention.
template <Decoder M, Source Encoded>
std::vector<std::vector<Hypothesis>> search(const M& model, const Encoded& encoded,
                                            const SearchOptions& options = {}) {
  detail::Beam beam(encoded.mask, options);
  detail::decode(model, encoded, beam);
  return beam.results();
}
template <WordModel M>
std::vector<std::vector<Hypothesis>> search(const M& model, const text::SourceBatch& batch,
                                            const SearchOptions& options = {}) {
  const detail::Inference inference;
  return search(model, model.encode(batch.source, batch.mask), options);
}

// ---- Sampling

/// Each word is drawn from p_v ∝ exp(x_v / temperature) of the logits x, among the likeliest words:
/// at most `top_k` (Fan et al., 2018), and the fewest with the total probability `top_p` (nucleus
/// sampling, Holtzman et al., 2020). Of words with equal probabilities the smaller counts as
/// likelier.
struct SamplingOptions {
  double temperature = 1;  // below 1 the likely words become likelier
  Index top_k = 0;         // 0: all words
  double top_p = 1;
  Index max_length = 100;  // most words; one more step may then write `</s>`
  std::uint64_t seed = 1;
  std::int32_t begin = text::Vocabulary::begin, end = text::Vocabulary::end;  // `<s>`, `</s>`
};

namespace detail {

class Sampler : public Decoding {
 public:
  Sampler(const Tensor& source_mask, const SamplingOptions& options,
          std::span<const Index> numbers);

  std::vector<Hypothesis> results() const;

 private:
  std::vector<Candidate> choose(const Scores& scores) override;

  SamplingOptions options_;
  std::vector<Random> random_;  // one for each sentence
};

}  // namespace detail

/// Draws one sentence for each source. Log-probabilities, which are the scores too, are the model's
/// own, at temperature 1 and over all words. The sentence depends on the seed and on its number in
/// `numbers` (default: 0 to B - 1), not on the batch. Throws on a source without words and on scores
/// that are NaN.
template <Decoder M, Source Encoded>
std::vector<Hypothesis> sample(const M& model, const Encoded& encoded,
                               const SamplingOptions& options = {},
                               std::span<const Index> numbers = {}) {
  detail::Sampler sampler(encoded.mask, options, numbers);
  detail::decode(model, encoded, sampler);
  return sampler.results();
}

// ---- Given words

namespace detail {
std::vector<Hypothesis> forced_hypotheses(const Forced& forced, const Tensor& source_mask,
                                          const Target& target, std::int32_t end);
}  // namespace detail

/// The targets as hypotheses: log-probabilities of each word and of `</s>`, and weights (steps,
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

// ---- Many sentences, sorted by length and cut into batches

struct TranslateOptions {
  std::variant<SearchOptions, SamplingOptions> how = SearchOptions{};
  Index sentences = 64;      // most in a batch
  Index words = 8192;        // most in a batch, padding included; a longer sentence stands alone
  DType dtype = DType::f32;  // of the model's parameters
  Index first = 0;           // number of the first sentence, by which each is sampled
};

/// The hypotheses of one sentence, best first; one where it is sampled.
using Translation = std::vector<Hypothesis>;

namespace detail {

/// Translates a batch; `numbers` are those of its sentences.
using TranslateBatch = std::function<std::vector<Translation>(const text::SourceBatch& batch,
                                                              std::span<const Index> numbers)>;
std::vector<Translation> translate(std::span<const text::Sentence> sources, Index first_number,
                                   const TranslateOptions& options, const TranslateBatch& batch);

template <WordModel M>
TranslateBatch translate_batch(const M& model, const TranslateOptions& options) {
  return [&](const text::SourceBatch& batch, std::span<const Index> numbers) {
    const detail::Inference inference;
    const auto encoded = model.encode(batch.source, batch.mask);
    if (const auto* how = std::get_if<SearchOptions>(&options.how))
      return search(model, encoded, *how);
    std::vector<Translation> translations;
    for (Hypothesis& h : sample(model, encoded, std::get<SamplingOptions>(options.how), numbers))
      translations.push_back({std::move(h)});
    return translations;
  };
}

}  // namespace detail

/// The translations of sentences, in their order. A sentence without words has one hypothesis,
/// which is complete, without words, and has log-probability 0. The results are the same however
/// sentences are batched, but for rounding. Throws as `search` and `sample` do, and on limits below
/// 1.
template <WordModel M>
std::vector<Translation> translate(const M& model, std::span<const text::Sentence> sources,
                                   const TranslateOptions& options = {}) {
  return detail::translate(sources, options.first, options,
                           detail::translate_batch(model, options));
}

}  // namespace attune::models
