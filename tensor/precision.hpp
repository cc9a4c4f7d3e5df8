// Settings that affect numerical results: precision of f32 matrix products, and instruction set.
#pragma once

#include <string>
#include <type_traits>

#include <attune/tensor/thread_state.hpp>

namespace attune {

/// How matrix products of f32 tensors are computed. Tensors, sums and all other operations remain
/// f32, and products of f64 tensors remain f64. The error of an element is relative to |A||B|.
///
/// | precision | factors                                              | error  | faster than f32 with   |
/// |-----------|------------------------------------------------------|--------|------------------------|
/// | f32       | unchanged; reproducible bit for bit on any CPU       | 1e-6   |                        |
/// | bf16x3    | high + low bfloat16 parts; low · low is left out     | < 5e-5 | AMX                    |
/// | bf16      | rounded to bfloat16 (8 bits of significand)          | < 8e-3 | AMX, AMD's AVX512-BF16 |
///
/// With bf16x3, an infinite factor gives NaN. Factors above 3.39e38 round to infinity in bfloat16.
/// The error of bf16x3 is larger for factors below 1e-35, whose low parts are 0.
enum class Precision { f32, bf16x3, bf16 };
/// "f32", "bf16x3", "bf16"
const char* to_string(Precision precision);

/// `asked_for` if this CPU computes it faster than f32, else f32.
Precision fastest_precision(Precision asked_for);

/// Sets the precision of the matrix products of the calling thread, including those in tiles of its
/// parallel_for. Each thread has its own setting, f32 by default. f32 is always accepted.
/// Throws for another one if this CPU does not compute it faster (see fastest_precision).
void set_precision(Precision precision);
inline Precision precision() { return detail::thread_state.precision; }

/// Current precision of matrix products of type T.
template <class T>
Precision precision_of() {
  return std::is_same_v<T, float> ? precision() : Precision::f32;
}

/// Sets the calling thread's precision (see set_precision), and restores the old one on scope exit.
struct InPrecision : detail::ScopedValue<Precision> {
  [[nodiscard]] explicit InPrecision(Precision wanted)
      : ScopedValue(detail::thread_state.precision, precision()) {
    set_precision(wanted);
  }
};

/// The instruction set of the kernels: the best one that this CPU and this build support ("avx3"
/// means AVX-512, "avx2", "sse4", "scalar" or "emu128" on x86-64; "neon" on 64-bit ARM). The
/// environment variable ATTUNE_TARGET selects another one, as in ATTUNE_TARGET=avx2, to reproduce
/// results of another CPU. It is read once, before the first kernel runs. This function and the
/// first kernel throw an Error if its value is not supported.
///
/// Results are reproducible bit for bit with every instruction set that has fused multiply-adds
/// (tested: "avx2", "avx3", "neon") and any number of threads: tile and block sizes are fixed,
/// sums have a fixed number of parts, and exp, log, sin and so on are the library's own. The other
/// sets round a multiply-add twice. Products in bf16 or bf16x3 and those by a BLAS are exceptions.
std::string simd_target();

}  // namespace attune
