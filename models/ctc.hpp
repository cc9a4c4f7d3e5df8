// Decoding for CTC (connectionist temporal classification; Graves et al., 2006): prefix beam
// search, and joint decoding with an attention decoder.
#pragma once

#include <attune/autograd/ops.hpp>
#include <attune/models/decoder.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::models {

struct CtcSearchOptions {
  Index beam = 16;         // number of prefixes kept after each frame
  Index best = 1;          // number of hypotheses returned per sentence
  std::int32_t blank = 0;  // id of the blank label
};

/// A label sequence and its log-probability, summed over the alignments (paths) in the beam.
struct CtcHypothesis {
  text::Sentence labels;
  double log_probability = 0;
};

/// CTC prefix beam search (Hannun et al., 2014, algorithm 1, without a language model): for each
/// sentence the most probable label sequences, best first. Sums the probabilities of all paths with
/// the same labels. The result is exact if the beam holds all prefixes. logits (S, B, V), mask
/// (S, B). Throws unless 1 <= best <= beam, and if a logit is NaN or inf.
std::vector<std::vector<CtcHypothesis>> ctc_search(const Tensor& logits, const Tensor& mask,
                                                   const CtcSearchOptions& options = {});

/// Joint CTC/attention decoding: "Hybrid CTC/attention architecture for end-to-end speech
/// recognition" (Watanabe, Hori, Kim, Hershey and Hayashi, 2017).
struct JointCtcOptions {
  double weight = 0.3;  // λ, the weight of CTC, in (0, 1]
  std::int32_t blank = text::Vocabulary::pad;
  std::int32_t begin = text::Vocabulary::begin, end = text::Vocabulary::end;
};

/// A prefix of the labels of one sentence, for CTC prefix probabilities.
class CtcPrefix {
 public:
  /// The empty prefix. log_p (S, V) f64: log-probabilities of the symbols at each frame. Throws
  /// if one is NaN, and unless blank, begin and end are in 0 to V - 1.
  CtcPrefix(Tensor log_p, const JointCtcOptions& options);

  /// This prefix, extended by one label; unchanged if the label is options.begin.
  CtcPrefix extended(std::int32_t label) const;
  /// For each symbol, the log-probability that it follows, given that the labels begin with this
  /// prefix (algorithm 2 of the paper, divided by the probability of the prefix). The entry
  /// options.end is that of no further label. The entries blank and begin are log 0.
  std::vector<double> next() const;

 private:
  double log_p(Index t, std::int32_t v) const;
  /// Log-probability of the paths over the first t frames after which `label` can follow.
  double before(Index t, std::int32_t label) const;

  Tensor log_p_;
  JointCtcOptions options_;
  std::int32_t last_;
  // γ of the paper at [t]: log-probability of the paths over the first t frames that collapse to
  // the prefix and end with a blank, or with the last label.
  std::vector<double> ends_blank_, ends_label_;
};

/// An encoded source with CTC logits, for joint decoding.
template <Source Encoded>
struct CtcEncoded : Encoded {
  Tensor logits;  // (S, B, V): CTC logits, computed from the annotations
};

namespace detail {

/// The empty prefix of each sentence.
std::vector<CtcPrefix> ctc_prefixes(const Tensor& logits, const Tensor& mask,
                                    const JointCtcOptions& options);
/// CtcPrefix::next of each prefix: (B, V) f64
Tensor next_of(const std::vector<CtcPrefix>& prefixes);

}  // namespace detail

/// A Decoder that combines an attention decoder with CTC: p(y) ∝ p_att(y)^(1-λ) p_ctc(y)^λ for the
/// next token y, where p_ctc is CtcPrefix::next. CTC alignments are monotonic, which prevents
/// attention from skipping or repeating parts of the source. Unlike the paper, which adds the
/// logarithms, the probabilities of each step are normalised to a sum of 1, so a token on which the
/// two disagree costs less. SearchOptions must have the begin and end tokens of JointCtcOptions.
/// p_ctc has no gradient. Stores a pointer to the decoder, which must outlive it.
template <Decoder M>
class JointCtc {
 public:
  using OwnWords = decltype(std::declval<const M&>().read(Tensor()));
  struct WordStep {
    std::decay_t<decltype(std::declval<OwnWords>()[0])> own;
    Tensor ids;  // (B)
  };
  struct Words {
    OwnWords own;
    Tensor ids;  // (T, B)
    WordStep operator[](Index t) const { return {own[t], ids[t]}; }
  };
  struct State {
    typename M::State own;
    std::vector<CtcPrefix> prefixes;  // one per row of the batch
  };
  struct Output {
    typename M::Output own;
    Tensor ctc;  // (B, V) f64: log-probabilities
  };
  using Step = DecoderStep<Output, State>;

  /// Throws unless 0 < λ <= 1.
  explicit JointCtc(const M& decoder, const JointCtcOptions& options = {})
      : decoder_(&decoder), options_(options) {
    if (!(options.weight > 0 && options.weight <= 1))
      fail("JointCtc", "the weight is not in (0, 1]");
  }

  template <Source Encoded>
  State start(const CtcEncoded<Encoded>& source) const {
    return {decoder_->start(source), detail::ctc_prefixes(source.logits, source.mask, options_)};
  }

  Words read(const Tensor& previous) const { return {decoder_->read(previous), previous}; }

  Step step(const WordStep& words, const State& state) const {
    auto own = decoder_->step(words.own, state.own);
    const Tensor& labels = words.ids;
    std::vector<CtcPrefix> prefixes;
    for (const auto label : labels.to_vector<std::int32_t>())
      prefixes.push_back(state.prefixes[prefixes.size()].extended(label));
    Output output{std::move(own.output), detail::next_of(prefixes)};
    return {std::move(output), own.weights, {std::move(own.state), std::move(prefixes)}};
  }

  /// log p (T, B, V), up to an additive constant per step and sentence
  Var logits(const Words& words, const std::vector<Output>& outputs) const {
    std::vector<typename M::Output> own;
    std::vector<Var> ctc;
    for (const Output& output : outputs) {
      own.push_back(output.own);
      ctc.push_back(output.ctc);
    }
    const Var ctc_log_p = stack(ctc);
    if (options_.weight == 1) return ctc_log_p;  // else 0 · log 0 could be NaN
    const Var attention = log_softmax(Var(decoder_->logits(words.own, own)), -1);
    ShapeCheck check("JointCtc");
    check("attention's logits", attention, "T B V")("CTC's", ctc_log_p, "T B V");
    return (1 - options_.weight) * attention +
           options_.weight * ctc_log_p.value().to(attention.dtype());
  }

  State select(const State& state, const Tensor& rows) const {
    State selected{decoder_->select(state.own, rows), {}};
    for (const auto row : rows.to_vector<std::int32_t>())
      selected.prefixes.push_back(state.prefixes[static_cast<std::size_t>(row)]);
    return selected;
  }

 private:
  const M* decoder_;
  JointCtcOptions options_;
};

}  // namespace attune::models
