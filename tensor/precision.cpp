#include <atomic>

#include <attune/tensor/check.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/simd/bf16.hpp>

namespace attune {
namespace {

std::atomic<Precision> current{Precision::f32};

}  // namespace

bool bf16_available() { return simd::has_bf16(); }

void set_precision(Precision precision) {
  if (precision == Precision::bf16 && !bf16_available()) {
    fail("set_precision", "this CPU has no bf16 products (AVX512-BF16)");
  }
  current.store(precision, std::memory_order_relaxed);
}

Precision precision() { return current.load(std::memory_order_relaxed); }

}  // namespace attune
