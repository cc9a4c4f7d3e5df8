#include <attune/models/unroll.hpp>
#include <attune/nn/attention.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune::models::detail {

Var cross_entropy_of(const AffineLogits& logits, const Tensor& next, const Tensor& mask,
                     double smoothing) {
  return affine_cross_entropy(logits.x, logits.affine, next, mask, {.smoothing = smoothing});
}

Var cross_entropy_of(const Var& logits, const Tensor& next, const Tensor& mask, double smoothing) {
  return cross_entropy(logits, next, mask, {.smoothing = smoothing});
}

Var attention_loss(const std::vector<Var>& weights, const Tensor& mask,
                   const LossOptions& options) {
  if (weights.empty()) fail("loss", "a loss of attention is asked for, but there is no attention");
  Var loss;
  if (options.coverage > 0) {
    std::vector<Var> losses;
    Var coverage;
    for (const Var& w : weights) {
      losses.push_back(nn::coverage_loss(w, coverage));
      coverage = nn::add_coverage(coverage, w);
    }
    loss = sum(stack(losses) * (mask * (options.coverage / sum(mask).item())));
  }
  if (options.guide.alignment.defined()) {
    const Var guided =
        options.guide.weight * guided_alignment_loss(stack(weights), options.guide.alignment);
    loss = loss.defined() ? loss + guided : guided;
  }
  return loss;
}

}  // namespace attune::models::detail
