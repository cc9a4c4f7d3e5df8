// Losses.
#pragma once

#include <attune/autograd/var.hpp>

namespace attune {

/// Whether a loss is the sum over words or their mean.
enum class Reduction { mean, sum };

/// -log softmax(logits)[target], summed or averaged over the positions whose mask is 1, fused:
/// logits (..., V), targets (...) i32, mask (...) or undefined (all) -> (). Targets under mask 0
/// must still be in [0, V). Throws when there is no position to average.
Var cross_entropy(const Var& logits, const Tensor& targets, const Tensor& mask = {},
                  Reduction reduction = Reduction::mean);

}  // namespace attune
