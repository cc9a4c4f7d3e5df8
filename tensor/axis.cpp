#include <attune/tensor/axis.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>

namespace attune::detail {

AxisView::AxisView(const char* operation, const Tensor& x, int axis) {
  require_floating(operation, x);
  axis = x.shape().axis(axis, operation);
  outer = x.shape().product(0, axis);
  n = x.dim(axis);
  inner = x.shape().product(axis + 1, x.rank());
}

Tensor mask_of_axes(const char* operation, const Tensor& x, const Mask& mask) {
  if (!mask.defined()) return mask;
  const Tensor y = mask.to(x.dtype());
  if (mask.rank() > 0 && x.shape().ends_with(mask.shape())) return y;
  bool fits = mask.rank() <= x.rank();
  for (int axis = -1; fits && axis >= -mask.rank(); --axis)
    fits = mask.dim(axis) == x.dim(axis) || mask.dim(axis) == 1;
  if (!fits) fail(operation, "the mask {} does not broadcast to x {}", mask.shape(), x.shape());
  return broadcast_to(y, x.shape());
}

}  // namespace attune::detail
