// Loops over instruction sets.
#pragma once

#include <cstdint>
#include <string>

#include <doctest/doctest.h>
#include <hwy/targets.h>

#include <attune/tensor/kernels/simd/kernels.hpp>

namespace attune::test {

/// Calls f with each instruction set of the build and this CPU that ATTUNE_TARGET allows.
template <typename F>
void for_each_target(F f) {
  struct Restore {
    ~Restore() { use(0); }
    static void use([[maybe_unused]] std::int64_t targets) {
#if !defined(__EMSCRIPTEN__)  // WebAssembly has only one
      hwy::SetSupportedTargetsForTest(targets);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
#endif
    }
  } restore;
  simd::target();  // reads ATTUNE_TARGET
  for (const std::int64_t t : hwy::SupportedAndGeneratedTargets()) {
    Restore::use(t);
    INFO("target ", std::string(simd::target()));
    REQUIRE(std::string(simd::target()) == hwy::TargetName(t));
    f();
  }
}

}  // namespace attune::test
