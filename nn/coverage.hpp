// How much of a source has been attended to already (Tu et al., 2016; See, Liu and Manning, 2017).
#pragma once

#include <attune/autograd/var.hpp>

namespace attune::nn {

// Scores that look at it are chosen by `ScoreOptions::coverage`; Attention::next adds it up. A loss
// adds it up by itself:
//
//     loss = loss + sum(coverage_loss(weights, coverage));
//     coverage = add_coverage(coverage, weights);

/// What several heads looked at: (heads, S, B) -> (S, B), their mean; (S, B) as it is.
Var mean_of_heads(const Var& weights);

/// Σ_{t' <= t} α_t'  (See et al., equation 10): coverage (S, B) or undefined, weights (S, B) or
/// (heads, S, B), of which the mean counts -> (S, B).
Var add_coverage(const Var& coverage, const Var& weights);

/// Σ_s min(α_s, coverage_s)  (equation 12) of each sentence, shapes as above -> (B); zeros where
/// the coverage is undefined. Padding has no share in it: both are 0 there.
Var coverage_loss(const Var& weights, const Var& coverage);

}  // namespace attune::nn
