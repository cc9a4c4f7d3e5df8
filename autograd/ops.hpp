// Differentiable operations. Binary ones broadcast like NumPy; all take f32 or f64.
#pragma once

#include <vector>

#include <attune/autograd/var.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/index.hpp>
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

// exp, tanh, log and the other functions of one input: see tensor/functions.inc.
#define ATTUNE_FUNCTION(name, kept, value, gradient) Var name(const Var& x);
#include <attune/tensor/functions.inc>

// What these compute: tensor/elementwise.hpp.
Var gelu(const Var& x);
Var power(const Var& a, const Var& b);
Var power(const Var& a, double b);
/// Where a and b are equal, the gradient goes to a.
Var maximum(const Var& a, const Var& b);
Var minimum(const Var& a, const Var& b);
/// An element that is not selected has gradient 0. So has what it was computed from element by
/// element, as 0 times an infinite slope counts as 0 there:
///     where(mask, a * log(a), 0.0)      // entropy with 0 log 0 = 0
/// Other operations mix elements: where their input may be NaN, select that first, as in
/// matmul(where(mask, x, 0.0), w).
Var where(const Mask& mask, const Var& a, const Var& b);

// Comparisons of values: 1 where they hold, else 0; see tensor/elementwise.hpp.
#define ATTUNE_COMPARISON(op)                                                              \
  inline Tensor operator op(const Var& a, const Var& b) { return a.value() op b.value(); } \
  inline Tensor operator op(const Var& a, double b) { return a.value() op b; }
ATTUNE_COMPARISON(==)
ATTUNE_COMPARISON(!=)
ATTUNE_COMPARISON(<)
ATTUNE_COMPARISON(<=)
ATTUNE_COMPARISON(>)
ATTUNE_COMPARISON(>=)
#undef ATTUNE_COMPARISON

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

/// (..., M, K) x (..., K, N) -> (..., M, N): one product for each index of the leading axes, which
/// broadcast.
Var batched_matmul(const Var& a, const Var& b, Transpose transpose = {});

/// Over one axis, several, or all of them.
Var sum(const Var& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
Var mean(const Var& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
Var prod(const Var& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// The largest or smallest element; the gradient goes to the first one of equals.
Var max(const Var& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
Var min(const Var& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// √(Σ x²); where that is 0, so is the gradient.
Var norm(const Var& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// log Σ eˣ, without overflow.
Var log_sum_exp(const Var& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);

/// Along an axis, over the positions whose mask is 1; see reference.hpp and normalize.hpp.
Var softmax(const Var& x, int axis = -1, const Mask& mask = {});
Var log_softmax(const Var& x, int axis = -1);

/// reference::layer_norm in one pass: x (..., N), gain (N), bias (N) -> (..., N). A row is
/// normalised on its own, independent of the other rows; a row of equal elements gives the bias.
Var layer_norm(const Var& x, const Var& gain, const Var& bias, double epsilon = layer_norm_epsilon);

/// reference::sparsemax, which unlike softmax gives exact zeros. With a mask as softmax's.
Var sparsemax(const Var& x, int axis = -1, const Mask& mask = {});

// Arrangement and indices, as those of Tensor in tensor/arrange.hpp and tensor/index.hpp. A slice of
// axis 0 is a view.
Var reshape(const Var& x, const Shape& shape);
Var reshape(const Var& x, std::initializer_list<Index> extents);
Var slice(const Var& x, int axis, Index begin, Index end);
Var broadcast_to(const Var& x, const Shape& shape);
Var permute(const Var& x, const std::vector<int>& axes);
Var transpose(const Var& x, int axis_a, int axis_b);
Var concat(const std::vector<Var>& parts, int axis);
Var stack(const std::vector<Var>& parts, int axis = 0);
Var pad(const Var& x, int axis, Index before, Index after, double value = 0);
Var cumsum(const Var& x, int axis, Direction direction = Direction::forward);
Var gather(const Var& x, const Tensor& ids, int axis = 0);
Var scatter_add(const Var& x, const Tensor& ids, const Var& rows, int axis = 0);
Var unfold(const Var& x, const UnfoldOptions& options);

}  // namespace attune
