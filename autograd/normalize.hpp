// Fused normalisations. Softmax is in ops.hpp.
#pragma once

#include <attune/autograd/var.hpp>
#include <attune/tensor/normalize.hpp>

namespace attune {

/// Layer normalisation over the last axis (Ba, Kiros and Hinton, 2016), in one pass:
///     y = g ⊙ (x - μ) / √(σ² + ε) + b,   μ = mean(x),   σ² = mean((x - μ)²)
/// x (..., N), gain (N), bias (N) -> (..., N). A row is normalised by itself, whatever stands in
/// the others; one of equal elements gives the bias.
Var layer_norm(const Var& x, const Var& gain, const Var& bias, double epsilon = layer_norm_epsilon);

/// Sparsemax along an axis (Martins and Astudillo, 2016): the point of the simplex next to x,
///     y_i = max(x_i - τ, 0),   where τ makes Σ y = 1,
/// which unlike softmax gives exact zeros. The gradient is
///     dx_i = dy_i - (mean of dy over the support) for i in the support {y > 0}, 0 for all others.
/// With a mask (of x's shape, or of its last axes; 1 takes part, 0 does not), y is exactly 0 where
/// the mask is 0; where no position along the axis has mask 1, all of y is 0.
Var sparsemax(const Var& x, int axis = -1, const Tensor& mask = {});

}  // namespace attune
