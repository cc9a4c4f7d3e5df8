// The precision that a program was asked for.
#pragma once

#include <string_view>

#include <fmt/format.h>

#include <attune/tensor/precision.hpp>

namespace attune {

/// By name; f32, and a line that says so, where the CPU has no bf16.
inline Precision precision_or_f32(std::string_view name) {
  if (name != "bf16") return Precision::f32;
  if (bf16_available()) return Precision::bf16;
  fmt::print(stderr, "this CPU has no bf16 products (AVX512-BF16): f32 it is\n");
  return Precision::f32;
}

}  // namespace attune
