#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include <attune/tensor/kernels/simd/dispatch.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attune/tensor/kernels/simd/kernels.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for every instruction set.
#include <hwy/highway.h>

#include <attune/tensor/kernels/simd/math-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace attune::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE Index LanesOf(D d) {
  return static_cast<Index>(hn::Lanes(d));
}

/// A position in a row where the arithmetic is on a whole register, or on a single element.
template <class D>
struct Place {
  D d;
  Index i;

  using T = hn::TFromD<D>;
  HWY_INLINE hn::Vec<D> load(const T* row) const { return hn::LoadU(d, row + i); }
  HWY_INLINE void store(hn::Vec<D> x, T* row) const { hn::StoreU(x, d, row + i); }
  HWY_INLINE hn::Vec<D> set(T x) const { return hn::Set(d, x); }
};
template <class D>
Place(D, Index) -> Place<D>;

/// Calls f(place) for whole registers and then element by element, with the same arithmetic: the
/// value of an element does not depend on the length of the row.
template <class T, class F>
HWY_INLINE void ForEach(Index n, F f) {
  const hn::ScalableTag<T> wide;
  const hn::CappedTag<T, 1> one;
  Index i = 0;
  for (; i + LanesOf(wide) <= n; i += LanesOf(wide)) f(Place{wide, i});
  for (; i < n; ++i) f(Place{one, i});
}

/// s (1 - s), the derivative of σ where its value is s.
template <class V>
HWY_INLINE V SigmoidSlope(V s) {
  return hn::NegMulAdd(s, s, s);
}
/// 1 - t², the derivative of tanh where its value is t.
template <class D, class V>
HWY_INLINE V TanhSlope(D d, V t) {
  return hn::NegMulAdd(t, t, hn::Set(d, 1));
}

template <class T>
HWY_INLINE void Run(const LstmForwardRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    const auto gate = [&](Index k) HWY_ATTR {
      return hn::Add(at.load(row.xw + k * n), at.load(row.hw + k * n));
    };
    const auto i = Sigmoid(at.d, gate(0)), f = Sigmoid(at.d, gate(1));
    const auto g = Tanh(at.d, gate(2)), o = Sigmoid(at.d, gate(3));
    const auto c = hn::MulAdd(f, at.load(row.c_prev), hn::Mul(i, g));
    at.store(i, row.gates);
    at.store(f, row.gates + n);
    at.store(g, row.gates + 2 * n);
    at.store(o, row.gates + 3 * n);
    at.store(c, row.c);
    at.store(hn::Mul(o, Tanh(at.d, c)), row.h);
  });
}

template <class T>
HWY_INLINE void Run(const LstmBackwardRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    const auto i = at.load(row.gates), f = at.load(row.gates + n);
    const auto g = at.load(row.gates + 2 * n), o = at.load(row.gates + 3 * n);
    const auto dh = at.load(row.dh), c_prev = at.load(row.c_prev);
    const auto tanh_c = Tanh(at.d, at.load(row.c));
    const auto dc = hn::MulAdd(hn::Mul(dh, o), TanhSlope(at.d, tanh_c), at.load(row.dc));
    at.store(hn::Mul(hn::Mul(dh, tanh_c), SigmoidSlope(o)), row.dgates + 3 * n);
    at.store(hn::Mul(hn::Mul(dc, g), SigmoidSlope(i)), row.dgates);
    at.store(hn::Mul(hn::Mul(dc, c_prev), SigmoidSlope(f)), row.dgates + n);
    at.store(hn::Mul(hn::Mul(dc, i), TanhSlope(at.d, g)), row.dgates + 2 * n);
    at.store(hn::Mul(dc, f), row.dc);
  });
}

template <class T>
HWY_INLINE void Run(const GruResetRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    const auto gate = [&](Index k) HWY_ATTR {
      return Sigmoid(at.d, hn::Add(at.load(row.xw + k * n), at.load(row.hw + k * n)));
    };
    const auto r = gate(0);
    at.store(r, row.gates);
    at.store(gate(1), row.gates + n);
    if (row.rh) at.store(hn::Mul(r, at.load(row.h_prev)), row.rh);
  });
}

