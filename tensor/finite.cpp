#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <attune/tensor/finite.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune {

std::string first_not_finite(const Tensor& x) {
  // The sum is quick, and finite only where all elements are.
  if (!x.defined() || !is_floating(x.dtype()) || std::isfinite(sum_of_squares(x))) return {};
  return visit_floating("first_not_finite", x, [&](auto zero) -> std::string {
    const auto* begin = x.data<decltype(zero)>();
    const auto* at =
        std::find_if(begin, begin + x.size(), [](auto v) { return !std::isfinite(v); });
    if (at == begin + x.size()) return {};  // only the squares were too large
    return fmt::format("{}, element {} is {}", to_string(x.shape()),
                       element_name(x.shape(), at - begin),
                       std::isnan(*at) ? std::abs(*at) : *at);  // "nan", whatever its sign
  });
}

std::string element_name(const Shape& shape, Index number) {
  std::vector<Index> at(shape.rank());
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at[axis] = number % shape[axis];
    number /= shape[axis];
  }
  return to_string(Shape(at));
}

}  // namespace attune
