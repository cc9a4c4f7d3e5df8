// Softmax, sparsemax, cross-entropy and layer normalisation, forward and backward.
#pragma once

#include <attune/tensor/reduce.hpp>

namespace attune {

// What softmax, log_softmax, sparsemax, the cross-entropy and the layer normalisation compute: the
// functions of these names in autograd/reference.hpp.

/// Along an axis. With a mask (that broadcasts to
/// x), only positions with mask 1 take part and all others get exactly 0; where no
/// position has mask 1, all weights are 0. What x holds at masked positions does not matter, NaN
/// included.
Tensor softmax(const Tensor& x, int axis = -1, const Mask& mask = {});

/// dx = y ⊙ (dy - Σ_j dy_j y_j), for the plain and the masked softmax.
Tensor softmax_backward(const Tensor& y, const Tensor& dy, int axis);

/// log Σ_j e^{x_j}, without overflow; over nothing it is -∞.
Tensor log_sum_exp(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);

/// Along an axis; -∞ everywhere in a column of only -∞.
Tensor log_softmax(const Tensor& x, int axis = -1);

/// Cross-entropy of every row with label smoothing ε, and what backward needs: the largest logit
/// m_n and 1 / Σ_v e^{x_nv - m_n}. A row of only -∞ has loss ∞ and gradient 0.
struct CrossEntropy {
  Tensor loss;   // (N)
  Tensor norms;  // (N, 2)
};

/// ε of label smoothing, in [0, 1), and the columns that have no share of it. Copies do not own them.
struct Smoothing {
  double epsilon = 0;
  std::span<const std::int32_t> without = {};
};

/// logits (N, V), targets (N) i32 in [0, V). Rows with mask 0 have loss 0.
CrossEntropy cross_entropy_forward(const Tensor& logits, const Tensor& targets,
                                   const Tensor& mask = {}, const Smoothing& smoothing = {});

/// dlogits = scale · mask ⊙ (softmax(logits) - (1 - ε) onehot(targets) - ε q), in the memory of the
/// logits when nobody else holds it; q is uniform over the columns that have a share.
Tensor cross_entropy_backward(Tensor logits, const Tensor& targets, const Tensor& mask,
                              const Tensor& norms, double scale, const Smoothing& smoothing = {});

/// What is added to the variance unless said otherwise.
inline constexpr double layer_norm_epsilon = 1e-5;

/// Layer normalisation and what its backward needs of each row: s, c, μ and 1 / √(σ² + s² ε), where
/// μ and σ² are those of s x - c. s is 1 unless squares of x overflow, and c is 0 unless differences
/// between elements are smaller than their mean.
struct LayerNormForward {
  Tensor y;        // (..., N)
  Tensor moments;  // (rows, 4)
};

/// x (..., N), gain and bias (N)
LayerNormForward layer_norm_forward(const Tensor& x, const Tensor& gain, const Tensor& bias,
                                    double epsilon);

/// With x̂ = (x - μ) / √(σ² + ε) and h = dy ⊙ g, and means over each row:
///     dx = (h - mean(h) - x̂ mean(h ⊙ x̂)) / √(σ² + ε),   dg = Σ_rows dy ⊙ x̂,   db = Σ_rows dy
struct LayerNormBackward {
  Tensor dx, dgain, dbias;
};
LayerNormBackward layer_norm_backward(const Tensor& x, const Tensor& gain,
                                      const LayerNormForward& forward, const Tensor& dy);

/// Along an axis, with a mask as softmax's.
Tensor sparsemax(const Tensor& x, int axis, const Mask& mask = {});

/// dx_i = dy_i - mean of dy over the support {y > 0} within it, and 0 outside.
Tensor sparsemax_backward(const Tensor& y, const Tensor& dy, int axis);

}  // namespace attune
