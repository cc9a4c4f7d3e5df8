// Kernels of attention over a memory: scores, weighted sum, windows, and their gradients. The
// equations are those of the functions with the same names in autograd/reference.hpp.
#pragma once

#include <attune/tensor/tensor.hpp>

namespace attune {

/// Additive scores: q (B, A), k (S, B, A), v (A) -> e (S, B)
Tensor additive_scores_forward(const Tensor& q, const Tensor& k, const Tensor& v);

/// The gradient of additive scores. With t = tanh(q + k) and g = de v ⊙ (1 - t²), which are
/// recomputed to save memory: dq = Σ_s g, dv = Σ_sb de t, and dk += g in place, as all steps of a
/// decoder share the keys.
struct AdditiveScoresBackward {
  Tensor dq, dv;  // (B, A), (A)
};
AdditiveScoresBackward additive_scores_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                                const Tensor& de, Tensor& dk);

/// Dot-product scores in K heads: q (B, A), k (S, B, A) -> e (K, S, B); with one head, e (S, B)
Tensor dot_scores_forward(const Tensor& q, const Tensor& k, Integer heads);

/// Weighted sum of the memory: weights (S, B) or (K, S, B), memory (S, B, D) -> (B, D). Memory with
/// a weight of exactly 0 is not read, so it may hold anything at masked positions, even NaN.
Tensor weighted_sum_forward(const Tensor& weights, const Tensor& memory);

/// The gradient of the weights: dα_sb = h_sb · dc_b; 0 where α is exactly 0 (h is not read there).
Tensor weighted_sum_backward_weights(const Tensor& weights, const Tensor& memory, const Tensor& dc);

/// The gradient of the memory h: dh_sb += α_sb dc_b, in place.
void weighted_sum_backward_memory(const Tensor& weights, const Tensor& dc, Tensor& dmemory);

/// Selects positions of each sentence: x (S, B, ...), positions (W, B) i32 -> (W, B, ...),
/// y_wb = x[positions_wb, b], or zeros where the position is -1.
Tensor window_forward(const Tensor& x, const Tensor& positions);

/// The gradient of window: dx[positions_wb, b] += dy_wb in place, except where the position is -1.
void window_backward(const Tensor& dy, const Tensor& positions, Tensor& dx);

}  // namespace attune
