// Decoding of models that are trained with CTC (Graves et al., 2006), alone and together with
// attention.
#pragma once

#include <attune/autograd/ops.hpp>
#include <attune/models/decoder.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {

struct CtcSearchOptions {
  Index beam = 16;  // prefixes that the search keeps at each frame
  Index best = 1;   // how many of them it returns
  std::int32_t blank = 0;
};

/// Labels and their log-probability, summed over the paths that the search keeps.
struct CtcHypothesis {
  text::Sentence labels;
  double log_probability = 0;
};

/// For each sentence the most likely labels, best first, by a search over prefixes, frame by frame
/// (Hannun et al., 2014, algorithm 1, without a language model): paths that differ only in how they
/// stretch the labels are added up. With a beam large enough for all prefixes it is exact. Throws
/// unless 1 <= best <= beam, and on logits that are NaN.
std::vector<std::vector<CtcHypothesis>> ctc_search(const Tensor& logits, const Tensor& mask,
                                                   const CtcSearchOptions& options = {});

/// Attention and CTC on one source: "Hybrid CTC/attention architecture for
/// end-to-end speech recognition" (Watanabe, Hori, Kim, Hershey and Hayashi, 2017).
struct JointCtcOptions {
  double weight = 0.3;  // λ, in (0, 1]
  std::int32_t blank = text::Vocabulary::pad;
  std::int32_t begin = text::Vocabulary::begin, end = text::Vocabulary::end;
};

/// CTC's probability that the labels of one sentence begin with a given prefix.
class CtcPrefix {
 public:
  /// No labels yet. log_p (S, V) f64: the log-probabilities of the symbols at each frame.
  CtcPrefix(Tensor log_p, const JointCtcOptions& options);

  /// One label further; `begin` is none.
  CtcPrefix extended(std::int32_t label) const;
  /// For each symbol the log-probability that it comes next, and at `end` that nothing does
  /// (algorithm 2 of the paper, as a share of the probability of the prefix). log 0 for the blank
  /// and for `begin`.
  std::vector<double> next() const;

 private:
  double log_p(Index t, std::int32_t v) const;
  /// Log-probability of all paths over the first t frames that `label` may follow.
  double before(Index t, std::int32_t label) const;

  Tensor log_p_;
  JointCtcOptions options_;
  std::int32_t last_;
  // γ of the paper: after t frames, of all paths that read the prefix and end with a blank, and
  // with its last label.
  std::vector<double> ends_blank_, ends_label_;
};

/// A source for attention and CTC.
template <Source Encoded>
struct CtcEncoded : Encoded {
  Tensor logits;  // (S, B, V): what CTC makes of the annotations
};

namespace detail {

/// One for each sentence.
std::vector<CtcPrefix> ctc_prefixes(const Tensor& logits, const Tensor& mask,
                                    const JointCtcOptions& options);
/// CtcPrefix::next of each row: (B, V) f64
Tensor next_of(const std::vector<CtcPrefix>& prefixes);

}  // namespace detail

/// A decoder with p(y) ∝ p_att(y)^(1-λ) p_ctc(y)^λ for the next word y, where p_ctc(y) is the
/// probability that y continues the prefix. CTC reads the source in order only, which keeps
/// attention from skipping or repeating. The paper ranks by the plain sum of the logarithms; here
/// the probabilities of each step are normalised to a sum of 1, so that a word on which the two
/// disagree costs less. JointCtc is a Decoder for search, whose begin and end words must be those
/// of the options. CTC's part has no gradient. Keeps a pointer to the decoder.
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
    std::vector<CtcPrefix> prefixes;  // of each row
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

  /// log p (T, B, V), up to a constant of each word
  Var logits(const Words& words, const std::vector<Output>& outputs) const {
    std::vector<typename M::Output> own;
    std::vector<Var> ctc;
    for (const Output& output : outputs) {
      own.push_back(output.own);
      ctc.push_back(output.ctc);
    }
    const Var heard = stack(ctc);
    if (options_.weight == 1) return heard;  // where attention says 0, 0 log 0 would be NaN
    const Var attention = log_softmax(decoder_->logits(words.own, own), -1);
    ShapeCheck check("JointCtc");
    check("attention's logits", attention, "T B V")("CTC's", heard, "T B V");
    return (1 - options_.weight) * attention +
           options_.weight * heard.value().to(attention.dtype());
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
