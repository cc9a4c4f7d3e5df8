#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include <attune/tensor/simd/dispatch.hpp>
#include <attune/tensor/simd/kernels.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attune/tensor/simd/kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for every instruction set.
#include <hwy/highway.h>

#include <attune/tensor/simd/math-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace attune::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE Index LanesOf(D d) {
  return static_cast<Index>(hn::Lanes(d));
}

/// Calls f(d, i) for whole registers and then element by element: one arithmetic for both, so an
/// element's value does not depend on where the row ends.
template <class T, class F>
HWY_INLINE void ForEach(Index n, F f) {
  const hn::ScalableTag<T> wide;
  const hn::CappedTag<T, 1> one;
  Index i = 0;
  for (; i + LanesOf(wide) <= n; i += LanesOf(wide)) f(wide, i);
  for (; i < n; ++i) f(one, i);
}

template <class T>
HWY_INLINE void ExpOf(const T* x, T* y, Index n) {
  ForEach<T>(
      n, [&](auto d, Index at) HWY_ATTR { hn::StoreU(Exp(d, hn::LoadU(d, x + at)), d, y + at); });
}
template <class T>
HWY_INLINE void TanhOf(const T* x, T* y, Index n) {
  ForEach<T>(
      n, [&](auto d, Index at) HWY_ATTR { hn::StoreU(Tanh(d, hn::LoadU(d, x + at)), d, y + at); });
}
template <class T>
HWY_INLINE void SigmoidOf(const T* x, T* y, Index n) {
  ForEach<T>(n, [&](auto d, Index at)
                    HWY_ATTR { hn::StoreU(Sigmoid(d, hn::LoadU(d, x + at)), d, y + at); });
}

/// s (1 - s), the derivative of σ where its value is s.
template <class D, class V>
HWY_INLINE V SigmoidSlope(D, V s) {
  return hn::NegMulAdd(s, s, s);
}
/// 1 - t², the derivative of tanh where its value is t.
template <class D, class V>
HWY_INLINE V TanhSlope(D d, V t) {
  return hn::NegMulAdd(t, t, hn::Set(d, 1));
}

template <class T>
HWY_INLINE void Run(const LstmForwardRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    const auto gate = [&](Index k) HWY_ATTR {
      return hn::Add(hn::LoadU(d, row.xw + k * n + at), hn::LoadU(d, row.hw + k * n + at));
    };
    const auto i = Sigmoid(d, gate(0)), f = Sigmoid(d, gate(1));
    const auto g = Tanh(d, gate(2)), o = Sigmoid(d, gate(3));
    const auto c = hn::MulAdd(f, hn::LoadU(d, row.c_prev + at), hn::Mul(i, g));
    hn::StoreU(i, d, row.gates + at);
    hn::StoreU(f, d, row.gates + n + at);
    hn::StoreU(g, d, row.gates + 2 * n + at);
    hn::StoreU(o, d, row.gates + 3 * n + at);
    hn::StoreU(c, d, row.c + at);
    hn::StoreU(hn::Mul(o, Tanh(d, c)), d, row.h + at);
  });
}

template <class T>
HWY_INLINE void Run(const LstmBackwardRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    const auto i = hn::LoadU(d, row.gates + at), f = hn::LoadU(d, row.gates + n + at);
    const auto g = hn::LoadU(d, row.gates + 2 * n + at), o = hn::LoadU(d, row.gates + 3 * n + at);
    const auto dh = hn::LoadU(d, row.dh + at), c_prev = hn::LoadU(d, row.c_prev + at);
    const auto tanh_c = Tanh(d, hn::LoadU(d, row.c + at));
    const auto dc = hn::MulAdd(hn::Mul(dh, o), TanhSlope(d, tanh_c), hn::LoadU(d, row.dc + at));
    hn::StoreU(hn::Mul(hn::Mul(dh, tanh_c), SigmoidSlope(d, o)), d, row.dgates + 3 * n + at);
    hn::StoreU(hn::Mul(hn::Mul(dc, g), SigmoidSlope(d, i)), d, row.dgates + at);
    hn::StoreU(hn::Mul(hn::Mul(dc, c_prev), SigmoidSlope(d, f)), d, row.dgates + n + at);
    hn::StoreU(hn::Mul(hn::Mul(dc, i), TanhSlope(d, g)), d, row.dgates + 2 * n + at);
    hn::StoreU(hn::Mul(dc, f), d, row.dc + at);
  });
}

