// Sums, means, extremes over axes.
#pragma once

#include <vector>

#include <attune/tensor/tensor.hpp>

namespace attune {

/// Whether a reduced axis stays with extent 1.
enum class KeepAxes : bool { no, yes };

/// Sum over the axes given (negative ones count from the end); over all of them when none is given.
Tensor sum(const Tensor& x, const std::vector<int>& axes = {}, KeepAxes keep = KeepAxes::no);
Tensor mean(const Tensor& x, const std::vector<int>& axes = {}, KeepAxes keep = KeepAxes::no);

/// The sum over whatever was broadcast when `shape` became x's shape: the gradient of broadcasting.
Tensor sum_to(const Tensor& x, const Shape& shape);

/// Number of elements that are reduced into one.
Index reduced_size(const Shape& shape, const std::vector<int>& axes);

/// (..., n) -> (...) i32: where the largest element of the last axis is, the first one of equals.
Tensor argmax(const Tensor& x);

/// The largest element along an axis, which stays with extent 1, and its place there: the first of
/// equals, or of NaNs, which count as larger than any number. Throws where the axis is empty.
struct Largest {
  Tensor values;
  Tensor places;  // i32
};
Largest max_forward(const Tensor& x, int axis, const char* operation = "max");

/// dx of that shape: dy at the places found along the axis, 0 elsewhere.
Tensor max_backward(const Tensor& dy, const Tensor& places, const Shape& shape, int axis);

/// √(Σ x²) along an axis, accumulated in double; squares that would overflow or vanish there are
/// scaled first.
Tensor norm(const Tensor& x, int axis, KeepAxes keep = KeepAxes::no);

/// Σ x² over all elements, accumulated in double in a fixed order.
double sum_of_squares(const Tensor& x);

/// The first element that is NaN or infinite: "(4, 5), element (0, 3) is -inf". Empty where there
/// is none, as in a tensor of i32 or one that is not defined.
std::string first_not_finite(const Tensor& x);

/// "(0, 3)": where the element of that number stands, in row-major order.
std::string element_name(const Shape& shape, Index number);

}  // namespace attune
