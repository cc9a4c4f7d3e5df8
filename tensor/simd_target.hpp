// The instruction set that the kernels use.
#pragma once

#include <string>

#include <attune/tensor/cxx20.hpp>

namespace attune {

/// The instruction set in use: the best of those that this CPU and this build have ("avx3", which
/// is AVX-512, "avx2", "sse4", "ssse3", "scalar" or "emu128" on x86-64), or the one that the
/// environment names, as in ATTUNE_TARGET=avx2, so that a result can be repeated on another CPU.
/// The variable is read once, when the first kernel runs. Any other value in it is an Error, here
/// and in whatever needs a kernel.
///
/// With one instruction set, the same program gives the same bits on every CPU that has it,
/// for any number of threads. Nothing but the instruction set is asked of the CPU: tiles and blocks
/// are of fixed sizes, and how wide its registers are shows in sums only. The functions of the C
/// library are an exception: glibc's log, exp and pow use fused multiply-adds where a CPU
/// has them, whatever is named here. CPUs that have "avx2" have those.
///
/// Between two instruction sets, results differ by rounding: sums are of as many parts as a
/// register has lanes, and a multiply-add is rounded once (from "avx2" on) or twice. Products in
/// bf16 (precision.hpp) are there with "avx3" only.
std::string simd_target();

}  // namespace attune
