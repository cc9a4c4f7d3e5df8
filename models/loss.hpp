// The training loss of a model under teacher forcing.
#pragma once

#include <cstdint>
#include <vector>

#include <attune/models/guided_alignment.hpp>
#include <attune/models/model.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/models/text/tokenizer.hpp>

namespace attune::models {

/// The tokens that a decoder can generate. The others get probability 0, and the probabilities of
/// the tokens that remain are normalised to a sum of 1.
enum class OutputTokens {
  words,    ///< all but `<pad>`, `<s>` and `<unk>`; `</s>` only as the end token
  unknown,  ///< as `words`, and `<unk>`
  all,      ///< all tokens, for a vocabulary without special tokens
};

/// The ids of the tokens that are not generated.
std::vector<std::int32_t> excluded_tokens(OutputTokens output_tokens,
                                          Integer end = text::Vocabulary::end);

struct LossOptions {
  double label_smoothing = 0;  // ε, spread over output_tokens, see CrossEntropyOptions
  double coverage = 0;         // λ of the coverage loss (See et al., 2017, equation 13)
  Guide guide = {};
  OutputTokens output_tokens = OutputTokens::words;
};

using Target = text::TargetBatch;

/// Mean cross-entropy per target token, including `</s>`, plus λ · the mean coverage_loss per token,
/// plus guide.weight · guided_alignment_loss. Throws if a model without attention has λ or a guide,
/// and as Model::unroll does. If the model's `logits` returns AffineLogits, the loss is computed
/// without storing all logits.
Var loss(const Model& model, const Model::Source& source, const Target& target,
         const LossOptions& options = {});
/// The same for a model with an encoder of token ids.
Var loss(const Model& model, const text::Batch& batch, const LossOptions& options = {});

}  // namespace attune::models
