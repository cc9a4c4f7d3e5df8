#include <algorithm>

#include <attune/tensor/simd/dispatch.hpp>
#include <attune/tensor/simd/random.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attune/tensor/simd/random.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for every instruction set.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attune::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

void Philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t count,
            std::uint32_t* words) {
  for (std::size_t i = 0; i < count; ++i) {
    std::ranges::copy(philox(seed, stream, first + i), words + 4 * i);
  }
}

#else

/// The lower and the upper halves of the products of 32-bit integers.
template <class D, class V>
HWY_INLINE void Multiply(D d, V a, V b, V& low, V& high) {
  const hn::Repartition<std::uint64_t, D> wide;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))),
                               hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, b))));
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
}

/// As many blocks as a register has lanes; the lower halves of their numbers do not wrap around.
template <class D>
HWY_INLINE void Blocks(D d, std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                       std::uint32_t* words) {
  const auto set = [&](std::uint64_t x)
                       HWY_ATTR { return hn::Set(d, static_cast<std::uint32_t>(x)); };
  auto x0 = hn::Iota(d, static_cast<std::uint32_t>(first)), x1 = set(first >> 32), x2 = set(stream),
       x3 = set(stream >> 32);
  auto key0 = set(seed), key1 = set(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    auto low0 = x0, high0 = x0, low1 = x0, high1 = x0;
    Multiply(d, x0, set(0xD2511F53), low0, high0);
    Multiply(d, x2, set(0xCD9E8D57), low1, high1);
    x0 = hn::Xor(hn::Xor(high1, x1), key0);
    x1 = low1;
    x2 = hn::Xor(hn::Xor(high0, x3), key1);
    x3 = low0;
    key0 = hn::Add(key0, set(0x9E3779B9));
    key1 = hn::Add(key1, set(0xBB67AE85));
  }
  hn::StoreInterleaved4(x0, x1, x2, x3, d, words);
}

void Philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t count,
            std::uint32_t* words) {
  const hn::ScalableTag<std::uint32_t> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t i = 0; i < count;) {
    const std::uint64_t n = first + i, left = (std::uint64_t{1} << 32) - (n & 0xFFFFFFFF);
    if (i + lanes <= count && lanes <= left) {
      Blocks(d, seed, stream, n, words + 4 * i);
      i += lanes;
    } else {
      std::ranges::copy(philox(seed, stream, n), words + 4 * i++);
    }
  }
}

#endif

}  // namespace attune::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attune::simd {

HWY_EXPORT(Philox);

void philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t count,
            std::uint32_t* words) {
  ATTUNE_DISPATCH(Philox)(seed, stream, first, count, words);
}

}  // namespace attune::simd
#endif  // HWY_ONCE
