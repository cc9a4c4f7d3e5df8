// Attention over a memory, each operation in one pass. What they compute: the functions of these
// names in reference.hpp.
#pragma once

#include <attune/autograd/var.hpp>
#include <attune/tensor/fused_attention.hpp>

namespace attune {

/// q (B, A), k (S, B, A), v (A), coverage (S, B), w_c (A) -> (S, B); or for T queries at once,
/// q (T, B, A) -> (T, S, B). With one of coverage and w_c alone, it is ignored. What they add to the
/// keys is computed again in backward, not kept.
Var additive_scores(const Var& q, const Var& k, const Var& v, const Var& coverage = {},
                    const Var& w_c = {});

/// q (B, A), k (S, B, A) -> (S, B), or with more heads (heads, S, B)
Var dot_scores(const Var& q, const Var& k, Index heads = 1);

/// weights (S, B) or (heads, S, B), memory (S, B, D) -> (B, D). Memory under a weight of exactly 0
/// (padding) is not read, and the gradient of that weight is 0.
Var weighted_sum(const Var& weights, const Var& memory);

/// q (T, B, D), kv (S, B, 2D) -> (T, B, D), without storing the weights.
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
