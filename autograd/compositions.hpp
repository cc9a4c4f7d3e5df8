// Operations composed of others, defined once for Tensor and Var (X). Only Vars are recorded.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <attune/autograd/ops.hpp>

namespace attune {

// Reductions

/// The variance Σ (x - μ)² / (n - correction) over axes: use correction 1 for a sample, 0 for a
/// whole population. Throws if n <= correction.
template <class A, Value X = ValueOf<A>>
X var(const A& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no, Integer correction = 1);
/// The standard deviation, √var(x). Its gradient is 0 where all elements are equal.
template <class A, Value X = ValueOf<A>>
X std(const A& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no, Integer correction = 1);
/// Maxout over pairs (Goodfellow et al., 2013): (..., 2R) -> (..., R), y_r = max(x_r, x_{r+R}).
template <class A, Value X = ValueOf<A>>
X maxout(const A& x);

// Arrangement

/// Removes an axis of extent 1. Throws if its extent is not 1.
template <class A, Value X = ValueOf<A>>
X squeeze(const A& x, Integer axis);
/// Inserts an axis of extent 1 before `axis`; -1 appends it as the last axis.
template <class A, Value X = ValueOf<A>>
X unsqueeze(const A& x, Integer axis);
/// Splits an axis into parts of these sizes. The inverse of concat. Throws unless the sizes add up to
/// the extent.
template <class A, Value X = ValueOf<A>>
std::vector<X> split(const A& x, std::span<const Index> sizes, Integer axis);
/// The same for a list of sizes, and for N equal parts:
///     const auto [a, b] = split(x, {2, 3}, axis);
///     const auto [i, f, g, o] = split<4>(x, axis);
template <std::size_t N, class A, Value X = ValueOf<A>>
std::array<X, N> split(const A& x, const Integer (&sizes)[N], Integer axis) {
  std::array<X, N> parts;
  std::ranges::move(split(x, std::vector<Index>(sizes, sizes + N), axis), parts.begin());
  return parts;
}
template <std::size_t N, class A, Value X = ValueOf<A>>
std::array<X, N> split(const A& x, Integer axis) {
  const std::vector<Index> sizes(N, x.dim(x.shape().axis(axis, "split")) / Index{N});
  std::array<X, N> parts;
  std::ranges::move(split(x, sizes, axis), parts.begin());
  return parts;
}
/// Splits an axis into n parts of equal size, rounded up; the last part may be smaller, or missing.
template <class A, Value X = ValueOf<A>>
std::vector<X> chunk(const A& x, Integer n, Integer axis);
/// Reverses the order of the elements along these axes.
template <class A, Value X = ValueOf<A>>
X flip(const A& x, const Axes& axes = {});
/// Rotates x along an axis: y[i + shift] = x[i]. Elements that leave one end enter at the other.
template <class A, Value X = ValueOf<A>>
X roll(const A& x, Integer shift, Integer axis);
/// Repeats each index of an axis n times, as numpy.repeat: {a, b} -> {a, a, b, b}.
template <class A, Value X = ValueOf<A>>
X repeat(const A& x, Integer n, Integer axis);
/// Lower (tril) or upper (triu) triangle of matrices (..., M, N): 0 above, or below, the k-th
/// diagonal. k = 0 is the main diagonal, k = 1 the one above it.
template <class A, Value X = ValueOf<A>>
X tril(const A& x, Integer k = 0);
template <class A, Value X = ValueOf<A>>
X triu(const A& x, Integer k = 0);

// Indices

/// Selects one element per index along an axis: y[i, k, j] = x[i, ids[i, k, j], j]. ids (i32) has
/// the shape of x except for the extent of the axis.
template <class A, Value X = ValueOf<A>>
X take_along_axis(const A& x, const Tensor& ids, Integer axis);
/// (n): the elements of x whose mask is 1, in row-major order; all if the mask is undefined. The
/// mask broadcasts to x.
template <class A, Value X = ValueOf<A>>
X masked_select(const A& x, const Mask& mask);

/// Sorted elements, and their indices along the axis (i32).
template <Value X>
struct Sorted {
  X values;
  Tensor indices;
};
/// Sorts along an axis. Stable; NaN counts as larger than any number.
template <class A, Value X = ValueOf<A>>
Sorted<X> sort(const A& x, Integer axis = -1, Order order = Order::ascending);
/// The k largest elements along an axis, in descending order.
template <class A, Value X = ValueOf<A>>
Sorted<X> topk(const A& x, Integer k, Integer axis = -1);

// Segments: segments (N), i32 in [0, n), assigns each row of x (N, ...) to one of n segments, in
// any order. Example: the edges of a graph, grouped by node.

/// (n, ...): the sum of the rows of each segment, in their order; 0 for an empty segment.
template <class A, Value X = ValueOf<A>>
X segment_sum(const A& x, const Tensor& segments, Integer n);
/// (n, ...): the elementwise maximum of the rows of each segment; -∞ for an empty segment. Of
/// several equal elements, the first gets the gradient.
template <class A, Value X = ValueOf<A>>
X segment_max(const A& x, const Tensor& segments, Integer n);
/// (N, ...): softmax over the rows of each segment; 0 in a segment where all elements are -∞.
template <class A, Value X = ValueOf<A>>
X segment_softmax(const A& x, const Tensor& segments, Integer n);

// Products

/// Einstein summation: einsum("bij,bjk->bik", {a, b}). Each letter names an axis, and "..." all other
/// axes, which are aligned at the end. Axes of extent 1 broadcast. Letters and "..." that are not in
/// the result are summed over. Without "->", the result has "..." and the letters that occur once,
/// in alphabetical order. A letter that occurs twice in one operand selects its diagonal. Contracts
/// operands from left to right, by batched_matmul. Throws if the extents of a letter do not fit.
template <class A, Value X = ValueOf<A>>
X einsum(const std::string& equation, const std::vector<A>& operands);
/// The same with operands as arguments: einsum("ij,jk->ik", a, b). A Var if any operand is a Var.
template <class... A>
auto einsum(const std::string& equation, const A&... operands) requires(Value<ValueOf<A>>&&...) {
  using Result = std::conditional_t<(std::is_same_v<A, Var> || ...), Var, Tensor>;
  return einsum(equation, std::vector<Result>{operands...});
}

}  // namespace attune
