// A kernel of the best instruction set that ATTUNE_TARGET allows (precision.hpp).
#pragma once

namespace attune::simd {

/// Takes from Highway the instruction sets that ATTUNE_TARGET does not allow. Throws where it names
/// none that there is.
void limit_targets();

/// The same, at the first call only.
inline void limit_targets_once() {
  [[maybe_unused]] static const bool limited = (limit_targets(), true);
}

/// Name of the instruction set whose kernels run, for example "AVX2": a kernel says it.
const char* target();

}  // namespace attune::simd

/// HWY_DYNAMIC_DISPATCH after that: no kernel is chosen before the limit is known.
#define ATTUNE_DISPATCH(function) \
  (attune::simd::limit_targets_once(), HWY_DYNAMIC_DISPATCH(function))

// A file lists its kernels once, as KERNEL(result, kernel, plain function, name, parameters,
// arguments). Dispatch needs a plain function of each for every instruction set and element type,
// which is ATTUNE_DEFINE, and one with the name that chooses among them, which is ATTUNE_CHOOSE.
#define ATTUNE_DEFINE(Result, Kernel, Plain, name, parameters, arguments) \
  Result Plain parameters { return Kernel arguments; }
#define ATTUNE_CHOOSE(Result, Kernel, Plain, name, parameters, arguments) \
  HWY_EXPORT(Plain);                                                      \
  template <>                                                             \
  Result name parameters {                                                \
    return ATTUNE_DISPATCH(Plain) arguments;                              \
  }
