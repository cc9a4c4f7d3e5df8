// Kernels of attention over a memory: scores, the weighted sum, and their gradients; and the fused
// attention of many queries.
#pragma once

#include <span>

#include <attune/tensor/random.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune {

/// e_sb = v · tanh(q_b + k_sb)  (Bahdanau, Cho and Bengio, 2014, appendix A.1.2), with
/// q (B, A), k (S, B, A), v (A) -> e (S, B).
Tensor additive_scores_forward(const Tensor& q, const Tensor& k, const Tensor& v);

/// With t = tanh(q + k) and g = de v ⊙ (1 - t²), which are computed again rather than stored:
/// dk += g (in place: every step of a decoder adds to the same keys), dq = Σ_s g, dv = Σ_sb de t.
struct AdditiveScoresBackward {
  Tensor dq, dv;  // (B, A), (A)
};
AdditiveScoresBackward additive_scores_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                                const Tensor& de, Tensor& dk);

/// e_ksb = q_bk · k_sbk, with q (B, A), k (S, B, A) -> e (K, S, B), where head k has its own A / K
/// of the elements; with one head, e (S, B).
Tensor dot_scores_forward(const Tensor& q, const Tensor& k, Index heads);

/// c_b = Σ_s α_sb h_sb, with weights (S, B), memory (S, B, D) -> (B, D). With weights (K, S, B),
/// head k sums its own D / K of the elements. Where a weight is exactly 0 the memory is not read,
/// so what stands at masked positions does not matter.
Tensor weighted_sum_forward(const Tensor& weights, const Tensor& memory);

/// dα_sb = h_sb · dc_b, and 0 where α is exactly 0 and `memory` may hold anything.
Tensor weighted_sum_backward_weights(const Tensor& weights, const Tensor& memory, const Tensor& dc);

/// dh_sb += α_sb dc_b, in place.
void weighted_sum_backward_memory(const Tensor& weights, const Tensor& dc, Tensor& dmemory);

/// Scaled dot-product attention with one query per hypothesis, q (B, D), over a key-value cache in
/// which hypotheses share the entries of a common prefix: at position s, hypothesis b reads row
/// rows[s, b] of places[s] (R, 2D), or nothing where rows (S, B) i32 has -1. A hypothesis that sees
/// no position gets 0.
struct AttentionStep {
  Tensor y;        // (B, D)
  Tensor weights;  // (K, S, B), 0 where the row is -1
};
AttentionStep attention_step(const Tensor& q, std::span<const Tensor> places, const Tensor& rows,
                             Index heads);

/// Rows of a sequence by sentence: x (S, B, ...), positions (W, B)
/// i32 -> y_wb = x[positions_wb, b], and zeros where the position is -1.
Tensor window_forward(const Tensor& x, const Tensor& positions);

/// dx[positions_wb, b] += dy_wb, in place; nothing where the position is -1.
void window_backward(const Tensor& dy, const Tensor& positions, Tensor& dx);

/// What the fused attention does beside its products.
struct FusedAttentionOptions {
  Index heads = 1;      // K, which divides D
  bool causal = false;  // query t sees the keys 0 .. t + S - T
  Tensor mask = {};     // (S, B): 1 on keys that are seen, 0 on others; undefined: all are
  /// Dropout of the weights, as in tensor2tensor but not in Vaswani et al. (2017), by the next
  /// B·K·T·S numbers of `random` in the order (B, K, T, S). Backward draws them again.
  double dropout = 0;
  Random random = Random(0);
};

/// Scaled dot-product attention of T queries to S keys in each of K heads of A = D / K elements
/// (Vaswani et al., 2017, equation 1 and section 3.2.2), with q (T, B, D) and kv (S, B, 2D), which
/// holds keys and values side by side:
///     y_k = softmax(q_k k_kᵀ / √A) v_k
/// Blocks of queries meet blocks of keys with a running softmax (Dao et al., 2022, algorithm 1), so
/// that memory is linear in T and S. Keys that no query may see are not read; a query that sees
/// none gets 0.
struct AttentionForward {
  Tensor y;      // (T, B, D)
  Tensor norms;  // (B, K, T): log Σ_s e^{score}, +∞ for a query that sees no key
};
AttentionForward attention_forward(const Tensor& q, const Tensor& kv,
                                   const FusedAttentionOptions& o);

struct AttentionBackward {
  Tensor dq, dkv;
};
/// The weights are computed again from the norms (Dao et al., 2022, algorithm 4).
AttentionBackward attention_backward(const Tensor& q, const Tensor& kv,
                                     const FusedAttentionOptions& o,
                                     const AttentionForward& forward, const Tensor& dy);

}  // namespace attune