template <class T>
HWY_INLINE void Run(const GruForwardRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    const auto gate = [&](Index k) HWY_ATTR {
      return hn::Add(hn::LoadU(d, row.xw + k * n + at), hn::LoadU(d, row.hw + k * n + at));
    };
    const auto r = Sigmoid(d, gate(0)), z = Sigmoid(d, gate(1));
    const auto hidden = hn::Add(hn::LoadU(d, row.hw + 2 * n + at), hn::LoadU(d, row.b_hn + at));
    const auto candidate = Tanh(d, hn::MulAdd(r, hidden, hn::LoadU(d, row.xw + 2 * n + at)));
    const auto h_prev = hn::LoadU(d, row.h_prev + at);
    hn::StoreU(r, d, row.gates + at);
    hn::StoreU(z, d, row.gates + n + at);
    hn::StoreU(candidate, d, row.gates + 2 * n + at);
    hn::StoreU(hidden, d, row.gates + 3 * n + at);
    hn::StoreU(hn::MulAdd(z, hn::Sub(h_prev, candidate), candidate), d, row.h + at);
  });
}

template <class T>
HWY_INLINE void Run(const GruBackwardRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    const auto r = hn::LoadU(d, row.gates + at), z = hn::LoadU(d, row.gates + n + at);
    const auto candidate = hn::LoadU(d, row.gates + 2 * n + at);
    const auto hidden = hn::LoadU(d, row.gates + 3 * n + at);
    const auto dh = hn::LoadU(d, row.dh + at), h_prev = hn::LoadU(d, row.h_prev + at);
    const auto dn = hn::Mul(hn::NegMulAdd(dh, z, dh), TanhSlope(d, candidate));
    const auto dr = hn::Mul(hn::Mul(dn, hidden), SigmoidSlope(d, r));
    const auto dz = hn::Mul(hn::Mul(dh, hn::Sub(h_prev, candidate)), SigmoidSlope(d, z));
    hn::StoreU(dr, d, row.dxw + at);
    hn::StoreU(dz, d, row.dxw + n + at);
    hn::StoreU(dn, d, row.dxw + 2 * n + at);
    hn::StoreU(dr, d, row.dhw + at);
    hn::StoreU(dz, d, row.dhw + n + at);
    hn::StoreU(hn::Mul(dn, r), d, row.dhw + 2 * n + at);
    hn::StoreU(hn::Mul(dh, z), d, row.dh_prev + at);
  });
}

template <class T>
HWY_INLINE void Run(const GruResetRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    const auto gate = [&](Index k) HWY_ATTR {
      return Sigmoid(d,
                     hn::Add(hn::LoadU(d, row.xw + k * n + at), hn::LoadU(d, row.hw + k * n + at)));
    };
    const auto r = gate(0);
    hn::StoreU(r, d, row.gates + at);
    hn::StoreU(gate(1), d, row.gates + n + at);
    hn::StoreU(hn::Mul(r, hn::LoadU(d, row.h_prev + at)), d, row.rh + at);
  });
}

template <class T>
HWY_INLINE void Run(const GruUpdateRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    const auto candidate = Tanh(d, hn::Add(hn::LoadU(d, row.xw_n + at), hn::LoadU(d, row.hn + at)));
    const auto h_prev = hn::LoadU(d, row.h_prev + at);
    hn::StoreU(candidate, d, row.n + at);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, row.z + at), hn::Sub(h_prev, candidate), candidate), d,
               row.h + at);
  });
}

template <class T>
HWY_INLINE void Run(const GruUpdateBackwardRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    const auto z = hn::LoadU(d, row.z + at), candidate = hn::LoadU(d, row.n + at);
    const auto dh = hn::LoadU(d, row.dh + at), h_prev = hn::LoadU(d, row.h_prev + at);
    hn::StoreU(hn::Mul(hn::Mul(dh, hn::Sub(h_prev, candidate)), SigmoidSlope(d, z)), d,
               row.dz + at);
    hn::StoreU(hn::Mul(hn::NegMulAdd(dh, z, dh), TanhSlope(d, candidate)), d, row.dn + at);
    hn::StoreU(hn::Mul(dh, z), d, row.dh_prev + at);
  });
}

template <class T>
HWY_INLINE void Run(const GruResetBackwardRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    const auto r = hn::LoadU(d, row.r + at), drh = hn::LoadU(d, row.drh + at);
    const auto h_prev = hn::LoadU(d, row.h_prev + at);
    hn::StoreU(hn::Mul(hn::Mul(drh, h_prev), SigmoidSlope(d, r)), d, row.dr + at);
    hn::StoreU(hn::MulAdd(drh, r, hn::LoadU(d, row.dh_prev + at)), d, row.dh_prev + at);
  });
}

