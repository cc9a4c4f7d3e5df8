#include <attune/models/loss.hpp>
#include <attune/nn/attention.hpp>
#include <attune/tensor/fail.hpp>

namespace attune::models {

std::vector<std::int32_t> excluded_tokens(OutputTokens output_tokens, Integer end) {
  using text::Vocabulary;
  if (output_tokens == OutputTokens::all) return {};
  std::vector<std::int32_t> tokens = {Vocabulary::pad, Vocabulary::begin, Vocabulary::end};
  if (output_tokens == OutputTokens::words) tokens.push_back(Vocabulary::unknown);
  std::erase(tokens, end);
  return tokens;
}

Var loss(const Model& model, const Model::Source& source, const Target& target,
         const LossOptions& options) {
  const Tensor& guide = options.guide.alignment;
  const bool attends = options.coverage != 0 || guide.defined();
  const auto [logits, weights] = model.unroll(source, target.previous, target.mask, attends);
  if (attends && weights.empty())
    fail("loss", "a coverage loss or a guide requires a model with attention");
  const auto& [W, b, transposed] = logits.affine;
  const Index v = W.defined() ? W.dim(transposed ? 0 : 1) : logits.x.dim(-1);
  std::vector<std::int32_t> unsmoothed = excluded_tokens(options.output_tokens);
  std::erase_if(unsmoothed, [=](std::int32_t token) { return token >= v; });
  Var loss = affine_cross_entropy(logits.x, logits.affine, target.next, target.mask,
                                  {.smoothing = options.label_smoothing, .unsmoothed = unsmoothed});
  if (options.coverage != 0) {
    std::vector<Var> losses;
    Var coverage;
    for (const Var& w : weights) {
      losses.push_back(nn::coverage_loss(w, coverage));
      coverage = nn::add_coverage(coverage, w);
    }
    const Tensor tokens = target.mask.defined() ? target.mask.to(loss.dtype())
                                                : ones(target.next.shape(), loss.dtype());
    loss = loss + sum(stack(losses) * (tokens * (options.coverage / sum(tokens).item())));
  }
  if (guide.defined())
    loss = loss + options.guide.weight * guided_alignment_loss(stack(weights), guide);
  return loss;
}

Var loss(const Model& model, const text::Batch& batch, const LossOptions& options) {
  return loss(model, model.encode(batch.source, batch.source_mask),
              {batch.previous, batch.next, batch.target_mask}, options);
}

}  // namespace attune::models
