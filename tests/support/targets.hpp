// Loops over instruction sets.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include <attune/tensor/kernels/simd/dispatch.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>

namespace attune::test {

/// Calls f with each instruction set of the build and this CPU that ATTUNE_TARGET allows.
template <typename F>
void for_each_target(F f) {
  struct Restore {
    ~Restore() { simd::use_target(0); }
  } restore;
  std::set<std::string> names;
  for (const std::int64_t t : simd::targets()) {
    simd::use_target(t);
    INFO("target ", std::string(simd::target()));
    REQUIRE(names.insert(simd::target()).second);
    f();
  }
}

}  // namespace attune::test
