// Operations with indices: gather and scatter, sorting, one-hot vectors.
#pragma once

#include <attune/tensor/arrange.hpp>

namespace attune {

/// Selects slices of an axis by index; the shape of ids (i32) replaces that axis. For a table (V,
/// ...) and axis 0: y[i] = table[ids[i]]. For x (S, B, ...) and axis 1: (S, ids.shape..., ...).
/// Throws if an id is not in [0, extent).
Tensor gather(const Tensor& x, const Tensor& ids, Integer axis = 0);

/// A copy of x with y[ids[i]] += rows[i] along an axis. `rows` has the shape of gather(x, ids,
/// axis). Repeated ids accumulate, in their order. Throws if an id is not in [0, extent).
Tensor scatter_add(const Tensor& x, const Tensor& ids, const Tensor& rows, Integer axis = 0);
/// scatter_add into `to`, in place: the gradient of gather.
void scatter_add_in_place(Tensor& to, const Tensor& ids, const Tensor& rows, Integer axis = 0);

/// A copy of x with y[ids[i]] = rows[i] along an axis, and `rows` as above. Of repeated ids, the last
/// one counts. Throws if an id is not in [0, extent).
Tensor scatter(const Tensor& x, const Tensor& ids, const Tensor& rows, Integer axis = 0);

/// The flat indices (i32) in x of the elements x[i, ids[i, k, j], j] that take_along_axis selects.
/// ids has the shape of x except for the extent of the axis.
Tensor flat_indices_along_axis(const Shape& shape, const Tensor& ids, Integer axis);

enum class Order { ascending, descending };

/// The indices (i32) that sort x along an axis, or the first k of them. Stable; NaN counts as
/// larger than any number.
Tensor argsort(const Tensor& x, Integer axis = -1, Order order = Order::ascending);
Tensor argsort(const Tensor& x, Integer k, Integer axis, Order order,
               const char* operation = "argsort");

/// (n, rank) i32: the indices of the n nonzero elements, in row-major order.
Tensor nonzero(const Tensor& x);

/// ids (...) i32 in [0, n) -> (..., n): 1 at each id, 0 elsewhere. Throws if an id is out of range.
Tensor one_hot(const Tensor& ids, Integer n, DType dtype = DType::f32);

/// The row of the largest element of each segment: x (N, ...), segments (N) i32 in [0, n) gives (n,
/// ...) i32, indices along axis 0 of x; -1 if the segment is empty. The first of equals counts.
Tensor segment_argmax(const Tensor& x, const Tensor& segments, Integer n);

}  // namespace attune
