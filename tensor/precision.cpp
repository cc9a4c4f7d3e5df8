#include <attune/tensor/check.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/simd/bf16.hpp>

namespace attune {

bool bf16_available() { return simd::has_bf16(); }

void set_precision(Precision precision) {
  if (precision == Precision::bf16 && !bf16_available()) {
    fail("set_precision", "this CPU has no bf16 products (AVX512-BF16)");
  }
  detail::thread_precision = precision;
}

}  // namespace attune