/// For kernels that mostly wait for memory: asks for what they need 8 KiB later, which is further
/// ahead than the CPU looks by itself. Makes them a quarter faster on a Zen 5.
template <class T>
HWY_INLINE void PrefetchAhead(const T* x) {
  __builtin_prefetch(x + 8192 / sizeof(T));
}

/// Σ_i f(i), in two interleaved sums: the additions of one do not wait for each other.
template <class T, class F>
HWY_INLINE T Sum(Index n, F f) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const Index lanes = LanesOf(d);
  auto even = hn::Zero(d), odd = hn::Zero(d);
  Index i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    even = f(d, i, even);
    odd = f(d, i + lanes, odd);
  }
  if (i + lanes <= n) even = f(d, i, even), i += lanes;
  T total = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; i < n; ++i) total = hn::GetLane(f(one, i, hn::Set(one, total)));
  return total;
}

template <class T>
HWY_INLINE void Run(const LayerNormRow<T>& row, Index n) {
  const T total = Sum<T>(n, [&](auto d, Index at, auto sum)
                                HWY_ATTR { return hn::Add(sum, hn::LoadU(d, row.x + at)); });
  const T mean = total / static_cast<T>(n);
  const T squares = Sum<T>(n, [&](auto d, Index at, auto sum) HWY_ATTR {
    const auto centred = hn::Sub(hn::LoadU(d, row.x + at), hn::Set(d, mean));
    return hn::MulAdd(centred, centred, sum);
  });
  const T factor = 1 / std::sqrt(squares / static_cast<T>(n) + row.epsilon);
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    const auto centred = hn::Sub(hn::LoadU(d, row.x + at), hn::Set(d, mean));
    const auto x_hat = hn::Mul(centred, hn::Set(d, factor));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, row.gain + at), x_hat, hn::LoadU(d, row.bias + at)), d,
               row.y + at);
  });
  row.moments[0] = mean, row.moments[1] = factor;
}

template <class T>
HWY_INLINE void Run(const LayerNormBackwardRow<T>& row, Index n) {
  const T mean = row.moments[0], factor = row.moments[1];
  const auto normal = [&](auto d, Index at) HWY_ATTR {
    return hn::Mul(hn::Sub(hn::LoadU(d, row.x + at), hn::Set(d, mean)), hn::Set(d, factor));
  };
  const auto scaled = [&](auto d, Index at) HWY_ATTR {
    return hn::Mul(hn::LoadU(d, row.dy + at), hn::LoadU(d, row.gain + at));
  };
  const T total =
      Sum<T>(n, [&](auto d, Index at, auto sum) HWY_ATTR { return hn::Add(sum, scaled(d, at)); });
  const T product = Sum<T>(n, [&](auto d, Index at, auto sum) HWY_ATTR {
    return hn::MulAdd(scaled(d, at), normal(d, at), sum);
  });
  const T mean_g = total / static_cast<T>(n), mean_gx = product / static_cast<T>(n);
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    const auto x_hat = normal(d, at), dy = hn::LoadU(d, row.dy + at);
    const auto centred = hn::Sub(scaled(d, at), hn::Set(d, mean_g));
    const auto rest = hn::NegMulAdd(x_hat, hn::Set(d, mean_gx), centred);
    hn::StoreU(hn::MulAdd(dy, x_hat, hn::LoadU(d, row.dgain + at)), d, row.dgain + at);
    hn::StoreU(hn::Add(hn::LoadU(d, row.dbias + at), dy), d, row.dbias + at);
    hn::StoreU(hn::Mul(hn::Set(d, factor), rest), d, row.dx + at);
  });
}

template <class T>
HWY_INLINE T AdditiveScore(const T* q, const T* k, const T* v, Index n) {
  return Sum<T>(n, [&](auto d, Index at, auto sum) HWY_ATTR {
    const auto t = Tanh(d, hn::Add(hn::LoadU(d, q + at), hn::LoadU(d, k + at)));
    return hn::MulAdd(t, hn::LoadU(d, v + at), sum);
  });
}

template <class T>
HWY_INLINE T Dot(const T* x, const T* y, Index n) {
  return Sum<T>(n, [&](auto d, Index at, auto sum) HWY_ATTR {
    return hn::MulAdd(hn::LoadU(d, x + at), hn::LoadU(d, y + at), sum);
  });
}

template <class T>
HWY_INLINE double SumOfSquares(const T* x, Index n) {
  return Sum<double>(n, [&](auto d, Index at, auto sum) HWY_ATTR {
    PrefetchAhead(x + at);
    const auto value = hn::LoadU(hn::Rebind<T, decltype(d)>(), x + at);
    if constexpr (std::is_same_v<T, double>) {
      return hn::MulAdd(value, value, sum);
    } else {
      const auto wide = hn::PromoteTo(d, value);
      return hn::MulAdd(wide, wide, sum);
    }
  });
}

