// Numbers that programs in several languages make alike.
#pragma once

#include <cstdint>

namespace attune::bench {

/// Pseudo-random elements in [-scale, scale).
inline void fill_mixed(float* x, std::uint32_t n, std::uint32_t seed, float scale) {
  for (std::uint32_t i = 0; i < n; ++i) {
    std::uint32_t h = (i + seed * 1000003u) * 0x9e3779b1u;
    h = (h ^ h >> 15) * 0x85ebca77u;
    h ^= h >> 13;
    x[i] = (static_cast<float>(h >> 8) / 8388608.0f - 1.0f) * scale;  // 24 bits: exact
  }
}

}  // namespace attune::bench
