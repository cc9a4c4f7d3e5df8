// Philox4x32-10, alone and vectorised, with the instruction set chosen at run time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace attune::simd {

/// Block n of a stream: ten rounds of Philox4x32 (Salmon et al., 2011), with the paper's constants.
inline std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t stream,
                                           std::uint64_t n) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  std::array<std::uint32_t, 4> x{low(n), high(n), low(stream), high(stream)};
  std::uint32_t key0 = low(seed), key1 = high(seed);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * x[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * x[2];
    x = {high(p1) ^ x[1] ^ key0, low(p1), high(p0) ^ x[3] ^ key1, low(p0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x;
}

/// Blocks [first, first + count) of a stream, four words each (tensor/random.hpp).
void philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t count,
            std::uint32_t* words);

}  // namespace attune::simd