template <class T>
HWY_INLINE T Largest(const T* x, Index n) {
  const hn::ScalableTag<T> d;
  const Index lanes = LanesOf(d);
  const auto none = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto even = none, odd = none;
  Index i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    even = hn::Max(even, hn::LoadU(d, x + i));
    odd = hn::Max(odd, hn::LoadU(d, x + i + lanes));
  }
  T result = hn::GetLane(hn::MaxOfLanes(d, hn::Max(even, odd)));
  // Highway 1.0 has no -∞ in the lanes of EMU128: there it begins with the lowest finite number.
  if (result == std::numeric_limits<T>::lowest()) {
    result = -std::numeric_limits<T>::infinity();
    i = 0;
  }
  for (; i < n; ++i) result = std::max(result, x[i]);
  return result;
}

template <class T>
HWY_INLINE T SumExp(const T* x, T shift, Index n) {
  return Sum<T>(n, [&](auto d, Index at, auto sum) HWY_ATTR {
    return hn::Add(sum, Exp(d, hn::Sub(hn::LoadU(d, x + at), hn::Set(d, shift))));
  });
}

template <class T>
HWY_INLINE T ExpShifted(const T* x, T shift, T* y, Index n) {
  return Sum<T>(n, [&](auto d, Index at, auto sum) HWY_ATTR {
    const auto e = Exp(d, hn::Sub(hn::LoadU(d, x + at), hn::Set(d, shift)));
    hn::StoreU(e, d, y + at);
    return hn::Add(sum, e);
  });
}

template <class T>
HWY_INLINE void Run(const SoftmaxRow<T>& row, Index n) {
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  const T* x = row.x;
  if (row.mask) {
    x = row.y;
    ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
      const auto masked = hn::Eq(hn::LoadU(d, row.mask + at), hn::Zero(d));
      hn::StoreU(hn::IfThenElse(masked, hn::Set(d, kNone), hn::LoadU(d, row.x + at)), d,
                 row.y + at);
    });
  }
  const T largest = Largest(x, n);
  if (row.mask && largest == kNone &&
      std::all_of(row.mask, row.mask + n, [](T m) { return m == 0; })) {
    std::fill_n(row.y, n, T(0));
    return;
  }
  double total = 0;
  for (Index at = 0; at < n; at += sum_block) {
    total += ExpShifted(x + at, largest, row.y + at, std::min(sum_block, n - at));
  }
  const T factor = static_cast<T>(1 / total);
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    const auto y = hn::Mul(hn::LoadU(d, row.y + at), hn::Set(d, factor));
    if (!row.mask) return hn::StoreU(y, d, row.y + at);
    // Masked places get 0 even if the factor is NaN.
    const auto masked = hn::Eq(hn::LoadU(d, row.mask + at), hn::Zero(d));
    hn::StoreU(hn::IfThenZeroElse(masked, y), d, row.y + at);
  });
}

template <class T>
HWY_INLINE void Run(const SoftmaxGradientRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    const auto p = Exp(d, hn::Sub(hn::LoadU(d, row.x + at), hn::Set(d, row.norm)));
    const auto dx = hn::Mul(hn::Sub(p, hn::Set(d, row.even)), hn::Set(d, row.scale));
    hn::StoreU(dx, d, row.dx + at);
  });
}

template <class T>
HWY_INLINE void AddScaled(T a, const T* x, T* y, Index n) {
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::Set(d, a), hn::LoadU(d, x + at), hn::LoadU(d, y + at)), d, y + at);
  });
}

template <class T>
HWY_INLINE void Scale(T a, T* x, Index n) {
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    PrefetchAhead(x + at);
    hn::StoreU(hn::Mul(hn::Set(d, a), hn::LoadU(d, x + at)), d, x + at);
  });
}

template <class T>
HWY_INLINE void Run(const AdditiveScoreBackwardRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    const auto t = Tanh(d, hn::Add(hn::LoadU(d, row.q + at), hn::LoadU(d, row.k + at)));
    const auto de = hn::Set(d, row.de);
    const auto g = hn::Mul(hn::Mul(de, hn::LoadU(d, row.v + at)), TanhSlope(d, t));
    hn::StoreU(hn::Add(hn::LoadU(d, row.dq + at), g), d, row.dq + at);
    hn::StoreU(hn::Add(hn::LoadU(d, row.dk + at), g), d, row.dk + at);
    hn::StoreU(hn::MulAdd(de, t, hn::LoadU(d, row.dv + at)), d, row.dv + at);
  });
}

