// Teacher forcing: the loss of a decoder for given target tokens, and guided alignment.
#pragma once

#include <span>
#include <vector>

#include <attune/autograd/loss.hpp>
#include <attune/models/decoder.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::models {

template <Decoder M>
using Unrolled =
    DecoderSteps<decltype(std::declval<const M&>().read(Tensor())), typename M::Output>;

/// Runs all steps of a decoder on given target tokens (teacher forcing): previous (T, B) i32 is
/// `<s>` y_1 .. y_{T-1}, mask (T, B) is 1 on tokens. Without a mask, there is no padding. Outputs
/// at steps with mask 0 are unspecified. Pass weights = false if attention weights are not needed.
/// Throws on shapes that do not fit, and, with a recurrent decoder, if T = 0.
template <Decoder M, Source Encoded>
Unrolled<M> unroll(const M& model, const Encoded& encoded, const Tensor& previous,
                   const Mask& mask = {}, bool weights = true) {
  ShapeCheck check("unroll");
  check("the source's mask", encoded.mask, "S B")("previous", previous, "T B");
  if (mask.defined()) check("mask", mask, "T B");
  if constexpr (requires { model.unroll(encoded, previous, mask, weights); }) {
    return model.unroll(encoded, previous, mask, weights);
  } else {
    if (previous.dim(0) == 0) fail("unroll", "previous has no steps, T = 0");
    auto state = model.start(encoded);
    Unrolled<M> unrolled{.words = model.read(previous), .outputs = {}, .weights = {}};
    unrolled.outputs.reserve(static_cast<std::size_t>(previous.dim(0)));
    for (Index t = 0; t < previous.dim(0); ++t) {
      auto step = model.step(unrolled.words[t], state);
      unrolled.outputs.push_back(std::move(step.output));
      if (weights && step.weights.defined()) unrolled.weights.push_back(std::move(step.weights));
      state = std::move(step.state);
    }
    return unrolled;
  }
}

// ---- Guided alignment: supervision of attention by word alignments (Chen, Matusov, Khadivi and
// Peter, 2016, "Guided alignment training for topic-aware neural machine translation"; Liu,
// Utiyama, Finch and Sumita, 2016, "Neural machine translation with supervised attention")

/// A target for the attention weights, and the weight of its loss.
struct Guide {
  Tensor alignment = {};  // (T, S, B), see alignment_guide(); undefined means no guide
  double weight = 1;      // factor of guided_alignment_loss
};

/// Converts links between words to links between all tokens of these words. `source` and `target`
/// have the word index of each token, or -1, see text::words_of_tokens.
text::Alignment token_links(const text::Alignment& words, std::span<const int> source,
                            std::span<const int> target);

/// The guide A (T, S, B) for a batch, from the links between the tokens of each sentence pair. If
/// target token t has n links, A_tsb = 1/n for each linked source token s; all others are 0. Rows of
/// tokens without links, such as `</s>`, are 0. The dtype is f64. Throws unless there is one
/// alignment per sentence, and if a link is out of range.
Tensor alignment_guide(std::span<const text::Alignment> links, const text::Batch& batch);

/// Cross-entropy of the attention weights α and the guide A, both (T, S, B), averaged over the
/// target tokens with links -> scalar:
///
///     - Σ_t Σ_s A_ts log(α_ts + 10⁻¹⁰) / Σ_t Σ_s A_ts
///
/// 0 if there are no links. A weight of exactly 0, such as outside of a window, gets no gradient.
Var guided_alignment_loss(const Var& weights, const Tensor& guide);

// ---- Output vocabulary

/// The tokens that a decoder can generate. The others get probability 0, and the probabilities of
/// the tokens that remain are normalised to a sum of 1.
enum class OutputTokens {
  words,    ///< all but `<pad>`, `<s>` and `<unk>`; `</s>` only as the end token
  unknown,  ///< as `words`, and `<unk>`
  all,      ///< all tokens, for a vocabulary without special tokens
};

/// The ids of the tokens that are not generated.
std::vector<std::int32_t> excluded_tokens(OutputTokens output_tokens,
                                          std::int32_t end = text::Vocabulary::end);

// ---- Loss

struct LossOptions {
  double label_smoothing = 0;  // ε, spread over output_tokens, see CrossEntropyOptions
  double coverage = 0;         // λ of the coverage loss (See et al., 2017, equation 13)
  Guide guide = {};
  OutputTokens output_tokens = OutputTokens::words;

  /// Whether the loss depends on attention weights.
  bool attends() const { return coverage != 0 || guide.alignment.defined(); }
};

using Target = text::TargetBatch;

namespace detail {

Var loss(const AffineLogits& logits, const std::vector<Var>& weights, const Tensor& next,
         const Tensor& mask, const LossOptions& options);

}  // namespace detail

/// The training loss under teacher forcing: mean cross-entropy per target token, including `</s>`,
/// plus λ · the mean coverage_loss per token, plus guide.weight · guided_alignment_loss. Throws if
/// a model without attention has λ or a guide. If the model's `logits` returns AffineLogits, the
/// loss is computed without storing all logits.
template <Decoder M, Source Encoded>
Var loss(const M& model, const Encoded& encoded, const Target& target,
         const LossOptions& options = {}) {
  const Unrolled<M> all = unroll(model, encoded, target.previous, target.mask, options.attends());
  return detail::loss({model.logits(all.words, all.outputs)}, all.weights, target.next, target.mask,
                      options);
}

template <WordModel M>
Var loss(const M& model, const text::Batch& batch, const LossOptions& options = {}) {
  return loss(model, model.encode(batch.source, batch.source_mask),
              Target{batch.previous, batch.next, batch.target_mask}, options);
}

}  // namespace attune::models
