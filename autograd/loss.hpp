// Losses.
#pragma once

#include <attune/autograd/var.hpp>

namespace attune {

/// Whether a loss is the sum over words or their mean.
enum class Reduction { mean, sum };

struct CrossEntropyOptions {
  Reduction reduction = Reduction::mean;
  double smoothing = 0;  // ε, in [0, 1)
};

/// -Σ_v q_v log softmax(logits)_v, summed or averaged over the positions whose mask is 1, fused.
/// q is 1 at the target, or with label smoothing (Szegedy et al., 2016, section 7) 1 - ε there and
/// ε/V more at every v:
///     loss = (1 - ε) (-log p_target) + ε mean_v(-log p_v)
/// logits (..., V), targets (...) i32, mask (...) or undefined (all) -> (). Targets under mask 0
/// must still be in [0, V). Throws when there is no position to average.
Var cross_entropy(const Var& logits, const Tensor& targets, const Tensor& mask = {},
                  const CrossEntropyOptions& options = {});

}  // namespace attune
