// Softmax, sparsemax, cross-entropy and layer normalisation, with their gradients. The equations
// are those of the functions with the same names in autograd/reference.hpp.
#pragma once

#include <attune/tensor/reduce.hpp>

namespace attune {

/// Softmax along an axis, over the positions whose mask is 1; the mask broadcasts to x. The other
/// positions get exactly 0, even if x is NaN there. If no position takes part, all results are 0.
Tensor softmax(const Tensor& x, Integer axis = -1, const Mask& mask = {});

/// The gradient of softmax, with or without a mask: dx = y ⊙ (dy - Σ_j dy_j y_j).
Tensor softmax_backward(const Tensor& y, const Tensor& dy, Integer axis);

/// log Σ_j e^{x_j}, without overflow; -∞ for an empty axis.
Tensor log_sum_exp(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);

/// x - log_sum_exp(x) along an axis; -∞ everywhere if all elements along the axis are -∞.
Tensor log_softmax(const Tensor& x, Integer axis = -1);

/// Cross-entropy of every row, with label smoothing, and what its gradient needs: norms holds the
/// largest logit m_n and 1 / Σ_v e^{x_nv - m_n}. A row of only -∞ has loss ∞ and gradient 0.
struct CrossEntropy {
  Tensor loss;   // (N)
  Tensor norms;  // (N, 2)
};

/// Label smoothing: ε in [0, 1), and the columns that get no share of ε (not owned).
struct Smoothing {
  double epsilon = 0;
  std::span<const std::int32_t> unsmoothed = {};
};

/// logits (N, V), targets (N) i32 in [0, V), mask (N). Rows with mask 0 have loss 0.
CrossEntropy cross_entropy_forward(const Tensor& logits, const Tensor& targets,
                                   const Tensor& mask = {}, const Smoothing& smoothing = {});

/// dlogits = scale · mask ⊙ (softmax(logits) - (1 - ε) onehot(targets) - ε q), with q uniform over
/// the columns with a share of ε. Overwrites the logits if no other Tensor shares their buffer.
Tensor cross_entropy_backward(Tensor logits, const Tensor& targets, const Tensor& mask,
                              const Tensor& norms, double scale, const Smoothing& smoothing = {});

/// Default ε, which layer normalisation adds to the variance.
inline constexpr double layer_norm_epsilon = 1e-5;

/// Layer normalisation, and what its gradient needs of each row: s, c, μ and 1 / √(σ² + s² ε),
/// where μ and σ² are the mean and variance of s x - c. The scale s is 1 unless squares of x
/// overflow. The shift c is 0 unless differences between elements are smaller than their mean.
struct LayerNormForward {
  Tensor y;        // (..., N)
  Tensor moments;  // (rows, 4)
};

/// x (..., N), gain and bias (N). The mean and variance are those of each row of N elements.
LayerNormForward layer_norm_forward(const Tensor& x, const Tensor& gain, const Tensor& bias,
                                    double epsilon);

/// The gradient. With g the gain, x̂ = (x - μ) / √(σ² + ε), h = dy ⊙ g, and means over each row:
///     dx = (h - mean(h) - x̂ mean(h ⊙ x̂)) / √(σ² + ε),   dg = Σ_rows dy ⊙ x̂,   db = Σ_rows dy
struct LayerNormBackward {
  Tensor dx, dgain, dbias;
};
LayerNormBackward layer_norm_backward(const Tensor& x, const Tensor& gain,
                                      const LayerNormForward& forward, const Tensor& dy);

/// Sparsemax (Martins and Astudillo, 2016) along an axis, with a mask as in softmax.
Tensor sparsemax(const Tensor& x, Integer axis, const Mask& mask = {});

/// The gradient of sparsemax: dx_i = dy_i - mean of dy over {j: y_j > 0} where y_i > 0, else 0.
Tensor sparsemax_backward(const Tensor& y, const Tensor& dy, Integer axis);

}  // namespace attune
