// Tensors as text.
#pragma once

#include <iosfwd>
#include <string>

#include <attune/tensor/tensor.hpp>

namespace attune {

/// The dtype, the shape and the elements, each with `digits` significant digits. Every row is on a
/// line of its own, with aligned columns. If there are more than 1000 elements, only the first and
/// last three along each axis are shown. In a stream, std::setprecision sets the digits.
std::string to_string(const Tensor& x, Integer digits = 6);
std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace attune
