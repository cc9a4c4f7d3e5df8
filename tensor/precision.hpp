// How exact the products of f32 matrices are.
#pragma once

#include <type_traits>

#include <attune/tensor/cxx20.hpp>

namespace attune {

/// f32, or bf16: factors rounded to bfloat16 (8 bits of significand), their products added in f32,
/// at twice the speed or more. Tensors and all that is not a matrix product stay f32; products of
/// f64 are not touched.
enum class Precision { f32, bf16 };

/// Whether this CPU multiplies bf16 (AVX512-BF16).
bool bf16_available();

namespace detail {
[[gnu::tls_model("initial-exec")]] inline thread_local constinit Precision thread_precision =
    Precision::f32;
}

/// Sets the precision of all products that this thread makes from now on, also in the tiles of its
/// parallel_for. Each thread has its own precision, f32 at first. Throws for bf16 where it is not
/// available.
void set_precision(Precision precision);
inline Precision precision() { return detail::thread_precision; }

/// Whether products of two T are made in bf16 now.
template <class T>
bool in_bf16() {
  return std::is_same_v<T, float> && precision() == Precision::bf16;
}

/// A precision for as long as the object lives, and then the one before.
class InPrecision {
 public:
  [[nodiscard]] explicit InPrecision(Precision wanted) : before_(precision()) {
    set_precision(wanted);
  }
  ~InPrecision() { detail::thread_precision = before_; }
  InPrecision(const InPrecision&) = delete;
  InPrecision& operator=(const InPrecision&) = delete;

 private:
  Precision before_;
};

}  // namespace attune
