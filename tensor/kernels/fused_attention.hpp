// Fused scaled dot-product attention: for whole sequences, and for a step with a key-value cache.
#pragma once

#include <span>

#include <attune/tensor/random.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune {

/// Heads, masks and dropout of the fused attention.
struct FusedAttentionOptions {
  Index heads = 1;      // K; must divide D
  bool causal = false;  // query t attends only to the keys 0 .. t + S - T
  Mask mask = {};       // (S, B): 1 on keys that take part; undefined: all. Not with key_rows.
  /// For sequences stored without padding: q is (N, D), or kv is (M, 2D), with one row per token.
  /// Then query_rows (T, B) or key_rows (S, B), i32, hold the row of each token, and -1 on padding.
  Tensor query_rows = {}, key_rows = {};
  /// Dropout rate of the weights, as in tensor2tensor; Vaswani et al. (2017) do not use it. Draws
  /// the next B·K·T·S numbers of `random`, in the order (B, K, T, S). Backward draws them again.
  double dropout = 0;
  Random random = Random(0);
};

/// Computes reference::attention (autograd/reference.hpp) of q (T, B, D) and kv (S, B, 2D), whose
/// first D columns are keys and the others values. Blocks of queries are combined with blocks of
/// keys by a running softmax (Dao et al., 2022, algorithm 1), so that memory is linear in T and S.
/// Keys that no query attends to are not read. A query that attends to no key gets 0.
struct AttentionForward {
  Tensor y;      // in q's shape
  Tensor norms;  // (B, K, T, 2): the largest score m, and 1 / Σ_s e^{score - m}, or 0 without keys
};
AttentionForward attention_forward(const Tensor& q, const Tensor& kv,
                                   const FusedAttentionOptions& o);

struct AttentionBackward {
  Tensor dq, dkv;
};
/// Recomputes the weights from the norms (Dao et al., 2022, algorithm 4).
AttentionBackward attention_backward(const Tensor& q, const Tensor& kv,
                                     const FusedAttentionOptions& o,
                                     const AttentionForward& forward, const Tensor& dy);

/// Scaled dot-product attention of one query per hypothesis, q (B, D), over a key-value cache in
/// which hypotheses share the entries of a common prefix. At position s, hypothesis b attends to
/// row rows[s, b] of cache[s] (R, 2D), or to nothing if rows (S, B), i32, is -1 there. A
/// hypothesis without any position gets 0.
struct AttentionStep {
  Tensor y;        // (B, D)
  Tensor weights;  // (K, S, B), 0 where the row is -1
};
AttentionStep attention_step(const Tensor& q, std::span<const Tensor> cache, const Tensor& rows,
                             Integer heads);

}  // namespace attune
