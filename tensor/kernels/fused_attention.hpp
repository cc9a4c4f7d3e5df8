// Fused scaled dot-product attention: for whole sequences, and for a step with a key-value cache.
#pragma once

#include <attune/tensor/kernels/attention_pairs.hpp>

namespace attune {

/// Computes reference::attention (autograd/reference.hpp) of q (T, B, K A) and
/// kv (S, B, G A + G A_v), whose first G A columns are keys and the others values. Query head k uses
/// head k / (K / G) of the keys and values. The bias broadcasts to (B, K, T, S) and is added to the
/// scores; it may be undefined. Blocks of queries are combined with blocks of keys by a running
/// softmax (Dao et al., 2022, algorithm 1), so that memory is linear in T and S. Keys that no query
/// attends to are not read. A query that attends to no key gets 0. Weights below 2^-100 of the
/// largest (f64: 2^-996) count as 0.
struct AttentionForward {
  Tensor y;      // (T, B, K A_v), or (N, K A_v)
  Tensor norms;  // (B, K, T, 2): the largest score m, and 1 / Σ_s e^{score - m}, or 0 without keys
};
AttentionForward attention_forward(const Tensor& q, const Tensor& kv,
                                   const FusedAttentionOptions& o, const Tensor& bias = {});

struct AttentionBackward {
  Tensor dq, dkv;
};
/// Recomputes the weights from the norms (Dao et al., 2022, algorithm 4). If `dbias` is not null,
/// sets it to the gradient of the bias, with scratch memory for all K heads.
AttentionBackward attention_backward(const Tensor& q, const Tensor& kv,
                                     const FusedAttentionOptions& o,
                                     const AttentionForward& forward, const Tensor& dy,
                                     const Tensor& bias = {}, Tensor* dbias = nullptr);

/// Scaled dot-product attention of one query per hypothesis, q (B, K A), over a key-value cache in
/// which hypotheses share the entries of a common prefix. At position s, hypothesis b attends to
/// row rows[s, b] of the cache (R, G A + G A_v), or to nothing if rows (S, B), i32, is -1 there. A
/// hypothesis without any position gets 0. Uses heads, kv_heads and value_size of the options, and
/// a bias as in attention_forward, for T = 1.
struct AttentionStep {
  Tensor y;        // (B, K A_v)
  Tensor weights;  // (K, S, B), 0 where the row is -1; undefined unless asked for
};
AttentionStep attention_step(const Tensor& q, const Tensor& cache, const Tensor& rows,
                             const FusedAttentionOptions& o, const Tensor& bias = {},
                             bool weights = true);

}  // namespace attune
