// Element types of a tensor.
#pragma once

#include <cstddef>
#include <cstdint>

#include <attune/tensor/cxx20.hpp>

namespace attune {

/// Sizes, counts and positions.
using Index = std::int64_t;

/// What a tensor's elements are, known at run time.
enum class DType : std::uint8_t { f32, f64, i32 };

constexpr std::size_t size_of(DType dtype) { return dtype == DType::f64 ? 8 : 4; }

constexpr const char* name_of(DType dtype) {
  return dtype == DType::f32 ? "f32" : dtype == DType::f64 ? "f64" : "i32";
}

constexpr bool is_floating(DType dtype) { return dtype != DType::i32; }

template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;

}  // namespace attune
