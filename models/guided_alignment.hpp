// Guided alignment: supervision of attention by word alignments (Chen, Matusov, Khadivi and Peter,
// 2016, "Guided alignment training for topic-aware neural machine translation"; Liu, Utiyama, Finch
// and Sumita, 2016, "Neural machine translation with supervised attention").
#pragma once

#include <span>

#include <attune/autograd/var.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/models/text/corpus.hpp>

namespace attune::models {

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

}  // namespace attune::models
