#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/simd/bf16.hpp>
#include <attune/tensor/kernels/simd/dispatch.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/kernels/simd/tiles.hpp>
#include <attune/tensor/precision.hpp>

namespace attune {
std::string simd_target() { return simd::lower_case(simd::target()); }

const char* to_string(Precision precision) {
  constexpr const char* names[] = {"f32", "bf16x3", "bf16"};
  return names[static_cast<std::size_t>(precision)];
}

Precision fastest_precision(Precision asked_for) {
  if (simd::has_tiles() || (asked_for == Precision::bf16 && simd::has_bf16())) return asked_for;
  return Precision::f32;
}

void set_precision(Precision precision) {
  if (fastest_precision(precision) != precision)
    fail("set_precision", "this CPU does not compute {} products faster than f32 (needs {})",
         to_string(precision), precision == Precision::bf16 ? "AMX, AMD's AVX512-BF16" : "AMX");
  detail::thread_state.precision = precision;
}

}  // namespace attune
