// Operations that are made of others. Each is defined once and serves Tensor and Var: with Tensors
// nothing is recorded. X is Tensor or Var.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include <attune/autograd/ops.hpp>

namespace attune {

// Reductions

/// The variance Σ (x - μ)² / (n - correction) over axes, and its root, the standard deviation: for
/// samples with correction 1, for whole populations with 0. Throws where n <= correction. The
/// gradient of std is 0 where all elements are equal.
template <Value X>
X var(const X& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no, Index correction = 1);
template <Value X>
X std(const X& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no, Index correction = 1);
/// (..., 2R) -> (..., R): y_r = max(x_r, x_{r+R}), over pairs (Goodfellow et al., 2013).
template <Value X>
X maxout(const X& x);

// Arrangement

/// Without an axis of extent 1.
template <Value X>
X squeeze(const X& x, int axis);
/// With an axis of extent 1 before `axis`; -1: at the end.
template <Value X>
X unsqueeze(const X& x, int axis);
/// An axis in parts of these sizes, split(x, {2, 3}, axis), whose sum is its extent:
/// concat(split(x, ...), axis) is x.
template <Value X>
std::vector<X> split(const X& x, const std::vector<Index>& sizes, int axis);
/// In reverse order along these axes.
template <Value X>
X flip(const X& x, const Axes& axes = {});
/// Shifted along an axis, y[i + shift] = x[i]; what leaves it at one end enters at the other.
template <Value X>
X roll(const X& x, Index shift, int axis);
/// Each slice of an axis n times in a row, as numpy.repeat: {a, b} -> {a, a, b, b}.
template <Value X>
X repeat(const X& x, Index n, int axis);
/// (..., M, N): 0 above, or below, the k-th diagonal; k = 0 is the main one, 1 the one above it.
template <Value X>
X tril(const X& x, Index k = 0);
template <Value X>
X triu(const X& x, Index k = 0);

// Indices

/// y[i, k, j] = x[i, ids[i, k, j], j]: one element for each index along an axis. ids, i32, have x's
/// shape but for the extent of the axis.
template <Value X>
X take_along_axis(const X& x, const Tensor& ids, int axis);
/// (n): the elements whose mask is 1, in row-major order. The mask broadcasts to x.
template <Value X>
X masked_select(const X& x, const Mask& mask);

/// Sorted elements and their indices along the axis, i32.
template <Value X>
struct Sorted {
  X values;
  Tensor indices;
};
/// Equal elements keep their order; NaN counts as larger than any number.
template <Value X>
Sorted<X> sort(const X& x, int axis = -1, Order order = Order::ascending);
/// The k largest elements, in descending order.
template <Value X>
Sorted<X> topk(const X& x, Index k, int axis = -1);

// Segments: x (N, ...) has rows of n segments, segments (N) i32 in [0, n) has each row's, in any
// order: the edges of a graph, grouped by node.

/// (n, ...): the sum of each segment's rows, in order; 0 of none.
template <Value X>
X segment_sum(const X& x, const Tensor& segments, Index n);
/// (n, ...): the largest of each segment's elements; -∞ of none. The gradient goes to the first one.
template <Value X>
X segment_max(const X& x, const Tensor& segments, Index n);
/// (N, ...): softmax over the rows of each segment; 0 in a segment of only -∞.
template <Value X>
X segment_softmax(const X& x, const Tensor& segments, Index n);

// Products

/// Einstein summation: einsum("bij,bjk->bik", {a, b}). Each letter names an axis; letters that the
/// result does not have are summed. Without "->" the result has the letters that occur once, in
/// alphabetical order. A letter twice in one operand is its diagonal. Several operands are contracted
/// from left to right by batched_matmul.
template <Value X>
X einsum(const std::string& equation, const std::vector<X>& operands);
/// einsum("ij,jk->ik", a, b): a Var if any operand is one.
template <Value... X>
auto einsum(const std::string& equation, const X&... operands) {
  using Result = std::conditional_t<(std::is_same_v<X, Var> || ...), Var, Tensor>;
  return einsum(equation, std::vector<Result>{operands...});
}

}  // namespace attune
