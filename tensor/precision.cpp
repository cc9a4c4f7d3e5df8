#include <cstdint>
#include <cstdlib>

#include <hwy/targets.h>

#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/simd/dispatch.hpp>
#include <attune/tensor/kernels/simd/gemm.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/version.hpp>

namespace attune {
namespace {

std::string lower_case(std::string name) {
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

}  // namespace

namespace simd {

void limit_targets() {
  const char* wanted = std::getenv("ATTUNE_TARGET");
  if (!wanted || !*wanted) return;
  std::string names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const std::string name = lower_case(hwy::TargetName(target));
    if (name == wanted) return hwy::DisableTargets(target - 1);  // better ones are lower bits
    names += (names.empty() ? "" : ", ") + name;
  }
  fail("ATTUNE_TARGET", "{} is not an instruction set of this CPU and build, which have {}",
       in_quotes(wanted), names);
}

}  // namespace simd

std::string simd_target() { return lower_case(simd::target()); }

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

const char* version() { return ATTUNE_VERSION; }

}  // namespace attune
