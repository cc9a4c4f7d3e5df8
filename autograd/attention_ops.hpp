// Attention over a memory.
#pragma once

#include <attune/autograd/var.hpp>
#include <attune/tensor/fused_attention.hpp>

namespace attune {

/// e_sb = v · tanh(q_b + k_sb)  (Bahdanau et al., 2014, appendix A.1.2) in one pass:
/// q (B, A), k (S, B, A), v (A) -> (S, B); or for T queries at once, q (T, B, A) -> (T, S, B).
/// With coverage (S, B) and w_c (A),  e_sb = v · tanh(q_b + k_sb + coverage_sb w_c)  (See, Liu and
/// Manning, 2017, equation 11); with one of them alone, it is ignored. What is added to the keys is
/// computed again in backward, not kept.
Var additive_scores(const Var& q, const Var& k, const Var& v, const Var& coverage = {},
                    const Var& w_c = {});

/// e_sb = q_b · k_sb in one pass: q (B, A), k (S, B, A) -> (S, B). With more heads, each has its
/// own A / heads of the elements, and the result is (heads, S, B).
Var dot_scores(const Var& q, const Var& k, Index heads = 1);

/// c_b = Σ_s α_sb h_sb  (Bahdanau et al., 2014, equation 5): weights (S, B), memory (S, B, D) ->
/// (B, D). With weights (heads, S, B), each head sums its own D / heads of the elements. Memory
/// under a weight of exactly 0 (padding) is not read, and the gradient of that weight is 0.
Var weighted_sum(const Var& weights, const Var& memory);

/// Multi-head scaled dot-product attention in one pass, without storing the weights; see
/// `attention_forward` in tensor/fused_attention.hpp: q (T, B, D), kv (S, B, 2D) -> (T, B, D).
Var attention(const Var& q, const Var& kv, const FusedAttentionOptions& options = {});

/// Rows of a sequence by sentence: x (S, B) or (S, B, D), positions (W, B) i32 -> (W, B) or
/// (W, B, D); zeros where the position is -1.
Var window(const Var& x, const Tensor& positions);

/// The opposite: x (W, B) or (W, B, D) at its positions in (S, B) or (S, B, D), else zeros. Positions
/// of a sentence differ.
Var unwindow(const Var& x, const Tensor& positions, Index steps);

/// (..., n) -> (..., n): x / max(‖x‖₂, ε) over the last axis, with ε = 1e-12.
Var unit_vectors(const Var& x);

}  // namespace attune