template <class T>
HWY_INLINE void Run(const GruUpdateRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    auto argument = hn::Add(at.load(row.hw_n), at.load(row.r ? row.b_hn : row.xw_n));
    if (row.r) {
      at.store(argument, row.hidden);
      argument = hn::MulAdd(at.load(row.r), argument, at.load(row.xw_n));
    }
    const auto candidate = Tanh(at.d, argument);
    const auto z = at.load(row.z), h_prev = at.load(row.h_prev);
    at.store(candidate, row.n);
    at.store(hn::MulAdd(z, hn::Sub(h_prev, candidate), candidate), row.h);
  });
}

template <class T>
HWY_INLINE void Run(const GruUpdateBackwardRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    const auto z = at.load(row.z), candidate = at.load(row.n);
    const auto dh = at.load(row.dh), h_prev = at.load(row.h_prev);
    at.store(hn::Mul(hn::Mul(dh, hn::Sub(h_prev, candidate)), SigmoidSlope(z)), row.dz);
    at.store(hn::Mul(hn::NegMulAdd(dh, z, dh), TanhSlope(at.d, candidate)), row.dn);
    at.store(hn::Mul(dh, z), row.dh_prev);
  });
}

template <class T>
HWY_INLINE void Run(const GruResetBackwardRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    const auto r = at.load(row.r), drx = at.load(row.drx);
    at.store(hn::Mul(hn::Mul(drx, at.load(row.x)), SigmoidSlope(r)), row.dr);
    at.store(hn::MulAdd(drx, r, at.load(row.dx)), row.dx);
  });
}

/// Prefetches 8 KiB ahead, further than the hardware: memory-bound kernels are 25 %
/// faster on a Zen 5.
template <class T>
HWY_INLINE void PrefetchAhead(const T* x) {
  __builtin_prefetch(x + 8192 / sizeof(T));
}

/// The sum of all lanes, in the same order for every register size: lane i and lane i + n/2, ...
template <class D>
HWY_INLINE hn::TFromD<D> Total([[maybe_unused]] D d, hn::Vec<D> x) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(d) > 1) {
    const hn::Half<D> half;
    return Total(half, hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x)));
  }
#endif
  return hn::GetLane(x);
}

/// Σ f(place), in two interleaved sums, each of as many partial sums as the widest register has
/// lanes: additions are independent, and in the same order for every register size. Sums of blocks
/// of 8192 elements are added in double.
template <class T, class F>
HWY_INLINE T Sum(Index n, F f) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  constexpr Index width = 64 / sizeof(T), lanes = hn::MaxLanes(d), registers = width / lanes;
  constexpr Index block = 8192;
  double of_blocks = 0;
  for (Index i = 0;;) {
    const Index end = std::min(n, i + block);
    hn::Vec<decltype(d)> even[registers], odd[registers];
    for (Index r = 0; r < registers; ++r) even[r] = odd[r] = hn::Zero(d);
    const auto add = [&](Index at, auto& sums) HWY_ATTR {
      for (Index r = 0; r < registers; ++r) sums[r] = f(Place{d, at + r * lanes}, sums[r]);
    };
    for (; i + 2 * width <= end; i += 2 * width) add(i, even), add(i + width, odd);
    if (i + width <= end) add(i, even), i += width;
    for (Index r = 0; r < registers; ++r) even[r] = hn::Add(even[r], odd[r]);
    for (Index left = registers / 2; left > 0; left /= 2) {
      for (Index r = 0; r < left; ++r) even[r] = hn::Add(even[r], even[r + left]);
    }
    T total = Total(d, even[0]);
    for (; i < end; ++i) total = hn::GetLane(f(Place{one, i}, hn::Set(one, total)));
    if (n <= block) return total;
    of_blocks += total;
    if (i == n) return static_cast<T>(of_blocks);
  }
}

template <class T>
struct Moments {
  T mean, variance;
};
template <class T>
HWY_INLINE Moments<T> MomentsOf(const T* x, Index n) {
  const T total = Sum<T>(n, [&](auto at, auto sum) HWY_ATTR { return hn::Add(sum, at.load(x)); });
  const T mean = total / static_cast<T>(n);
  const T squares = Sum<T>(n, [&](auto at, auto sum) HWY_ATTR {
    const auto centred = hn::Sub(at.load(x), at.set(mean));
    return hn::MulAdd(centred, centred, sum);
  });
  return {mean, squares / static_cast<T>(n)};
}

