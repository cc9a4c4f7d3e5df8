// Kernels of attention over a memory: scores, the weighted sum, windows, and their gradients.
#pragma once

#include <attune/tensor/tensor.hpp>

namespace attune {

// What they compute: the functions of these names in autograd/reference.hpp.

/// q (B, A), k (S, B, A), v (A) -> e (S, B)
Tensor additive_scores_forward(const Tensor& q, const Tensor& k, const Tensor& v);

/// With t = tanh(q + k) and g = de v ⊙ (1 - t²), which are computed again rather than stored:
/// dk += g (in place: every step of a decoder adds to the same keys), dq = Σ_s g, dv = Σ_sb de t.
struct AdditiveScoresBackward {
  Tensor dq, dv;  // (B, A), (A)
};
AdditiveScoresBackward additive_scores_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                                const Tensor& de, Tensor& dk);

/// q (B, A), k (S, B, A) -> e (K, S, B); with one head, e (S, B)
Tensor dot_scores_forward(const Tensor& q, const Tensor& k, Index heads);

/// weights (S, B) or (K, S, B), memory (S, B, D) -> (B, D). Where a weight is exactly 0 the memory
/// is not read, so the elements at masked positions do not matter.
Tensor weighted_sum_forward(const Tensor& weights, const Tensor& memory);

/// dα_sb = h_sb · dc_b, and 0 where α is exactly 0 and `memory` may hold anything.
Tensor weighted_sum_backward_weights(const Tensor& weights, const Tensor& memory, const Tensor& dc);

/// dh_sb += α_sb dc_b, in place.
void weighted_sum_backward_memory(const Tensor& weights, const Tensor& dc, Tensor& dmemory);

/// Rows of a sequence by sentence: x (S, B, ...), positions (W, B)
/// i32 -> y_wb = x[positions_wb, b], and zeros where the position is -1.
Tensor window_forward(const Tensor& x, const Tensor& positions);

/// dx[positions_wb, b] += dy_wb, in place; nothing where the position is -1.
void window_backward(const Tensor& dy, const Tensor& positions, Tensor& dx);

}  // namespace attune
