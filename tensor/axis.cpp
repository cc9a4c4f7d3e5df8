#include <fmt/format.h>

#include <attune/tensor/axis.hpp>
#include <attune/tensor/check.hpp>

namespace attune::detail {

int checked_axis(const char* operation, const Shape& shape, int axis) {
  if (axis < -shape.rank() || axis >= shape.rank()) {
    fail(operation, fmt::format("there is no axis {} in {}", axis, to_string(shape)));
  }
  return shape.axis(axis);
}

AxisView::AxisView(const char* operation, const Shape& shape, int axis) {
  axis = checked_axis(operation, shape, axis);
  outer = shape.product(0, axis);
  n = shape[axis];
  inner = shape.product(axis + 1, shape.rank());
}

void check_mask(const char* operation, const Tensor& x, const Tensor& mask) {
  require_same_dtype(operation, x, mask);
  const bool suffix =
      mask.rank() <= x.rank() &&
      std::equal(mask.shape().begin(), mask.shape().end(), x.shape().end() - mask.rank());
  if (!suffix) {
    fail(operation,
         fmt::format("mask {} does not fit x {}", to_string(mask.shape()), to_string(x.shape())));
  }
}

}  // namespace attune::detail
