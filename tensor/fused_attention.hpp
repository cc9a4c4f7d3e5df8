// The attention of Transformers: of many queries at once in one pass, and of one decoding step over
// a cache.
#pragma once

#include <span>

#include <attune/tensor/random.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune {

/// Heads, masks and dropout of the fused attention.
struct FusedAttentionOptions {
  Index heads = 1;      // K, which divides D
  bool causal = false;  // query t sees the keys 0 .. t + S - T
  Mask mask = {};       // (S, B): 1 on keys that are seen; all are where keys have rows
  /// Without padding, the queries are (N, D), or the keys and values (M, 2D): query_rows (T, B) or
  /// key_rows (S, B) i32 have the row of each token, and -1 on padding. Each row is one token's.
  Tensor query_rows = {}, key_rows = {};
  /// Dropout of the weights, as in tensor2tensor but not in Vaswani et al. (2017), by the next
  /// B·K·T·S numbers of `random` in the order (B, K, T, S). Backward draws them again.
  double dropout = 0;
  Random random = Random(0);
};

/// reference::attention (autograd/reference.hpp) of q (T, B, D) and kv (S, B, 2D), which holds keys
/// and values side by side; either may be without padding. Blocks of queries meet blocks of keys
/// with a running softmax (Dao et al., 2022, algorithm 1), so that memory is linear in T and S. Keys
/// that no query may see are not read; a query that sees none gets 0.
struct AttentionForward {
  Tensor y;      // as q
  Tensor norms;  // (B, K, T, 2): the largest score m, and 1 / Σ_s e^{score - m} or 0 without keys
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

}  // namespace attune
