// Elements that are not finite, in words.
#pragma once

#include <string>

#include <attune/tensor/tensor.hpp>

namespace attune {

/// The first element that is NaN or infinite: "(4, 5), element (0, 3) is -inf". Empty where there
/// is none, as in a tensor of i32 or one that is not defined.
std::string first_not_finite(const Tensor& x);

/// "(0, 3)": where the element of that number stands, in row-major order.
std::string element_name(const Shape& shape, Index number);

}  // namespace attune
