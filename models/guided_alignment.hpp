// Attention that is shown word alignments while it learns (Chen, Matusov, Khadivi and Peter, 2016,
// "Guided alignment training for topic-aware neural machine translation"; Liu, Utiyama, Finch and
// Sumita, 2016, "Neural machine translation with supervised attention").
#pragma once

#include <span>

#include <attune/autograd/var.hpp>
#include <attune/models/text/alignment.hpp>
#include <attune/models/text/batches.hpp>

namespace attune::models {

/// Where attention should look, and how much that counts in a model's loss.
struct Guide {
  Tensor alignment = {};  // (T, S, B), see alignment_guide(); undefined: there is none
  double weight = 1;
};

/// Links between words as links between all their tokens; `source` and `target` have the word of
/// each token, or -1 (text::words_of_tokens).
text::Alignment token_links(const text::Alignment& words, std::span<const int> source,
                            std::span<const int> target);

/// A of shape (T, S, B), of the dtype of the batch's masks, from the links between the tokens of
/// each pair: 1/n where a target token has a link, n being how many it has, else 0. Tokens without
/// links, `</s>` among them, have nothing but zeros. Throws when there are not as many alignments
/// as sentences, and for a link to a token which is not there.
Tensor alignment_guide(std::span<const text::Alignment> links, const text::Batch& batch);

/// The cross-entropy of attention α and the guide A, for the mean target token that has a link:
///
///     - Σ_t Σ_s A_ts log(α_ts + 10⁻¹⁰) / Σ_t Σ_s A_ts
///
/// weights (T, S, B) or (T, heads, S, B), of which the mean over the heads counts; guide (T, S, B).
/// 0 without links. A weight of exactly 0, outside of a window, is not drawn to its link.
Var guided_alignment_loss(const Var& weights, const Tensor& guide);

}  // namespace attune::models
