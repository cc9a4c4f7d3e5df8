// Elements by index: gather and scatter, sorting, positions of elements.
#pragma once

#include <attune/tensor/arrange.hpp>

namespace attune {

/// Selects slices of an axis by index. The shape of ids, i32, replaces the axis: along axis 0 of a
/// table (V, ...) y[i] = table[ids[i]], and along axis 1 x (S, B, ...) -> (S, ids, ...).
Tensor gather(const Tensor& x, const Tensor& ids, int axis = 0);

/// x with y[ids[i]] += rows[i] along an axis, where rows have the shape of gather(x, ids, axis).
/// Repeated ids add up, in order.
Tensor scatter_add(const Tensor& x, const Tensor& ids, const Tensor& rows, int axis = 0);
/// The same without a new tensor: the gradient of gather.
void scatter_add_in_place(Tensor& to, const Tensor& ids, const Tensor& rows, int axis = 0);

/// Where y[i, k, j] = x[i, ids[i, k, j], j] is among all elements of x, i32, for take_along_axis. ids
/// have x's shape but for the extent of the axis.
Tensor places_along_axis(const Shape& shape, const Tensor& ids, int axis);

enum class Order { ascending, descending };

/// The indices, i32, that sort x along an axis, or the first k of them. Equal elements keep their
/// order; NaN counts as larger than any number.
Tensor argsort(const Tensor& x, int axis = -1, Order order = Order::ascending);
Tensor argsort(const Tensor& x, Index k, int axis, Order order);

/// (n, rank) i32: the index of each element that is not 0, in row-major order.
Tensor nonzero(const Tensor& x);

/// ids (...) i32 in [0, n) -> (..., n): 1 at each id, 0 elsewhere.
Tensor one_hot(const Tensor& ids, Index n, DType dtype = DType::f32);

/// Of each of n segments the index along axis 0 of its largest element: x (N, ...), segments (N) i32
/// in [0, n) -> (n, ...) i32, -1 where a segment is empty. The first one of equals, or of NaNs.
Tensor segment_argmax(const Tensor& x, const Tensor& segments, Index n);

}  // namespace attune