/// y = scale · x - shift
template <class T>
HWY_INLINE void Shifted(const T* x, T scale, T shift, T* y, Index n) {
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    at.store(hn::MulSub(at.load(x), at.set(scale), at.set(shift)), y);
  });
}

template <class T>
HWY_INLINE void Run(const LayerNormRow<T>& row, Index n) {
  const T* x = row.x;
  T scale = 1, shift = 0;
  Moments<T> of = MomentsOf(x, n);
  const auto again = [&]() HWY_ATTR {
    Shifted(row.x, scale, shift, row.y, n);
    x = row.y;
    of = MomentsOf(x, n);
  };
  if (!(of.variance <= std::numeric_limits<T>::max())) {
    scale = sizeof(T) == 4 ? T(0x1p-80) : T(0x1p-600);
    again();
  }
  if (of.mean * of.mean > of.variance) {  // μ may be rounded by as much as the differences
    shift = of.mean;
    again();
  }
  const T mean = of.mean, variance = of.variance + row.epsilon * scale * scale;
  // Where s² ε underflows (as with equal elements), s √ε does not.
  const T factor = 1 / (variance > 0 ? std::sqrt(variance) : scale * std::sqrt(row.epsilon));
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    const auto centred = hn::Sub(at.load(x), at.set(mean));
    const auto x_hat = hn::Mul(centred, at.set(factor));
    at.store(hn::MulAdd(at.load(row.gain), x_hat, at.load(row.bias)), row.y);
  });
  std::ranges::copy(std::array{scale, shift, mean, factor}, row.moments);
}

template <class T>
HWY_INLINE void Run(const LayerNormBackwardRow<T>& row, Index n) {
  const T scale = row.moments[0], shift = row.moments[1], mean = row.moments[2],
          factor = row.moments[3];
  const bool shifted = scale != 1 || shift != 0;
  if (shifted) Shifted(row.x, scale, shift, row.dx, n);
  const T* const x = shifted ? row.dx : row.x;
  const auto normal = [&](auto at) HWY_ATTR {
    return hn::Mul(hn::Sub(at.load(x), at.set(mean)), at.set(factor));
  };
  const auto scaled = [&](auto at) HWY_ATTR { return hn::Mul(at.load(row.dy), at.load(row.gain)); };
  const T total = Sum<T>(n, [&](auto at, auto sum) HWY_ATTR { return hn::Add(sum, scaled(at)); });
  const T product = Sum<T>(
      n, [&](auto at, auto sum) HWY_ATTR { return hn::MulAdd(scaled(at), normal(at), sum); });
  const T mean_g = total / static_cast<T>(n), mean_gx = product / static_cast<T>(n);
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    const auto x_hat = normal(at), dy = at.load(row.dy);
    const auto centred = hn::Sub(scaled(at), at.set(mean_g));
    const auto rest = hn::NegMulAdd(x_hat, at.set(mean_gx), centred);
    at.store(hn::MulAdd(dy, x_hat, at.load(row.dgain)), row.dgain);
    at.store(hn::Add(at.load(row.dbias), dy), row.dbias);
    at.store(hn::Mul(at.set(factor * scale), rest), row.dx);
  });
}

template <class T>
HWY_INLINE T AdditiveScoreOf(const T* q, const T* k, const T* v, Index n) {
  return Sum<T>(n, [&](auto at, auto sum) HWY_ATTR {
    const auto t = Tanh(at.d, hn::Add(at.load(q), at.load(k)));
    return hn::MulAdd(t, at.load(v), sum);
  });
}

template <class T>
HWY_INLINE T Dot(const T* x, const T* y, Index n) {
  return Sum<T>(
      n, [&](auto at, auto sum) HWY_ATTR { return hn::MulAdd(at.load(x), at.load(y), sum); });
}

