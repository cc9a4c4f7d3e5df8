// Differentiable operations, each with its own pullback; compositions.hpp has those that are
// composed of them. Binary ones broadcast as in NumPy. All take f32 or f64.
#pragma once

#include <initializer_list>
#include <span>

#include <attune/autograd/var.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/index.hpp>
#include <attune/tensor/kernels/normalize.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune {

// + - * / and == != < <= > >=, see tensor/operators.inc. Comparisons are those of the values.
// `a += b` means `a = a + b`, which keeps a's history; other Vars that share a's elements stay.
#define ATTUNE_OPERATOR(op, name)                                         \
  Var operator op(const Var& a, const Var& b);                            \
  Var operator op(const Var& a, double b);                                \
  Var operator op(double a, const Var& b);                                \
  inline Var& operator op##=(Var& a, const Var& b) { return a = a op b; } \
  inline Var& operator op##=(Var& a, double b) { return a = a op b; }
#define ATTUNE_COMPARISON(name, op)                                                        \
  inline Tensor operator op(const Var& a, const Var& b) { return a.value() op b.value(); } \
  inline Tensor operator op(const Var& a, double b) { return a.value() op b; }             \
  inline Tensor operator op(double a, const Var& b) { return a op b.value(); }
#include <attune/tensor/operators.inc>
Var operator-(const Var& x);

// exp, tanh, log and the other functions of one input: see tensor/functions.inc.
#define ATTUNE_FUNCTION(name, kept, value, gradient) Var name(const Var& x);
#include <attune/tensor/functions.inc>

// See tensor/elementwise.hpp for the definitions.
Var power(const Var& a, const Var& b);
Var power(const Var& a, double b);
/// If a and b are equal, a gets the gradient.
Var maximum(const Var& a, const Var& b);
Var minimum(const Var& a, const Var& b);
/// An element that is not selected has gradient 0. So have the elements that it was computed from
/// by elementwise operations, even if their derivative is infinite:
///     where(mask, a * log(a), 0.0)      // entropy with 0 log 0 = 0
/// Other operations mix elements. If their input may be NaN, mask the input first:
///     matmul(where(mask, x, 0.0), w)
Var where(const Mask& mask, const Var& a, const Var& b);

/// Matrix product (..., K) x (K, N) -> (..., N). Leading axes of a are folded into rows. With
/// transpose.a, a is (K, M); with transpose.b, b is (N, K).
Var matmul(const Var& a, const Var& b, Transpose transpose = {});

/// y + a·b in one pass; y is (..., N), or (N), for example a bias, or undefined.
Var add_matmul(const Var& y, const Var& a, const Var& b, Transpose transpose = {});

/// Batched matrix product (..., M, K) x (..., K, N) -> (..., M, N): one product for each index of
/// the leading axes, which broadcast. Transposes as in `matmul`.
Var batched_matmul(const Var& a, const Var& b, Transpose transpose = {});

// Reductions over one axis, several axes, or all axes if none is given.
Var sum(const Var& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
Var mean(const Var& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
Var prod(const Var& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// The largest or smallest element. Of several equal elements, the first gets the gradient.
Var max(const Var& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
Var min(const Var& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// √(Σ x²). Its gradient is 0 where the norm is 0.
Var norm(const Var& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// log Σ eˣ, without overflow.
Var log_sum_exp(const Var& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);

/// Softmax along an axis, over the positions whose mask is 1; see reference.hpp and normalize.hpp.
Var softmax(const Var& x, Integer axis = -1, const Mask& mask = {});
Var log_softmax(const Var& x, Integer axis = -1);

/// Layer normalisation, reference::layer_norm in one pass: x (..., N), gain (N), bias (N) -> (...,
/// N). Each row of N elements is normalised independently. A row of equal elements gives the bias
/// if epsilon > 0. Throws unless 0 <= epsilon < ∞.
Var layer_norm(const Var& x, const Var& gain, const Var& bias, double epsilon = layer_norm_epsilon);

/// Sparsemax, reference::sparsemax: like softmax, but with exact zeros. The mask is as in softmax.
Var sparsemax(const Var& x, Integer axis = -1, const Mask& mask = {});

// Arrangement and indexing: see tensor/arrange.hpp, tensor/index.hpp. Slices of axis 0 are views.
Var reshape(const Var& x, const Shape& shape);
Var reshape(const Var& x, std::initializer_list<Integer> extents);
Var slice(const Var& x, Integer axis, Integer begin, Integer end);
Var broadcast_to(const Var& x, const Shape& shape);
Var permute(const Var& x, const Axes& axes);
Var transpose(const Var& x, Integer axis_a, Integer axis_b);
Var concat(std::span<const Var> parts, Integer axis);
inline Var concat(std::initializer_list<Var> parts, Integer axis) {
  return concat(std::span<const Var>(parts.begin(), parts.size()), axis);
}
Var stack(std::span<const Var> parts, Integer axis = 0);
inline Var stack(std::initializer_list<Var> parts, Integer axis = 0) {
  return stack(std::span<const Var>(parts.begin(), parts.size()), axis);
}
Var pad(const Var& x, Integer axis, Integer before, Integer after, double value = 0);
Var cumsum(const Var& x, Integer axis, Direction direction = Direction::forward);
Var cumprod(const Var& x, Integer axis);
Var gather(const Var& x, const Tensor& ids, Integer axis = 0);
Var scatter_add(const Var& x, const Tensor& ids, const Var& rows, Integer axis = 0);
Var scatter(const Var& x, const Tensor& ids, const Var& rows, Integer axis = 0);
Var unfold(const Var& x, const UnfoldOptions& options);

}  // namespace attune
