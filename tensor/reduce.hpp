// Sums, means, extremes over axes.
#pragma once

#include <vector>

#include <attune/tensor/arrange.hpp>

namespace attune {

/// Whether a reduced axis stays with extent 1.
enum class KeepAxes : bool { no, yes };

/// The axes of a reduction: one, several, or all where none is given. Negative ones count from the
/// end. An axis that is named twice is an error.
struct Axes : std::vector<int> {
  Axes() = default;
  Axes(int axis) : vector{axis} {}                          // NOLINT: sum(x, -1)
  Axes(std::initializer_list<int> axes) : vector(axes) {}   // sum(x, {0, 2})
  Axes(std::vector<int> axes) : vector(std::move(axes)) {}  // NOLINT
};

// i32 elements are summed and multiplied as double; a result that no i32 holds is an error.
Tensor sum(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
Tensor mean(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// The product of the elements; 1 of nothing.
Tensor prod(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// The largest element; NaN counts as larger than any number. Throws if x has no elements.
Tensor max(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// The smallest element; NaN counts as smaller than any number. Throws if x has no elements.
Tensor min(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// 1 if any, or each, element is not 0; else 0. Of x's dtype.
Tensor any(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
Tensor all(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);

/// Whether each axis of the shape is one of `axes`.
std::array<bool, Shape::max_rank> chosen_axes(const char* operation, const Shape& shape,
                                              const Axes& axes);

/// How kernels that reduce one axis reduce several: x is permuted by `order` and reshaped to `shape`,
/// which has them as one `axis`, and the result reshaped to `reduced`. One axis stays where it is.
struct JoinedAxes {
  std::vector<int> order;
  Shape shape, reduced;
  int axis;
};
JoinedAxes join_axes(const char* operation, const Shape& shape, const Axes& axes, KeepAxes keep);

/// f(x, axis), which leaves extent 1 there, over several axes of a Tensor or Var.
template <Value X, class F>
X over_axes(const char* operation, const X& x, const Axes& axes, KeepAxes keep, F f) {
  const JoinedAxes joined = join_axes(operation, x.shape(), axes, keep);
  const bool as_it_is = joined.shape == x.shape();
  return reshape(f(as_it_is ? x : reshape(permute(x, joined.order), joined.shape), joined.axis),
                 joined.reduced);
}

/// The product along an axis, which stays with extent 1, and its gradient: each element gets dy
/// times the product of the others.
Tensor prod_forward(const Tensor& x, int axis);
Tensor prod_backward(const Tensor& x, const Tensor& dy, int axis);

/// The sum over whatever was broadcast when `shape` became x's shape: the gradient of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);

/// Number of elements that are reduced into one.
Index reduced_size(const Shape& shape, const Axes& axes);

/// The index, i32, of the largest or smallest element along an axis: the first one of equals, or of
/// NaNs. (..., n) -> (...) by default.
Tensor argmax(const Tensor& x, int axis = -1, KeepAxes keep = KeepAxes::no);
Tensor argmin(const Tensor& x, int axis = -1, KeepAxes keep = KeepAxes::no);

/// The largest element along an axis, which stays with extent 1, and its place there: the first of
/// equals, or of NaNs, which count as larger than any number. Throws where the axis is empty.
struct Largest {
  Tensor values;
  Tensor places;  // i32
};
Largest max_forward(const Tensor& x, int axis, const char* operation = "max");

/// dx of that shape: dy at the places found along the axis, 0 elsewhere.
Tensor max_backward(const Tensor& dy, const Tensor& places, const Shape& shape, int axis);

/// √(Σ x²), accumulated in double; squares that would overflow or vanish there are scaled first.
Tensor norm(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);

/// Σ x² over all elements, accumulated in double in a fixed order.
double sum_of_squares(const Tensor& x);

/// The first element that is NaN or infinite: "(4, 5), element (0, 3) is -inf". Empty where there
/// is none, as in a tensor of i32 or one that is not defined.
std::string first_not_finite(const Tensor& x);

/// The index of the element of that number, in row-major order; and as text, "(0, 3)".
std::array<Index, Shape::max_rank> element_index(const Shape& shape, Index number);
std::string element_name(const Shape& shape, Index number);

}  // namespace attune