#if HWY_TARGET != HWY_SCALAR
/// Total of each of four registers, in the order of Total.
template <class D>
HWY_INLINE hn::VFromD<hn::CappedTag<float, 4>> FourTotals(D d, hn::Vec<D> a, hn::Vec<D> b,
                                                          hn::Vec<D> c, hn::Vec<D> e) {
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<D> half;
    const auto folded = [&](auto x) HWY_ATTR {
      return hn::Add(hn::LowerHalf(half, x), hn::UpperHalf(half, x));
    };
    return FourTotals(half, folded(a), folded(b), folded(c), folded(e));
  } else {
    const auto ab = hn::Add(hn::ConcatLowerLower(d, b, a), hn::ConcatUpperUpper(d, b, a));
    const auto ce = hn::Add(hn::ConcatLowerLower(d, e, c), hn::ConcatUpperUpper(d, e, c));
    return hn::Add(hn::ConcatEven(d, ce, ab), hn::ConcatOdd(d, ce, ab));
  }
}

#endif

/// totals_i = x · (rows_i + offset), each in as many partial sums as the widest register has lanes.
template <Index kRows, class T>
HWY_INLINE void Dots(const T* x, const T* const* rows, Index offset, Index n, T* totals) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  constexpr Index width = 64 / sizeof(T), lanes = hn::MaxLanes(d), registers = width / lanes;
  hn::Vec<decltype(d)> sums[kRows][registers];
  for (auto& of_row : sums)
    for (auto& sum : of_row) sum = hn::Zero(d);
  Index j = 0;
  for (; j + width <= n; j += width) {
    for (Index r = 0; r < registers; ++r) {
      const Index at = j + r * lanes;
      const auto factor = hn::LoadU(d, x + at);
      for (Index i = 0; i < kRows; ++i)
        sums[i][r] = hn::MulAdd(factor, hn::LoadU(d, rows[i] + offset + at), sums[i][r]);
    }
  }
  for (auto& of_row : sums) {
    for (Index left = registers / 2; left > 0; left /= 2)
      for (Index r = 0; r < left; ++r) of_row[r] = hn::Add(of_row[r], of_row[r + left]);
  }
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kRows == 4 && sizeof(T) == 4) {
    const hn::CappedTag<float, 4> four;
    hn::StoreU(FourTotals(d, sums[0][0], sums[1][0], sums[2][0], sums[3][0]), four, totals);
  } else
#endif
    for (Index i = 0; i < kRows; ++i) totals[i] = Total(d, sums[i][0]);
  for (; j < n; ++j) {
    for (Index i = 0; i < kRows; ++i)
      totals[i] = hn::GetLane(hn::MulAdd(hn::Set(one, x[j]), hn::Set(one, rows[i][offset + j]),
                                         hn::Set(one, totals[i])));
  }
}

template <class T>
HWY_INLINE void Run(const StepScoresRow<T>& row, Index n) {
  const auto dots = [&](auto count, Index i) HWY_ATTR {
    for (Index head = 0, offset = 0; head < row.heads; ++head) {
      T totals[count];
      Dots<count>(row.q + head * row.size, row.keys + i, offset, row.size, totals);
      for (Index c = 0; c < count; ++c) row.scores[head * n + i + c] = row.scale * totals[c];
      if ((head + 1) % row.group == 0) offset += row.size;
    }
  };
  constexpr std::integral_constant<Index, 4> together;
  constexpr Index ahead =
      8;  // entries are scattered in memory: the hardware does not prefetch them
  const Index bytes = row.heads / row.group * row.size * Index{sizeof(T)};
  Index i = 0;
  for (; i + together <= n; i += together) {
    for (Index c = i + ahead; c < std::min(n, i + ahead + together); ++c)
      for (Index at = 0; at < bytes; at += 64)
        __builtin_prefetch(reinterpret_cast<const char*>(row.keys[c]) + at);
    dots(together, i);
  }
  for (; i < n; ++i) dots(std::integral_constant<Index, 1>(), i);
}

/// Neighbouring elements of a head in StepSumRow.
template <class T>
struct HeadColumns {
  const T* weights;
  T factor;
  Index from, to;  // in a value, in y
};

