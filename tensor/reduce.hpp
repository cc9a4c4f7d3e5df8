// Reductions over axes: sums, means, extrema, norms.
#pragma once

#include <vector>

#include <attune/tensor/arrange.hpp>
#undef max  // macros of some systems, which the standard library undefines too
#undef min

namespace attune {

/// Whether a reduced axis is kept in the result, with extent 1: KeepAxes::yes or KeepAxes::no.
class KeepAxes {
  enum class Choice : bool { no, yes };

 public:
  static constexpr Choice no = Choice::no, yes = Choice::yes;
  constexpr KeepAxes(Choice choice) : choice_(choice) {}  // NOLINT: implicit conversion
  KeepAxes(std::same_as<bool> auto) = delete;             // write KeepAxes::yes or KeepAxes::no
  constexpr bool operator==(const KeepAxes&) const = default;

 private:
  Choice choice_;
};

// i32 elements are reduced in double. Throws if a result does not fit in i32.
/// The sum of the elements; 0 if there are none.
Tensor sum(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// The mean of the elements. Throws if a result would be the mean of no elements.
Tensor mean(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// The product of the elements; 1 if there are none.
Tensor prod(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// The largest element; NaN if any element is NaN. Throws if there are no elements.
Tensor max(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// The smallest element; NaN if any element is NaN. Throws if there are no elements.
Tensor min(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
/// `any`: 1 if at least one element is nonzero. `all`: 1 if all are. Else 0, in x's dtype.
Tensor any(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);
Tensor all(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);

/// For each axis of the shape, whether the reduction `axes` reduces it.
std::array<bool, Shape::max_rank> chosen_axes(const char* operation, const Shape& shape,
                                              const Axes& axes);

/// A reduction over several axes, expressed as a reduction over one: permute x by `order`, reshape
/// it to `shape`, reduce its axis `axis`, and reshape the result to `reduced`. A single axis needs
/// no permutation: `order` is then empty.
struct JoinedAxes {
  std::vector<int> order;
  Shape shape, reduced;
  int axis;
};
JoinedAxes join_axes(const char* operation, const Shape& shape, const Axes& axes, KeepAxes keep);

/// Reduces several axes of a Tensor or Var with f(x, axis), which reduces one axis to extent 1.
template <Value X, class F>
X over_axes(const char* operation, const X& x, const Axes& axes, KeepAxes keep, F f) {
  const JoinedAxes joined = join_axes(operation, x.shape(), axes, keep);
  const bool as_it_is = joined.shape == x.shape();
  return reshape(f(as_it_is ? x : reshape(permute(x, joined.order), joined.shape), joined.axis),
                 joined.reduced);
}

/// The product along an axis, which is kept with extent 1.
Tensor prod_forward(const Tensor& x, Integer axis);
/// Its gradient: dx_i = dy Π_{j≠i} x_j.
Tensor prod_backward(const Tensor& x, const Tensor& dy, Integer axis);

/// The gradient of broadcasting: sums x over the axes along which `shape` broadcasts to x's shape.
Tensor sum_to(const Tensor& x, const Shape& shape);

/// Number of elements that are reduced to one.
Index reduced_size(const Shape& shape, const Axes& axes);

/// The index, i32, of the largest or smallest element along an axis. NaN counts as the largest or
/// smallest. The first of several equal elements counts. (..., n) -> (...) by default.
Tensor argmax(const Tensor& x, Integer axis = -1, KeepAxes keep = KeepAxes::no);
Tensor argmin(const Tensor& x, Integer axis = -1, KeepAxes keep = KeepAxes::no);

/// Maximum along an axis, which is kept with extent 1, and its index. The first of several
/// equal elements counts; NaN counts as largest. Throws if the axis is empty.
struct MaxAndIndex {
  Tensor values;
  Tensor indices;  // i32, the index along the axis
};
MaxAndIndex max_forward(const Tensor& x, Integer axis, const char* operation = "max");

/// The gradient of max_forward, dx of `shape`: dy at `indices` along the axis, else 0.
Tensor max_backward(const Tensor& dy, const Tensor& indices, const Shape& shape, Integer axis);

/// √(Σ x²), accumulated in double. Scales the elements first if their squares over- or underflow.
Tensor norm(const Tensor& x, const Axes& axes = {}, KeepAxes keep = KeepAxes::no);

/// Σ x² over all elements, accumulated in double in a fixed order.
double sum_of_squares(const Tensor& x);

/// Describes the first element that is NaN or infinite: "(4, 5), element (0, 3) is -inf". Empty if
/// all elements are finite, and for a tensor that is i32 or undefined.
std::string first_non_finite(const Tensor& x);

}  // namespace attune
