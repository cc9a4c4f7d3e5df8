// Greedy and beam search with any decoder.
#pragma once

#include <attune/models/decoding.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/models/text/vocabulary.hpp>

namespace attune::models {

/// By what the log-probability of a sentence of |Y| words, `</s>` included, is divided:
///  * length: |Y|ᵅ
///  * shifted: ((5 + |Y|) / 6)ᵅ  (Wu et al., 2016, equation 14)
enum class LengthNormalization { length, shifted };

/// Hypotheses are ranked by what Wu et al. (2016) call s(Y, X) in equation 14, with p_ij the weight
/// of source word i as target word j, or `</s>`, was written:
///     s = log P(Y|X) / lp(Y) + β Σ_i log(min(Σ_j p_ij, 1))
/// α (`length_penalty`, 0.6 to 1 there) makes up for the log-probability that every word costs, β
/// for source words that were left out. One that had no weight at all counts as if it had 10⁻¹⁰.
struct SearchOptions {
  Index beam = 1;              // K; 1 is greedy search
  Index max_length = 100;      // most words; one more step may then write `</s>`
  bool within_source = false;  // whether there may be no more words than places of the source
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

/// The best hypotheses for each sentence of a batch: of words, or of whatever the decoder starts
/// from. Ties are broken by the order of hypotheses and words, so the result is the same every
/// time. Any word may be written that the model gives a probability, `<unk>` and `<s>` too.
///
/// At each step the continuations with the largest log-probability go on; it is normalised only
/// when a hypothesis is finished, which then keeps its place among the K. The search of a sentence
/// ends when K are finished, or when no running hypothesis can come among the `best` any more:
/// log-probabilities only fall, and the coverage term is at most 0, so its score is at most log P
/// so far, divided by the largest lp that it can reach. With α = 0 the search ends early; with
/// α = 1 it seldom ends before `max_length`.
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

}  // namespace attune::models
