// Attention over a memory, each operation in one fused pass. The equations are those of the
// functions with the same names in reference.hpp.
#pragma once

#include <attune/autograd/var.hpp>
#include <attune/tensor/kernels/fused_attention.hpp>

namespace attune {

/// Additive scores: q (B, A), k (S, B, A), v (A), coverage (S, B), w_c (A) -> (S, B). Coverage is
/// used only if both coverage and w_c are defined. Backward recomputes the sums of q, k and
/// coverage, so they take no memory.
Var additive_scores(const Var& q, const Var& k, const Var& v, const Var& coverage = {},
                    const Var& w_c = {});

/// Dot-product scores: q (B, A), k (S, B, A) -> (S, B), or with several heads (heads, S, B)
Var dot_scores(const Var& q, const Var& k, Integer heads = 1);

/// Weighted sum of the memory: weights (S, B) or (heads, S, B), memory (S, B, D) -> (B, D). Memory
/// with a weight of exactly 0 (padding) is not read, and the gradient of such a weight is 0.
Var weighted_sum(const Var& weights, const Var& memory);

/// Scaled dot-product attention: q (T, B, K A), kv (S, B, G A + G A_v) -> (T, B, K A_v), without
/// storing weights. By default G = K and A_v = A, so that kv is (S, B, 2D). The bias (optional)
/// broadcasts to (B, K, T, S) and is added to the scores, for relative positions or ALiBi (Press et
/// al., 2022).
Var attention(const Var& q, const Var& kv, const FusedAttentionOptions& options = {},
              const Var& bias = {});

/// Rotary position embedding (Su et al., 2021, section 3.2.2) of the first heads · A elements x of
/// each row, in each head of A elements: for i < A/2 and θ_i = base^(-2i/A), at position p,
///     y_i = x_i cos pθ_i - x_{i+A/2} sin pθ_i,   y_{i+A/2} = x_i sin pθ_i + x_{i+A/2} cos pθ_i
/// x (..., n) with n >= heads · A; the other elements are copied. Positions (i32) have the shape of
/// the first axes of x, or (T) for x (T, ...). Pairs are those of GPT-NeoX and of Llama in
/// Transformers; the paper pairs 2i and 2i+1, the same function with the elements in another order.
/// Throws unless A is even.
Var rotary(const Var& x, const Tensor& positions, Integer heads, Integer size, double base = 10000);

/// The attention weights that a call returns: none, those of each head (T, K, S, B), or their mean
/// over the heads (T, S, B).
enum class AttentionWeights { no, per_head, mean };

/// The weights of attention before dropout, exactly 0 where a query or key does not take part;
/// undefined for AttentionWeights::no. q and kv contain padding: query_rows and key_rows only mark
/// it. Unless history is recorded, the scores of at most 64 queries are in memory at once.
Var attention_weights(const Var& q, const Var& kv, const FusedAttentionOptions& options = {},
                      AttentionWeights weights = AttentionWeights::per_head, const Var& bias = {});

/// Selects positions of each sentence: x (S, B) or (S, B, D), positions (W, B) i32 -> (W, B) or
/// (W, B, D). The result is 0 where the position is -1.
Var window(const Var& x, const Tensor& positions);

/// The inverse of window: puts x (W, B) or (W, B, D) at its positions in (S, B) or (S, B, D), S =
/// steps; all other elements are 0. The positions of a sentence must be distinct.
Var unwindow(const Var& x, const Tensor& positions, Integer steps);

/// Normalises the rows of x (..., n) to unit length: x / max(‖x‖₂, ε), with ε = 1e-12.
Var unit_vectors(const Var& x);

}  // namespace attune