template <class T>
HWY_INLINE void Run(const StepSumRow<T>& row, Index n) {
  const auto add = [&](auto count, auto d, const HeadColumns<T>* of) HWY_ATTR {
    hn::Vec<decltype(d)> sums[count];
    for (auto& sum : sums) sum = hn::Zero(d);
    for (Index i = 0; i < n; ++i) {
      const T* const value = row.values[i];
      for (Index c = 0; c < count; ++c)
        sums[c] =
            hn::MulAdd(hn::Set(d, of[c].weights[i]), hn::LoadU(d, value + of[c].from), sums[c]);
    }
    for (Index c = 0; c < count; ++c)
      hn::StoreU(hn::Mul(hn::Set(d, of[c].factor), sums[c]), d, row.y + of[c].to);
  };
  const hn::ScalableTag<T> wide;
  const hn::CappedTag<T, 1> narrow;
  constexpr std::integral_constant<Index, 1> one;
  constexpr std::integral_constant<Index, 4> many;  // independent sums
  HeadColumns<T> waiting[many];
  Index count = 0;
  for (Index head = 0; head < row.heads; ++head) {
    for (Index j = 0, step; j < row.size; j += step) {
      const bool whole = j + LanesOf(wide) <= row.size;
      step = whole ? LanesOf(wide) : 1;
      waiting[count] = {row.weights + head * n, row.factors[head], head / row.group * row.size + j,
                        head * row.size + j};
      if (!whole) {
        add(one, narrow, waiting + count);
      } else if (++count == many) {
        add(many, wide, waiting), count = 0;
      }
    }
  }
  for (Index c = 0; c < count; ++c) add(one, wide, waiting + c);
}

template <class T>
HWY_INLINE double SumOfSquares(const T* x, Index n) {
  return Sum<double>(n, [&](auto at, auto sum) HWY_ATTR {
    PrefetchAhead(x + at.i);
    const auto value = hn::LoadU(hn::Rebind<T, decltype(at.d)>(), x + at.i);
    if constexpr (std::is_same_v<T, double>) {
      return hn::MulAdd(value, value, sum);
    } else {
      const auto wide = hn::PromoteTo(at.d, value);
      return hn::MulAdd(wide, wide, sum);
    }
  });
}

template <class T>
HWY_INLINE T LargestOf(const T* x, Index n) {
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
  // Highway 1.0's EMU128 cannot fill lanes with -∞: the maximum starts at the lowest finite number.
  if (result == std::numeric_limits<T>::lowest()) {
    result = -std::numeric_limits<T>::infinity();
    i = 0;
  }
  for (; i < n; ++i) result = std::max(result, x[i]);
  return result;
}

/// e^x, or 0 where it is below 2^-100 (f64: 2^-996): products with such a weight would be
/// subnormal, which slows down the CPU.
template <class D, class V>
HWY_INLINE V ExpWithoutTiny(D d, V x) {
  using T = hn::TFromD<D>;
  constexpr T least = std::numbers::ln2_v<T> * (sizeof(T) == 4 ? -100 : -996);
  const auto tiny = hn::Lt(x, hn::Set(d, least));
  return hn::IfThenZeroElse(tiny, Exp(d, hn::IfThenElse(tiny, hn::Set(d, least), x)));
}

/// A row whose last register is padded with -∞, which does not change the sum.
template <class T, bool kStore, bool kWithoutTiny = false>
HWY_INLINE T SumExp(const T* x, T shift, Index n, [[maybe_unused]] T* y) {
  constexpr Index width = 64 / sizeof(T);
  const Index whole = n / width * width, rest = n - whole;
  T tail[width];
  if (rest > 0) {
    std::fill(std::copy_n(x + whole, rest, tail), tail + width,
              -std::numeric_limits<T>::infinity());
  }
  const T total = Sum<T>(rest > 0 ? whole + width : whole, [&](auto at, auto sum) HWY_ATTR {
    const bool last = at.i >= whole;
    const Place place{at.d, last ? at.i - whole : at.i};
    const auto less = hn::Sub(place.load(last ? tail : x), at.set(shift));
    const auto e = kWithoutTiny ? ExpWithoutTiny(at.d, less) : Exp(at.d, less);
    if constexpr (kStore) place.store(e, last ? tail : y);
    return hn::Add(sum, e);
  });
  if constexpr (kStore) std::copy_n(tail, rest, y + whole);
  return total;
}
template <class T>
HWY_INLINE T SumExp(const T* x, T shift, Index n, T* y) {
  return y ? SumExp<T, true, true>(x, shift, n, y) : SumExp<T, false>(x, shift, n, y);
}

