// Inputs of tests and benchmarks.
#pragma once

#include <attune/tensor/random.hpp>

namespace attune {

/// Standard normal numbers that are the same at every call.
inline Tensor randn(const Shape& shape, DType dtype = DType::f32, std::uint64_t seed = 1) {
  Random random(seed);
  return normal(shape, random, dtype);
}

}  // namespace attune
