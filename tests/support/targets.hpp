// Every instruction set in turn.
#pragma once

#include <cstdint>
#include <string>

#include <doctest/doctest.h>
#include <hwy/targets.h>

#include <attune/tensor/simd/dispatch.hpp>

namespace attune::test {

/// Calls f once for each instruction set compiled in that this CPU has and ATTUNE_TARGET allows,
/// with that one in use.
template <typename F>
void for_each_target(F f) {
  struct Restore {
    ~Restore() { use(0); }
    static void use([[maybe_unused]] std::int64_t targets) {
#if !defined(__EMSCRIPTEN__)  // where there is one
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