template <class T>
HWY_INLINE void Run(const SoftmaxRow<T>& row, Index n) {
  constexpr T kNone = -std::numeric_limits<T>::infinity();
  const T* x = row.x;
  if (row.mask) {
    x = row.y;
    ForEach<T>(n, [&](auto at) HWY_ATTR {
      const auto masked = hn::Eq(at.load(row.mask), hn::Zero(at.d));
      at.store(hn::IfThenElse(masked, at.set(kNone), at.load(row.x)), row.y);
    });
  }
  const T largest = std::max(LargestOf(x, n), std::numeric_limits<T>::lowest());
  double total = 0;
  for (Index at = 0; at < n; at += sum_block) {
    const Index width = std::min(sum_block, n - at);
    total += SumExp<T, true>(x + at, largest, width, row.y + at);
  }
  const T factor = total == 0 ? T(0) : static_cast<T>(1 / total);
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    const auto y = hn::Mul(at.load(row.y), at.set(factor));
    if (!row.mask) return at.store(y, row.y);
    // Masked elements become 0 even if the factor is NaN.
    const auto masked = hn::Eq(at.load(row.mask), hn::Zero(at.d));
    at.store(hn::IfThenZeroElse(masked, y), row.y);
  });
}

template <class T>
HWY_INLINE void Run(const SoftmaxGradientRow<T> row, Index n) {
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    const auto e = Exp(at.d, hn::Sub(at.load(row.x), at.set(row.shift)));
    at.store(hn::MulSub(e, at.set(row.scale), at.set(row.even)), row.dx);
  });
}

template <class T>
HWY_INLINE void Run(const AttentionGradientRow<T> row, Index n) {
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    const auto e = ExpWithoutTiny(at.d, hn::Sub(at.load(row.p), at.set(row.shift)));
    const auto w = hn::Mul(e, at.set(row.factor));
    const auto m = row.m ? at.load(row.m) : at.set(1);
    at.store(hn::Mul(w, m), row.p);
    at.store(hn::Mul(w, hn::MulSub(at.load(row.dp), m, at.set(row.delta))), row.dp);
  });
}

template <class T>
HWY_INLINE void AddScaled(T a, const T* x, T* y, Index n) {
  ForEach<T>(n,
             [&](auto at) HWY_ATTR { at.store(hn::MulAdd(at.set(a), at.load(x), at.load(y)), y); });
}

template <class T>
HWY_INLINE void ScaleBy(T a, T* x, Index n) {
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    PrefetchAhead(x + at.i);
    at.store(hn::Mul(at.set(a), at.load(x)), x);
  });
}

template <class T>
HWY_INLINE void Run(const AdditiveScoreBackwardRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    const auto t = Tanh(at.d, hn::Add(at.load(row.q), at.load(row.k)));
    const auto de = at.set(row.de);
    const auto g = hn::Mul(hn::Mul(de, at.load(row.v)), TanhSlope(at.d, t));
    at.store(hn::Add(at.load(row.dq), g), row.dq);
    at.store(hn::Add(at.load(row.dk), g), row.dk);
    at.store(hn::MulAdd(de, t, at.load(row.dv)), row.dv);
  });
}

