#include <fmt/format.h>

#include <attune/tensor/axis.hpp>
#include <attune/tensor/check.hpp>

namespace attune::detail {

AxisView::AxisView(const char* operation, const Tensor& x, int axis) {
  if (!x.defined() || !is_floating(x.dtype())) fail_not_floating(operation, x);
  axis = x.shape().axis(axis, operation);
  outer = x.shape().product(0, axis);
  n = x.dim(axis);
  inner = x.shape().product(axis + 1, x.rank());
}

Tensor binary_mask(const char* operation, const Tensor& mask, DType dtype) {
  const Tensor y = mask.to(dtype);
  visit_floating(operation, y, [&](auto zero) {
    using T = decltype(zero);
    const T* values = y.data<T>();
    const auto other = [](T v) { return v != 0 && v != 1; };
    if (std::count_if(values, values + y.size(), other) == 0) return;
    const T* first = std::find_if(values, values + y.size(), other);
    fail(operation, fmt::format("the mask {} must be 1 (takes part) or 0, but its element {} is {}",
                                to_string(mask.shape()), first - values, *first));
  });
  return y;
}

Tensor mask_of_axes(const char* operation, const Tensor& x, const Tensor& mask) {
  if (!mask.defined()) return mask;
  const Tensor y = binary_mask(operation, mask, x.dtype());
  if (x.shape().ends_with(mask.shape())) return y;
  bool fits = mask.rank() <= x.rank();
  for (int axis = -1; fits && axis >= -mask.rank(); --axis)
    fits = mask.dim(axis) == x.dim(axis) || mask.dim(axis) == 1;
  if (!fits) {
    fail(operation, fmt::format("the mask {} does not broadcast to x {}", to_string(mask.shape()),
                                to_string(x.shape())));
  }
  return broadcast_to(y, x.shape());
}

}  // namespace attune::detail
