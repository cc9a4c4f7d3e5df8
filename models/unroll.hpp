// Teacher forcing: a decoder's logits and loss under given words, and word alignments as a guide to
// its attention.
#pragma once

#include <span>
#include <vector>

#include <attune/autograd/loss.hpp>
#include <attune/models/decoder.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {

template <Decoder M>
using Unrolled =
    DecoderSteps<decltype(std::declval<const M&>().read(Tensor())), typename M::Output>;

/// All steps of a decoder under given words (teacher forcing), previous (T, B) i32:
/// `<s>` y_1 .. y_{T-1}. `read` and `logits` process all steps at once. `weights` says whether those
/// are needed. Outputs after the last step that the mask (T, B) has may be anything; without one, all
/// are needed.
template <Decoder M, Source Encoded>
Unrolled<M> unroll(const M& model, const Encoded& encoded, const Tensor& previous,
                   const Mask& mask = {}, bool weights = true) {
  ShapeCheck check("unroll");
  check("the source's mask", encoded.mask, "S B")("previous", previous, "T B");
  if (mask.defined()) check("mask", mask, "T B");
  if constexpr (requires { model.unroll(encoded, previous, mask, weights); }) {
    return model.unroll(encoded, previous, mask, weights);
  } else {
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

// ---- Attention that is shown word alignments while it learns (Chen, Matusov, Khadivi and Peter,
// 2016, "Guided alignment training for topic-aware neural machine translation"; Liu, Utiyama, Finch
// and Sumita, 2016, "Neural machine translation with supervised attention")

/// A target for the attention weights, and its weight in a model's loss.
struct Guide {
  Tensor alignment = {};  // (T, S, B), see alignment_guide(); undefined: there is none
  double weight = 1;
};

/// Links between words as links between all their tokens; `source` and `target` have the word of
/// each token, or -1 (text::words_of_tokens).
text::Alignment token_links(const text::Alignment& words, std::span<const int> source,
                            std::span<const int> target);

/// A of shape (T, S, B), of the dtype of the batch's masks or f32, from the links between the tokens of
/// each pair: 1/n where a target token has a link, n being how many it has, else 0. Tokens without
/// links, `</s>` among them, have nothing but zeros. Throws when there are not as many alignments
/// as sentences, and for a link to a token which is not there.
Tensor alignment_guide(std::span<const text::Alignment> links, const text::Batch& batch);

/// The cross-entropy of attention α and the guide A, averaged over target tokens that have a link:
///
///     - Σ_t Σ_s A_ts log(α_ts + 10⁻¹⁰) / Σ_t Σ_s A_ts
///
/// weights and guide (T, S, B). 0 without links. A weight of exactly 0, outside of a window, is not
/// drawn to its link.
Var guided_alignment_loss(const Var& weights, const Tensor& guide);

// ---- Words of probability 0

/// Which tokens a decoder writes. The others have probability 0, and those of its own sum to 1.
enum class OutputTokens {
  words,    ///< no `<pad>`, `<s>` and `<unk>` of a text::Vocabulary, and no `</s>` but as the end
  unknown,  ///< `<unk>`, too
  all,      ///< for a vocabulary without these tokens
};

/// The tokens that are not written.
std::vector<std::int32_t> excluded_tokens(OutputTokens output_tokens,
                                          std::int32_t end = text::Vocabulary::end);

// ---- Loss

struct LossOptions {
  double label_smoothing = 0;  // ε over the tokens that are written, see CrossEntropyOptions
  double coverage = 0;         // λ of the coverage loss (See et al., 2017, equation 13)
  Guide guide = {};
  OutputTokens output_tokens = OutputTokens::words;

  /// Whether it depends on the attention weights.
  bool attends() const { return coverage != 0 || guide.alignment.defined(); }
};

/// The words that a decoder learns to write.
using Target = text::TargetBatch;

namespace detail {

/// Of the logits and the weights of all steps.
Var loss(const AffineLogits& logits, const std::vector<Var>& weights, const Tensor& next,
         const Tensor& mask, const LossOptions& options);

}  // namespace detail

/// Mean cross-entropy of the target words, `</s>` included; plus λ · the mean coverage loss of a
/// word, and with a guide its weight times guided_alignment_loss. Throws where these are asked of a
/// model without attention. `logits` may return all of them, or an AffineLogits, of which the loss
/// does not store all.
template <Decoder M, Source Encoded>
Var loss(const M& model, const Encoded& encoded, const Target& target,
         const LossOptions& options = {}) {
  const Unrolled<M> all = unroll(model, encoded, target.previous, target.mask, options.attends());
  return detail::loss({model.logits(all.words, all.outputs)}, all.weights, target.next, target.mask,
                      options);
}

template <WordModel M>
Var loss(const M& model, const text::Batch& batch, const LossOptions& options = {}) {
  const auto encoded = model.encode(batch.source, batch.source_mask);
  const Unrolled<M> all =
      unroll(model, encoded, batch.previous, batch.target_mask, options.attends());
  return detail::loss({model.logits(all.words, all.outputs)}, all.weights, batch.next,
                      batch.target_mask, options);
}

}  // namespace attune::models
