// Moving elements: slicing, concatenation, padding, permutation, sliding windows.
#pragma once

#include <span>
#include <vector>

#include <attune/tensor/tensor.hpp>

namespace attune {

/// The order in which a recurrence or scan visits the steps of a sequence.
enum class Direction { forward, backward };

/// The step that is visited last. A recurrence has its final state there.
inline Index last_step(Integer steps, Direction direction) {
  return direction == Direction::forward ? steps - 1 : 0;
}

/// Axes: one or several, in a reduction all if empty. Negative axes count from the end. Functions
/// throw if an axis is named twice or does not exist.
struct Axes : std::vector<int> {
  Axes() = default;
  Axes(Index axis) : vector{to_int(axis)} {}  // NOLINT: sum(x, -1)
  Axes(FractionOrBool auto) = delete;
  Axes(std::initializer_list<Integer> axes) {  // sum(x, {0, 2})
    for (const Index axis : axes) push_back(to_int(axis));
  }
  Axes(std::vector<int> axes) : vector(std::move(axes)) {}  // NOLINT

 private:
  /// Beyond max_rank, no axis exists.
  static int to_int(Index axis) { return static_cast<int>(std::clamp<Index>(axis, -99, 99)); }
};

/// View in another shape of the same size. One extent may be -1: it is computed from the others.
inline Tensor reshape(const Tensor& x, const Shape& shape) { return x.reshape(shape); }
inline Tensor reshape(const Tensor& x, std::initializer_list<Integer> extents) {
  return x.reshape(extents);
}

/// The indices [begin, end) of an axis; negative ones count from the end. Throws if they are out of
/// range. A copy; the view along axis 0 is `Tensor::slice`.
Tensor slice(const Tensor& x, Integer axis, Integer begin, Integer end);
/// From `begin` to the end of the axis. X is Tensor or Var.
template <class A, Value X = ValueOf<A>>
X slice(const A& x, Integer axis, Integer begin) {
  return slice(x, axis, begin, x.dim(x.shape().axis(axis, "slice")));
}

/// to[..., begin : begin + n, ...] += x along an axis, where n is x's extent on that axis.
void add_to_slice(Tensor& to, const Tensor& x, Integer axis, Integer begin);

/// Concatenates tensors along an axis. Throws if `parts` is empty or other extents differ.
Tensor concat(std::span<const Tensor> parts, Integer axis);
inline Tensor concat(std::initializer_list<Tensor> parts, Integer axis) {
  return concat(std::span<const Tensor>(parts.begin(), parts.size()), axis);
}

/// Stacks n tensors of one shape along a new axis before `axis`: with axis 0, (n, shape...).
Tensor stack(std::span<const Tensor> parts, Integer axis = 0);
inline Tensor stack(std::initializer_list<Tensor> parts, Integer axis = 0) {
  return stack(std::span<const Tensor>(parts.begin(), parts.size()), axis);
}

/// Pads x along an axis with `before` and `after` elements of `value`. Throws if one is negative.
Tensor pad(const Tensor& x, Integer axis, Integer before, Integer after, double value = 0);

/// Cumulative sum along an axis, accumulated in double: y_i = x_0 + ... + x_i. With
/// Direction::backward: y_i = x_i + ... + x_{n-1}.
Tensor cumsum(const Tensor& x, Integer axis, Direction direction = Direction::forward);
/// Cumulative product along an axis, accumulated in double: y_i = x_0 · ... · x_i.
Tensor cumprod(const Tensor& x, Integer axis);
/// Its gradient: dx_i = x_0 · ... · x_{i-1} · Σ_{k>=i} dy_k x_{i+1} · ... · x_k, also where x is 0.
Tensor cumprod_backward(const Tensor& x, const Tensor& dy, Integer axis);

/// Permutes the axes: axis i of y is axis axes[i] of x (negative ones count from the end). Throws
/// unless every axis is named once. A copy; x itself if the order does not change.
Tensor permute(const Tensor& x, const Axes& axes);

/// x with two axes exchanged. A copy, as in `permute`.
Tensor transpose(const Tensor& x, Integer axis_a, Integer axis_b);

/// The mask (T, B) of sequences with these lengths: T is the largest length, column b is 1 at the
/// first lengths[b] steps and 0 after them. Throws if there are no lengths, or one is below 1.
Mask mask_of(std::span<const Index> lengths, DType dtype = DType::f32);
inline Mask mask_of(std::initializer_list<Integer> lengths, DType dtype = DType::f32) {
  return mask_of(Integer::list(lengths), dtype);
}

/// The length of each sequence of a mask (T, B): inverse of mask_of. Throws for a 1 after a 0.
std::vector<Index> lengths_of(const Mask& mask);
inline void require_padding_at_end(const Mask& mask) { static_cast<void>(lengths_of(mask)); }

/// Sliding windows over a sequence: each has `width` steps, and begins `stride` steps after the
/// previous one. The sequence is padded with `before` and `after` steps of zeros.
struct UnfoldOptions {
  Index width = 1, stride = 1, before = 0, after = 0;
};

/// Number of windows: floor((steps + before + after - width) / stride) + 1, or 0 if that is
/// negative. Throws unless width >= 1, stride >= 1, before >= 0 and after >= 0.
Index windows_of(Integer steps, const UnfoldOptions& options);
/// Throws if one of the options is out of range.
void require_valid(const UnfoldOptions& options);

/// The windows of x (T, B, D) -> (T', B, width · D), T' = windows_of(T, options):
/// y[t] = [x[t · stride - before]; ...; x[t · stride - before + width - 1]], with zeros beyond the
/// ends. Throws unless x is f32 or f64.
Tensor unfold(const Tensor& x, const UnfoldOptions& options);

/// The gradient of unfold: adds every element of dy (T', B, width · D) to the element of (T, B, D)
/// that it was copied from. `steps` is T.
Tensor unfold_backward(const Tensor& dy, Integer steps, const UnfoldOptions& options);

}  // namespace attune
