// Attention over a memory.
#pragma once

#include <attune/autograd/var.hpp>

namespace attune {

/// e_sb = v · tanh(q_b + k_sb)  (Bahdanau et al., 2014, appendix A.1.2) in one pass:
/// q (B, A), k (S, B, A), v (A) -> (S, B).
Var additive_scores(const Var& q, const Var& k, const Var& v);

/// c_b = Σ_s α_sb h_sb  (equation 5): weights (S, B), memory (S, B, D) -> (B, D). Memory under a
/// weight of exactly 0 (padding) is not read, and the gradient of that weight is 0.
Var weighted_sum(const Var& weights, const Var& memory);

}  // namespace attune
