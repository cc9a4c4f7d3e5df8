// The precision that a program was asked for.
#pragma once

#include <attune/tensor/precision.hpp>

#include "support/output.hpp"

namespace attune {

/// The one asked for; or f32, and a line that says so, where the CPU has no bf16.
inline Precision available(Precision asked_for) {
  if (asked_for != Precision::bf16 || bf16_available()) return asked_for;
  complain("this CPU has no bf16 products (AVX512-BF16): using f32\n");
  return Precision::f32;
}

}  // namespace attune