template <class T>
HWY_INLINE void Run(const AdamRow<T>& row, Index n) {
  ForEach<T>(n, [&](auto at) HWY_ATTR {
    const auto g = at.load(row.gradient);
    const auto m = hn::MulAdd(at.set(row.beta1), at.load(row.m), hn::Mul(at.set(1 - row.beta1), g));
    const auto v = hn::MulAdd(at.set(row.beta2), at.load(row.v),
                              hn::Mul(at.set(1 - row.beta2), hn::Mul(g, g)));
    const auto below = hn::MulAdd(hn::Sqrt(v), at.set(row.root), at.set(row.epsilon));
    const auto step = hn::Div(hn::Mul(at.set(row.rate), m), below);
    at.store(m, row.m);
    at.store(v, row.v);
    const auto w = at.load(row.w);
    at.store(hn::Sub(w, hn::MulAdd(at.set(row.decay), w, step)), row.w);
  });
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

#if HWY_TARGET != HWY_SCALAR

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

/// As many blocks as a register has lanes. The lower halves of their numbers must not overflow.
template <class D>
HWY_INLINE void PhiloxBlocks(D d, std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
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

#endif

void Philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t count,
            std::uint32_t* words) {
  for (std::size_t i = 0; i < count;) {
    const std::uint64_t n = first + i;
#if HWY_TARGET != HWY_SCALAR
    const hn::ScalableTag<std::uint32_t> d;
    const std::size_t lanes = hn::Lanes(d);
    if (i + lanes <= count && lanes <= (std::uint64_t{1} << 32) - (n & 0xFFFFFFFF)) {
      PhiloxBlocks(d, seed, stream, n, words + 4 * i);
      i += lanes;
      continue;
    }
#endif
    std::ranges::copy(philox(seed, stream, n), words + 4 * i++);
  }
}

/// A register of pairs of words, the first in the lower half.
template <class D>
HWY_INLINE auto PairsAt(D, const std::uint32_t* words) {
  const hn::RebindToUnsigned<D> bits;
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(bits, std::uint64_t{words[1]} << 32 | words[0]);
#else
  return hn::BitCast(bits, hn::LoadU(hn::Repartition<std::uint32_t, D>(), words));
#endif
}

/// The leading 53 bits of pairs of words, as numbers in [0, 1).
template <class D, class Bits>
HWY_INLINE hn::Vec<D> UnitOf(D d, Bits pairs) {
  const hn::RebindToUnsigned<D> bits;
  const auto integer = [&](Bits x) HWY_ATTR {  // to double, by the lowest bits of 2^52
    const auto offset = hn::Set(d, 0x1p52);
    return hn::Sub(hn::BitCast(d, hn::Or(x, hn::BitCast(bits, offset))), offset);
  };
  const auto first = integer(hn::And(pairs, hn::Set(bits, 0xFFFFFFFF)));
  return hn::MulAdd(first, hn::Set(d, 0x1p-32),
                    hn::Mul(integer(hn::ShiftRight<43>(pairs)), hn::Set(d, 0x1p-53)));
}

/// x rounded to the elements of `narrow`.
template <class D, class V>
HWY_INLINE hn::Vec<D> Rounded(D narrow, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == sizeof(double))
    return x;
  else
    return hn::DemoteTo(narrow, x);
}

/// y = f(d, narrow, words), where f computes a register of T, as many as d has doubles, from `width`
/// words each.
template <Index width, class T, class F>
HWY_INLINE void Draw(const std::uint32_t* words, T* y, Index n, F f) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<T, decltype(d)> narrow;
  const Index lanes = LanesOf(d);
  Index i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, narrow, words + width * i), narrow, y + i);
  if (i >= n) return;
  std::uint32_t rest[width * hn::MaxLanes(d)] = {};
  HWY_ALIGN T last[hn::MaxLanes(narrow)];
  std::copy(words + width * i, words + width * n, rest);
  hn::Store(f(d, narrow, rest), narrow, last);
  std::copy_n(last, n - i, y + i);
}

template <class T>
HWY_INLINE void Uniform(const std::uint32_t* words, double low, double range, double last, T* y,
                        Index n) {
  Draw<2>(words, y, n, [&](auto d, auto narrow, const std::uint32_t* from) HWY_ATTR {
    const auto u = UnitOf(d, PairsAt(d, from));
    const auto x = hn::Add(hn::Set(d, low), hn::Mul(hn::Set(d, range), u));
    return Rounded(narrow, hn::Min(x, hn::Set(d, last)));
  });
}