template <class T>
HWY_INLINE void Run(const AdamRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto d, Index at) HWY_ATTR {
    const auto g = hn::Mul(hn::LoadU(d, row.gradient + at), hn::Set(d, row.scale));
    const auto m = hn::MulAdd(hn::Set(d, row.beta1), hn::LoadU(d, row.m + at),
                              hn::Mul(hn::Set(d, 1 - row.beta1), g));
    const auto v = hn::MulAdd(hn::Set(d, row.beta2), hn::LoadU(d, row.v + at),
                              hn::Mul(hn::Set(d, 1 - row.beta2), hn::Mul(g, g)));
    const auto below = hn::MulAdd(hn::Sqrt(v), hn::Set(d, row.root), hn::Set(d, row.epsilon));
    const auto step = hn::Div(hn::Mul(hn::Set(d, row.rate), m), below);
    hn::StoreU(m, d, row.m + at);
    hn::StoreU(v, d, row.v + at);
    const auto w = hn::LoadU(d, row.w + at);
    hn::StoreU(hn::Sub(w, hn::MulAdd(hn::Set(d, row.decay), w, step)), d, row.w + at);
  });
}

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

// clang-format off
#define ATTUNE_ROW(KERNEL, Row, T, bits) \
  KERNEL(void, Run, Row##bits, run, (const Row<T>& row, Index n), (row, n))
#define ATTUNE_KERNELS(KERNEL, T, bits) \
  ATTUNE_ROW(KERNEL, LstmForwardRow, T, bits) \
  ATTUNE_ROW(KERNEL, LstmBackwardRow, T, bits) \
  ATTUNE_ROW(KERNEL, GruForwardRow, T, bits) \
  ATTUNE_ROW(KERNEL, GruBackwardRow, T, bits) \
  ATTUNE_ROW(KERNEL, GruResetRow, T, bits) \
  ATTUNE_ROW(KERNEL, GruUpdateRow, T, bits) \
  ATTUNE_ROW(KERNEL, GruUpdateBackwardRow, T, bits) \
  ATTUNE_ROW(KERNEL, GruResetBackwardRow, T, bits) \
  ATTUNE_ROW(KERNEL, LayerNormRow, T, bits) \
  ATTUNE_ROW(KERNEL, LayerNormBackwardRow, T, bits) \
  ATTUNE_ROW(KERNEL, AdditiveScoreBackwardRow, T, bits) \
  ATTUNE_ROW(KERNEL, SoftmaxRow, T, bits) \
  ATTUNE_ROW(KERNEL, SoftmaxGradientRow, T, bits) \
  ATTUNE_ROW(KERNEL, AdamRow, T, bits) \
  KERNEL(void, ExpOf, Exp##bits, exp, (const T* x, T* y, Index n), (x, y, n)) \
  KERNEL(void, TanhOf, Tanh##bits, tanh, (const T* x, T* y, Index n), (x, y, n)) \
  KERNEL(void, SigmoidOf, Sigmoid##bits, sigmoid, (const T* x, T* y, Index n), (x, y, n)) \
  KERNEL(T, AdditiveScore, AdditiveScore##bits, additive_score, (const T* q, const T* k, const T* v, Index n), (q, k, v, n)) \
  KERNEL(T, Dot, Dot##bits, dot, (const T* x, const T* y, Index n), (x, y, n)) \
  KERNEL(double, SumOfSquares, SumOfSquares##bits, sum_of_squares, (const T* x, Index n), (x, n)) \
  KERNEL(T, Largest, Largest##bits, largest, (const T* x, Index n), (x, n)) \
  KERNEL(T, SumExp, SumExp##bits, sum_exp, (const T* x, T shift, Index n), (x, shift, n)) \
  KERNEL(void, AddScaled, AddScaled##bits, add_scaled, (T a, const T* x, T* y, Index n), (a, x, y, n)) \
  KERNEL(void, Scale, Scale##bits, scale, (T a, T* x, Index n), (a, x, n))
// clang-format on

ATTUNE_KERNELS(ATTUNE_DEFINE, float, F32)
ATTUNE_KERNELS(ATTUNE_DEFINE, double, F64)

}  // namespace attune::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attune::simd {

ATTUNE_KERNELS(ATTUNE_CHOOSE, float, F32)
ATTUNE_KERNELS(ATTUNE_CHOOSE, double, F64)
HWY_EXPORT(Philox);

void philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t count,
            std::uint32_t* words) {
  ATTUNE_DISPATCH(Philox)(seed, stream, first, count, words);
}

}  // namespace attune::simd
#endif  // HWY_ONCE
