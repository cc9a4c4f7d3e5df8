// Run-time dispatch to the best instruction set that ATTUNE_TARGET allows (precision.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace attune::simd {

/// "AVX2" -> "avx2", as instruction sets are named in ATTUNE_TARGET and simd_target().
std::string lower_case(std::string name);

/// Restricts Highway to what ATTUNE_TARGET allows. Throws if its value is not supported.
void limit_targets();

/// limit_targets at the first call; later calls do nothing.
inline void limit_targets_once() {
  [[maybe_unused]] static const bool limited = (limit_targets(), true);
}

/// For tests: Highway's numbers of the instruction sets that dispatch can select, best first.
std::vector<std::int64_t> targets();
/// For tests: selects one of targets(); 0 selects the best.
void use_target(std::int64_t target);

}  // namespace attune::simd

/// HWY_DYNAMIC_DISPATCH, after the restriction by ATTUNE_TARGET.
#define ATTUNE_DISPATCH(function) \
  (attune::simd::limit_targets_once(), HWY_DYNAMIC_DISPATCH(function))

// A file lists its kernels once, as KERNEL(result, kernel, plain function, name, parameters,
// arguments). ATTUNE_DEFINE defines a non-template function of each kernel, for every instruction
// set and element type; ATTUNE_CHOOSE defines the function `name` that selects among them.
#define ATTUNE_DEFINE(Result, Kernel, Plain, name, parameters, arguments) \
  Result Plain parameters { return Kernel arguments; }
#define ATTUNE_CHOOSE(Result, Kernel, Plain, name, parameters, arguments) \
  HWY_EXPORT(Plain);                                                      \
  template <>                                                             \
  Result name parameters {                                                \
    return ATTUNE_DISPATCH(Plain) arguments;                              \
  }
