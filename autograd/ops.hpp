// Differentiable operations. Binary ones broadcast like NumPy; all take f32 or f64.
#pragma once

#include <vector>

#include <attune/autograd/var.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/normalize.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune {

Var operator+(const Var& a, const Var& b);
Var operator-(const Var& a, const Var& b);
Var operator*(const Var& a, const Var& b);
Var operator/(const Var& a, const Var& b);
Var operator+(const Var& a, double b);
Var operator-(const Var& a, double b);
Var operator*(const Var& a, double b);
Var operator/(const Var& a, double b);
Var operator+(double a, const Var& b);
Var operator-(double a, const Var& b);
Var operator*(double a, const Var& b);
Var operator/(double a, const Var& b);
Var operator-(const Var& x);

Var exp(const Var& x);
Var log(const Var& x);
Var tanh(const Var& x);
/// σ(x) = 1 / (1 + e⁻ˣ)
Var sigmoid(const Var& x);
/// max(x, 0); the gradient at 0 is 0.
Var relu(const Var& x);
/// x σ(2u), u = √(2/π) (x + 0.044715 x³): the tanh form of the GELU (Hendrycks and Gimpel, 2016).
Var gelu(const Var& x);
/// log(1 + eˣ)
Var softplus(const Var& x);
/// |x|; the gradient at 0 is 0.
Var abs(const Var& x);
/// √x; the gradient at 0 is infinite.
Var sqrt(const Var& x);
/// x²
Var square(const Var& x);
/// xᵖ for a fixed p. NaN where x < 0 and p is not whole.
Var power(const Var& x, double p);
/// The larger of two; where they are equal, the gradient goes to a.
Var maximum(const Var& a, const Var& b);
/// The smaller of two; where they are equal, the gradient goes to a.
Var minimum(const Var& a, const Var& b);
/// a where the mask is 1, b where it is 0; all three broadcast. What stands in the one that was not
/// chosen does not matter, NaN included, and its gradient is 0. That holds for what it was computed
/// from element by element, too, as 0 times an infinite slope counts as 0 there:
///     where(mask, a * log(a), 0.0)      // entropy with 0 log 0 = 0
/// Other operations mix elements: where their input may be NaN, choose that first, as in
/// matmul(where(mask, x, 0.0), w).
Var where(const Mask& mask, const Var& a, const Var& b);
Var where(const Mask& mask, const Var& a, double b);
/// (..., 2R) -> (..., R): y_r = max(x_r, x_{r+R}), over pairs (Goodfellow et al., 2013).
Var maxout(const Var& x);

/// (..., K) x (K, N) -> (..., N): leading axes of a are folded. See `Transpose` in matmul.hpp.
Var matmul(const Var& a, const Var& b, Transpose transpose = {});

/// y + a·b, where y is (..., N), (N) or undefined: a bias, or another share of a sum.
Var add_matmul(const Var& y, const Var& a, const Var& b, Transpose transpose = {});

/// The affine map x W + b, or x Wᵀ + b: W (R, V), or transposed (V, R), and b (V) or undefined.
struct Affine {
  Var W, b;
  bool transposed = false;
};

/// The logits x W + b, not computed yet. A loss may give x and the map to affine_cross_entropy,
/// which never stores all logits; the conversion to Var computes them all. Without W they are x.
struct AffineLogits {
  Var x;
  Affine affine = {};

  operator Var() const;
};

/// (..., M, K) x (..., K, N) -> (..., M, N): one product for each place of the leading axes.
Var batched_matmul(const Var& a, const Var& b, Transpose transpose = {});

/// Over the axes given, or over all of them.
Var sum(const Var& x, const std::vector<int>& axes = {}, KeepAxes keep = KeepAxes::no);
Var mean(const Var& x, const std::vector<int>& axes = {}, KeepAxes keep = KeepAxes::no);

/// The largest element along an axis; the gradient goes to the first one of equals.
Var max(const Var& x, int axis, KeepAxes keep = KeepAxes::no);
/// √(Σ x²) along an axis; where that is 0, so is the gradient.
Var norm(const Var& x, int axis, KeepAxes keep = KeepAxes::no);
/// log Σ eˣ along an axis, without overflow.
Var log_sum_exp(const Var& x, int axis, KeepAxes keep = KeepAxes::no);

/// Along an axis, over the positions whose mask is 1; see reference.hpp and normalize.hpp.
Var softmax(const Var& x, int axis = -1, const Mask& mask = {});
Var log_softmax(const Var& x, int axis = -1);

/// reference::layer_norm in one pass: x (..., N), gain (N), bias (N) -> (..., N). A row is
/// normalised on its own, independent of the other rows; a row of equal elements gives the bias.
Var layer_norm(const Var& x, const Var& gain, const Var& bias, double epsilon = layer_norm_epsilon);

/// reference::sparsemax, which unlike softmax gives exact zeros. With a mask as softmax's.
Var sparsemax(const Var& x, int axis = -1, const Mask& mask = {});

/// The same elements in another shape; one extent may be -1.
Var reshape(const Var& x, const Shape& shape);
Var reshape(const Var& x, std::initializer_list<Index> extents);
/// Elements begin to end (exclusive) of an axis; of axis 0, without copying.
Var slice(const Var& x, int axis, Index begin, Index end);
/// An axis in parts of these sizes, split(x, {2, 3}, axis), whose sum is its extent:
/// concat(split(x, ...), axis) is x.
std::vector<Var> split(const Var& x, const std::vector<Index>& sizes, int axis);
/// The axes in another order: axis i of the result is axis axes[i] of x.
Var permute(const Var& x, const std::vector<int>& axes);
/// Two axes exchanged.
Var transpose(const Var& x, int axis_a, int axis_b);
/// One after another along an axis.
Var concat(const std::vector<Var>& parts, int axis);
/// n times shape -> (n, shape)
Var stack(const std::vector<Var>& rows);
/// x with `before` and `after` more places along an axis, which hold `value`.
Var pad(const Var& x, int axis, Index before, Index after, double value = 0);
/// y_i = x_0 + ... + x_i along an axis, or with Direction::backward y_i = x_i + ... + x_{n-1}.
Var cumsum(const Var& x, int axis, Direction direction = Direction::forward);
/// table (V, ...), ids i32 of any shape -> (ids, ...): rows by number, the embedding.
Var gather(const Var& table, const Tensor& ids);
/// Windows of a sequence (T, B, D) with their steps side by side: (T', B, width · D). See
/// `UnfoldOptions` in arrange.hpp.
Var unfold(const Var& x, const UnfoldOptions& options);

}  // namespace attune
