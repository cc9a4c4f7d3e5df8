// Decoding for CTC (connectionist temporal classification; Graves et al., 2006): prefix beam
// search, and joint decoding with an attention decoder.
#pragma once

#include <attune/autograd/ops.hpp>
#include <attune/models/model.hpp>
#include <attune/models/text/batches.hpp>

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
std::vector<std::vector<CtcHypothesis>> ctc_search(const Tensor& logits, const Mask& mask,
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
  CtcPrefix extended(Integer label) const;
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
struct CtcEncoded {
  Model::Source source;     // of the attention decoder
  Tensor logits;            // (S, B, V): CTC logits, computed from the annotations
  Mask mask = source.mask;  // (S, B)
};

/// A Decoder that combines an attention decoder with CTC: p(y) ∝ p_att(y)^(1-λ) p_ctc(y)^λ for the
/// next token y, where p_ctc is CtcPrefix::next. CTC alignments are monotonic, which prevents
/// attention from skipping or repeating parts of the source. Unlike the paper, which adds the
/// logarithms, the probabilities of each step are normalised to a sum of 1, so a token on which the
/// two disagree costs less. SearchOptions must have the begin and end tokens of JointCtcOptions.
/// p_ctc has no gradient.
class JointCtc {
 public:
  struct State {
    Model::State own;
    std::vector<CtcPrefix> prefixes;  // one per row of the batch
  };

  /// Throws unless 0 < λ <= 1.
  explicit JointCtc(Model decoder, const JointCtcOptions& options = {});

  State start(const CtcEncoded& source) const;
  Tensor read(const Tensor& previous) const { return previous; }
  /// The output is log p (B, V), up to an additive constant per sentence.
  DecoderStep<Var, State> step(const Tensor& labels, const State& state) const;
  Var logits(const Tensor&, const std::vector<Var>& log_p) const { return stack(log_p); }
  State select(const State& state, const Tensor& rows) const;

 private:
  Model decoder_;
  JointCtcOptions options_;
};

}  // namespace attune::models
