// Moving elements: slices of any axis, concatenation, stacking, windows.
#pragma once

#include <span>
#include <vector>

#include <attune/tensor/tensor.hpp>

namespace attune {

/// The order in which the steps of a sequence are visited.
enum class Direction { forward, backward };

/// The step that a direction visits last: where its last state stands.
inline Index last_step(Index steps, Direction direction) {
  return direction == Direction::forward ? steps - 1 : 0;
}

/// The elements in another shape; one extent may be -1. A view.
inline Tensor reshape(const Tensor& x, const Shape& shape) { return x.reshape(shape); }
inline Tensor reshape(const Tensor& x, std::initializer_list<Index> extents) {
  return x.reshape(extents);
}

/// Elements begin to end (exclusive) of an axis; negative ones count from its end. A copy;
/// `Tensor::slice` is the view of axis 0.
Tensor slice(const Tensor& x, int axis, Index begin, Index end);

/// to[..., begin : begin + n, ...] += x along an axis, where x has extent n there.
void add_to_slice(Tensor& to, const Tensor& x, int axis, Index begin);

/// Tensors one after another along an axis; their other extents must agree.
Tensor concat(std::span<const Tensor> parts, int axis);
inline Tensor concat(std::initializer_list<Tensor> parts, int axis) {
  return concat(std::span(parts.begin(), parts.size()), axis);
}

/// Tensors of one shape along a new axis, before `axis` of theirs: n times shape -> (n, shape).
Tensor stack(std::span<const Tensor> parts, int axis = 0);
inline Tensor stack(std::initializer_list<Tensor> parts, int axis = 0) {
  return stack(std::span(parts.begin(), parts.size()), axis);
}

/// x with `before` and `after` more places along an axis, which hold `value`.
Tensor pad(const Tensor& x, int axis, Index before, Index after, double value = 0);

/// y_i = x_0 + ... + x_i along an axis, or with Direction::backward y_i = x_i + ... + x_{n-1};
/// accumulated in double.
Tensor cumsum(const Tensor& x, int axis, Direction direction = Direction::forward);

/// The axes in another order: axis i of y is axis axes[i] of x (negative ones count from the end).
/// Every axis must be named once. A copy, but x itself where no axis moves.
Tensor permute(const Tensor& x, const std::vector<int>& axes);

/// Two axes exchanged.
Tensor transpose(const Tensor& x, int axis_a, int axis_b);

/// The mask (T, B) of sequences of these lengths, T being the longest: 1 on steps, 0 on padding
/// after them. Throws when there is none, or a length below 1.
Mask mask_of(std::span<const Index> lengths, DType dtype = DType::f32);

/// The opposite: how many steps each sequence of a mask (T, B) has. Throws where padding does not
/// stand after the steps.
std::vector<Index> lengths_of(const Mask& mask);

/// Windows of `width` steps, of which each begins `stride` steps after the one before. The first
/// begins `before` steps before the sequence, and the last ends `after` steps after it at most;
/// outside of the sequence there are zeros.
struct UnfoldOptions {
  Index width = 1, stride = 1, before = 0, after = 0;
};

/// How many windows a sequence of so many steps has: (steps + before + after - width) / stride + 1,
/// rounded down, and none where it is shorter than a window. Throws unless width >= 1, stride >= 1,
/// before >= 0 and after >= 0.
Index windows_of(Index steps, const UnfoldOptions& options);

/// x (T, B, D) -> (T', B, width · D): y[t] = [x[t · stride - before]; ...; x[t · stride - before +
/// width - 1]]
Tensor unfold(const Tensor& x, const UnfoldOptions& options);

/// The gradient of unfold: every element of dy (T', B, width · D) added to the place in (T, B, D)
/// that it was read from, `steps` being T.
Tensor unfold_backward(const Tensor& dy, Index steps, const UnfoldOptions& options);

}  // namespace attune
