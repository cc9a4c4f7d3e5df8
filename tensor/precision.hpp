// Settings that affect numerical results: the precision of products of f32 matrices, and the
// instruction set of the kernels.
#pragma once

#include <string>
#include <type_traits>

#include <attune/tensor/shape.hpp>

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

/// A precision until the end of the scope.
struct InPrecision : detail::Restored<Precision> {
  [[nodiscard]] explicit InPrecision(Precision wanted)
      : Restored(detail::thread_precision, precision()) {
    set_precision(wanted);
  }
};

/// The instruction set in use: the best of those that this CPU and this build have ("avx3", which
/// is AVX-512, "avx2", "sse4", "scalar" or "emu128" on x86-64; "neon" on 64-bit ARM), or the one
/// that the environment names, as in ATTUNE_TARGET=avx2, so that a result can be repeated on another
/// CPU. The variable is read once, when the first kernel runs. Any other value in it is an Error,
/// here and in whatever needs a kernel.
///
/// The same program gives the same bits with every instruction set that has fused multiply-adds
/// (tested: "avx2", "avx3" and "neon"), for any number of threads: tiles and blocks are of fixed
/// sizes, sums of a fixed number of parts, and glibc's functions in use agree. The others round a
/// multiply-add twice. Products in bf16 or by OpenBLAS are not part of this.
std::string simd_target();

}  // namespace attune