/// √(-2 ln w) cos(2π v) for w = 1 - u. In f32, w is rounded, and its logarithm corrected for that.
template <class T>
HWY_INLINE void Normal(const std::uint32_t* words, T* y, Index n) {
  Draw<4>(words, y, n, [&](auto d, auto narrow, const std::uint32_t* from) HWY_ATTR {
    const hn::RebindToUnsigned<decltype(d)> bits;
    const auto low_pairs = PairsAt(d, from), high_pairs = PairsAt(d, from + 2 * hn::Lanes(d));
#if HWY_TARGET == HWY_SCALAR
    const auto pair_u = low_pairs, pair_v = high_pairs;
#else
    const auto pair_u = hn::ConcatEven(bits, high_pairs, low_pairs);
    const auto pair_v = hn::ConcatOdd(bits, high_pairs, low_pairs);
#endif
    const auto v = UnitOf(d, pair_v), round = hn::Set(d, 0x1.8p52);
    const auto turns = hn::MulAdd(v, hn::Set(d, 4.0), round);
    const auto rest = hn::NegMulAdd(hn::Sub(turns, round), hn::Set(d, 0.25), v);  // exact
    const auto cosine =
        math_detail::SinOfTurn<T>(d, hn::Mul(rest, hn::Set(d, 2 * std::numbers::pi)),
                                  hn::Add(hn::BitCast(bits, turns), hn::Set(bits, 1)));
    const auto exact = hn::Sub(hn::Set(d, 1.0), UnitOf(d, pair_u));
    const auto w = Rounded(narrow, exact);
    auto low = hn::Zero(narrow);
    if constexpr (sizeof(T) < sizeof(double))
      low = hn::Div(hn::DemoteTo(narrow, hn::Sub(exact, hn::PromoteTo(d, w))), w);
    const auto log = math_detail::LogOfFinite(narrow, w, low);
    return hn::Mul(hn::Sqrt(hn::Mul(log, hn::Set(narrow, -2))), Rounded(narrow, cosine));
  });
}

// clang-format off
#define ATTUNE_ROW(KERNEL, Row, T, bits) \
  KERNEL(void, Run, Row##bits, run, (const Row<T>& row, Index n), (row, n))
#define ATTUNE_KERNELS(KERNEL, T, bits) \
  ATTUNE_ROW(KERNEL, LstmForwardRow, T, bits) \
  ATTUNE_ROW(KERNEL, LstmBackwardRow, T, bits) \
  ATTUNE_ROW(KERNEL, GruResetRow, T, bits) \
  ATTUNE_ROW(KERNEL, GruUpdateRow, T, bits) \
  ATTUNE_ROW(KERNEL, GruUpdateBackwardRow, T, bits) \
  ATTUNE_ROW(KERNEL, GruResetBackwardRow, T, bits) \
  ATTUNE_ROW(KERNEL, LayerNormRow, T, bits) \
  ATTUNE_ROW(KERNEL, LayerNormBackwardRow, T, bits) \
  ATTUNE_ROW(KERNEL, AdditiveScoreBackwardRow, T, bits) \
  ATTUNE_ROW(KERNEL, StepScoresRow, T, bits) \
  ATTUNE_ROW(KERNEL, StepSumRow, T, bits) \
  ATTUNE_ROW(KERNEL, SoftmaxRow, T, bits) \
  ATTUNE_ROW(KERNEL, SoftmaxGradientRow, T, bits) \
  ATTUNE_ROW(KERNEL, AttentionGradientRow, T, bits) \
  ATTUNE_ROW(KERNEL, AdamRow, T, bits) \
  KERNEL(void, Uniform, Uniform##bits, uniform, (const std::uint32_t* words, double low, double range, double last, T* y, Index n), (words, low, range, last, y, n)) \
  KERNEL(void, Normal, Normal##bits, normal, (const std::uint32_t* words, T* y, Index n), (words, y, n)) \
  KERNEL(T, AdditiveScoreOf, AdditiveScore##bits, additive_score, (const T* q, const T* k, const T* v, Index n), (q, k, v, n)) \
  KERNEL(T, Dot, Dot##bits, dot, (const T* x, const T* y, Index n), (x, y, n)) \
  KERNEL(double, SumOfSquares, SumOfSquares##bits, sum_of_squares, (const T* x, Index n), (x, n)) \
  KERNEL(T, LargestOf, Largest##bits, largest, (const T* x, Index n), (x, n)) \
  KERNEL(T, SumExp, SumExp##bits, sum_exp, (const T* x, T shift, Index n, T* y), (x, shift, n, y)) \
  KERNEL(void, AddScaled, AddScaled##bits, add_scaled, (T a, const T* x, T* y, Index n), (a, x, y, n)) \
  KERNEL(void, ScaleBy, Scale##bits, scale, (T a, T* x, Index n), (a, x, n))
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
HWY_EXPORT(TargetName);

const char* target() { return ATTUNE_DISPATCH(TargetName)(); }

void philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t count,
            std::uint32_t* words) {
  ATTUNE_DISPATCH(Philox)(seed, stream, first, count, words);
}

}  // namespace attune::simd
#endif  // HWY_ONCE
