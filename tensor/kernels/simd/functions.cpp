#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include <attune/tensor/kernels/simd/dispatch.hpp>
#include <attune/tensor/kernels/simd/functions.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attune/tensor/kernels/simd/functions.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for every instruction set.
#include <hwy/highway.h>

#include <attune/tensor/kernels/simd/math-inl.hpp>

#undef ATTUNE_ATTR
#define ATTUNE_ATTR HWY_ATTR __attribute__((always_inline))  // of lambdas

HWY_BEFORE_NAMESPACE();
namespace attune::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// A register in the expressions of functions.inc; its functions are accurate for results of type P.
template <class D, class P = hn::TFromD<D>>
struct Lanes {
  using Mask = hn::Mask<D>;
  hn::Vec<D> v;
  HWY_INLINE Lanes(hn::Vec<D> x) : v(x) {}
  HWY_INLINE Lanes(double x) : v(hn::Set(D(), static_cast<hn::TFromD<D>>(x))) {}

  friend HWY_INLINE Lanes operator+(Lanes a, Lanes b) { return hn::Add(a.v, b.v); }
  friend HWY_INLINE Lanes operator-(Lanes a, Lanes b) { return hn::Sub(a.v, b.v); }
  friend HWY_INLINE Lanes operator*(Lanes a, Lanes b) { return hn::Mul(a.v, b.v); }
  friend HWY_INLINE Lanes operator/(Lanes a, Lanes b) { return hn::Div(a.v, b.v); }
  friend HWY_INLINE Lanes operator-(Lanes x) { return hn::Neg(x.v); }
  friend HWY_INLINE Mask operator<(Lanes a, Lanes b) { return hn::Lt(a.v, b.v); }
  friend HWY_INLINE Mask operator>(Lanes a, Lanes b) { return hn::Gt(a.v, b.v); }
  friend HWY_INLINE Mask operator<=(Lanes a, Lanes b) { return hn::Le(a.v, b.v); }
  friend HWY_INLINE Lanes select(Mask m, Lanes a, Lanes b) { return hn::IfThenElse(m, a.v, b.v); }
  friend HWY_INLINE Lanes zero(Lanes) { return hn::Zero(D()); }
  friend HWY_INLINE Lanes maximum(Lanes x, double b) {
    return math_detail::Cap<false>(D(), static_cast<hn::TFromD<D>>(b), x.v);
  }
  friend HWY_INLINE Lanes exp(Lanes x) { return Exp(D(), x.v); }
  friend HWY_INLINE Lanes expm1(Lanes x) { return Expm1(D(), x.v); }
  friend HWY_INLINE Lanes tanh(Lanes x) { return Tanh(D(), x.v); }
  friend HWY_INLINE Lanes sigmoid(Lanes x) { return Sigmoid(D(), x.v); }
  friend HWY_INLINE Lanes sigmoid(Lanes x, Lanes factor) { return Sigmoid(D(), x.v, factor.v); }
  friend HWY_INLINE Lanes silu_slope(Lanes x) { return SiluSlope(D(), x.v); }
  friend HWY_INLINE Lanes gelu(Lanes x) { return Gelu(D(), x.v); }
  friend HWY_INLINE Lanes gelu_slope(Lanes x) { return GeluSlope(D(), x.v); }
  friend HWY_INLINE Lanes log(Lanes x) { return Log(D(), x.v); }
  friend HWY_INLINE Lanes log1p(Lanes x) { return Log1p(D(), x.v); }
  friend HWY_INLINE Lanes sin(Lanes x) { return Sin<P>(D(), x.v); }
  friend HWY_INLINE Lanes cos(Lanes x) { return Sin<P>(D(), x.v, 1); }
  friend HWY_INLINE Lanes atan(Lanes x) { return Atan(D(), x.v); }
  friend HWY_INLINE Lanes erf(Lanes x) { return Erf(D(), x.v); }
  friend HWY_INLINE Lanes gauss(Lanes x) { return Gauss(D(), x.v); }
  friend HWY_INLINE Lanes power(Lanes x, Lanes b) { return Pow<P>(D(), x.v, b.v); }
  friend HWY_INLINE Lanes sqrt(Lanes x) { return hn::Sqrt(x.v); }
  friend HWY_INLINE Lanes abs(Lanes x) { return hn::Abs(x.v); }
  // Without SIMD, Highway's Floor and Round of -0 are 0.
  friend HWY_INLINE Lanes floor(Lanes x) { return hn::CopySign(hn::Floor(x.v), x.v); }
  friend HWY_INLINE Lanes ceil(Lanes x) { return hn::Ceil(x.v); }
  friend HWY_INLINE Lanes round(Lanes x) { return hn::CopySign(hn::Round(x.v), x.v); }
};

/// f(x, more...), for floats computed in registers of doubles.
template <class F, class D, class... Xs>
HWY_INLINE Lanes<D> Wide(F f, Lanes<D> x, Xs... more) {
  const D d;
  if constexpr (sizeof(hn::TFromD<D>) == sizeof(double)) {
    return f(x, more...);
  } else {
#if HWY_TARGET == HWY_SCALAR
    using W = Lanes<hn::Rebind<double, D>, float>;
    return hn::DemoteTo(d, f(W(hn::PromoteTo(hn::Rebind<double, D>(), x.v)),
                             W(hn::PromoteTo(hn::Rebind<double, D>(), more.v))...)
                               .v);
#else
    const hn::Half<D> half;
    const hn::Rebind<double, decltype(half)> wide;
    using W = Lanes<hn::Rebind<double, hn::Half<D>>, float>;
    const auto low = [&](auto of)
                         ATTUNE_ATTR { return W(hn::PromoteTo(wide, hn::LowerHalf(half, of.v))); };
    const auto high = [&](auto of)
                          ATTUNE_ATTR { return W(hn::PromoteTo(wide, hn::UpperHalf(half, of.v))); };
    return hn::Combine(d, hn::DemoteTo(half, f(high(x), high(more)...).v),
                       hn::DemoteTo(half, f(low(x), low(more)...).v));
#endif
  }
}

/// Calls f with registers of the rows xs, and stores the results in y. The last register is padded:
/// a single element is broadcast, as a register loaded from bytes just stored would be waited for.
template <class T, class F, class... Xs>
HWY_INLINE void Loop(Index n, T* y, F f, const Xs*... xs) {
  const hn::ScalableTag<T> d;
  using L = Lanes<hn::ScalableTag<T>>;
  const auto lanes = static_cast<Index>(hn::Lanes(d));
  Index i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(L(hn::LoadU(d, xs + i))...).v, d, y + i);
  if (i >= n) return;
  HWY_ALIGN T last[hn::MaxLanes(d)];
  const auto padded = [&](const T* x) ATTUNE_ATTR {
    if (i + 1 == n) return L(hn::Set(d, x[i]));
    for (Index k = 0; k < lanes; ++k) last[k] = i + k < n ? x[i + k] : T(1);
    return L(hn::Load(d, last));
  };
  const auto result = f(padded(xs)...).v;
  if (i + 1 == n) return static_cast<void>(y[i] = hn::GetLane(result));
  hn::Store(result, d, last);
  std::copy_n(last, n - i, y + i);
}

/// dx = f(dy, kept), but 0 where dy is 0.
template <class T, class F>
HWY_INLINE void GradientLoop(Index n, T* dx, F f, const T* dy, const T* kept) {
  Loop(
      n, dx,
      [&](auto d, auto of) ATTUNE_ATTR {
        using L = decltype(d);
        return L(hn::IfThenZeroElse(hn::Eq(d.v, L(0).v), L(f(d, of)).v));
      },
      dy, kept);
}

template <class T>
void Apply(Function f, const T* from, T* y, Index n) {
  switch (f) {
#define ATTUNE_FUNCTION(name, kept, value, gradient) \
  case Function::name:                               \
    return Loop(                                     \
        n, y, [&](auto x) ATTUNE_ATTR { return decltype(x)(value); }, from);
#define ATTUNE_WIDE(expression) Wide([](auto x) ATTUNE_ATTR { return expression; }, x)
#include <attune/tensor/functions.inc>
  }
}

template <class T>
void ApplyGradient(Function f, const T* from, const T* of, T* dx, Index n) {
  switch (f) {
#define ATTUNE_FUNCTION(name, kept, value, gradient)                                            \
  case Function::name:                                                                          \
    return GradientLoop(                                                                        \
        n, dx, [&](auto dy, [[maybe_unused]] auto kept) ATTUNE_ATTR { return gradient; }, from, \
        of);
#define ATTUNE_WIDE(expression) Wide([](auto x) ATTUNE_ATTR { return expression; }, x)
#include <attune/tensor/functions.inc>
  }
}

/// Calls use(f) where f(x) computes x^b in registers.
template <class T, class Use>
HWY_INLINE void WithPower(double b, Use use) {
  constexpr T most = std::numeric_limits<T>::max();
  if (b == 0) return use([](auto x) ATTUNE_ATTR { return decltype(x)(1); });
  if (b == 1) return use([](auto x) ATTUNE_ATTR { return x; });
  if (b == 2) return use([](auto x) ATTUNE_ATTR { return x * x; });
  if (b == 3) return use([](auto x) ATTUNE_ATTR { return x * x * x; });
  if (b == 4) return use([](auto x) ATTUNE_ATTR { return x * x * (x * x); });
  if (b == -1) return use([](auto x) ATTUNE_ATTR { return 1 / x; });
  if (b == -2) return use([](auto x) ATTUNE_ATTR { return 1 / x * (1 / x); });
  // x + 0 is 0 at -0. The power of -∞ is not that of other negative numbers.
  if (b == 0.5) return use([](auto x) ATTUNE_ATTR { return select(x < -most, -x, sqrt(x + 0)); });
  if (b == -0.5)
    return use([](auto x) ATTUNE_ATTR { return select(x < -most, 0, 1 / sqrt(x + 0)); });
  use([&](auto x) ATTUNE_ATTR { return Wide([&](auto v) ATTUNE_ATTR { return power(v, b); }, x); });
}

template <class T>
void Power(const T* x, T b, T* y, Index n) {
  WithPower<T>(b, [&](auto f) ATTUNE_ATTR { Loop(n, y, f, x); });
}
template <class T>
void Power(const T* x, const T* b, T* y, Index n) {
  const auto f = [](auto v, auto p) ATTUNE_ATTR { return power(v, p); };
  Loop(
      n, y, [&](auto v, auto p) ATTUNE_ATTR { return Wide(f, v, p); }, x, b);
}
template <class T>
void PowerGradient(const T* dy, const T* x, T b, T* dx, Index n) {
  if (b == 0) return static_cast<void>(std::fill_n(dx, n, T(0)));  // at x = 0 too
  WithPower<T>(double{b} - 1, [&](auto f) ATTUNE_ATTR {
    GradientLoop(
        n, dx, [&](auto d, auto v) ATTUNE_ATTR { return d * (b * f(v)); }, dy, x);
  });
}

// clang-format off
#define ATTUNE_KERNELS(KERNEL, T, bits) \
  KERNEL(void, Apply, Apply##bits, apply, (Function f, const T* x, T* y, Index n), (f, x, y, n)) \
  KERNEL(void, ApplyGradient, ApplyGradient##bits, apply_gradient, (Function f, const T* dy, const T* kept, T* dx, Index n), (f, dy, kept, dx, n)) \
  KERNEL(void, Power, Power##bits, power, (const T* x, T b, T* y, Index n), (x, b, y, n)) \
  KERNEL(void, Power, Powers##bits, power, (const T* x, const T* b, T* y, Index n), (x, b, y, n)) \
  KERNEL(void, PowerGradient, PowerGradient##bits, power_gradient, (const T* dy, const T* x, T b, T* dx, Index n), (dy, x, b, dx, n))
// clang-format on

ATTUNE_KERNELS(ATTUNE_DEFINE, float, F32)
ATTUNE_KERNELS(ATTUNE_DEFINE, double, F64)

}  // namespace attune::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attune::simd {

ATTUNE_KERNELS(ATTUNE_CHOOSE, float, F32)
ATTUNE_KERNELS(ATTUNE_CHOOSE, double, F64)

// Payne and Hanek (1983): x 2/π = m 2^e · 0.w₀w₁w₂..., of which the bits that are multiples of 4 are
// skipped; 192 bits of 2/π leave at least 64 bits of r, however close x is to a multiple of π/2.
double reduce_large_angle(double x, double& turns) {
  static constexpr std::uint64_t bits[] = {0,  // before the point
                                           0xa2f9836e4e441529,
                                           0xfc2757d1f534ddc0,
                                           0xdb6295993c439041,
                                           0xfe5163abdebbc561,
                                           0xb7246e3a424dd2e0,
                                           0x06492eea09d1921c,
                                           0xfe1deb1cb129a73e,
                                           0xe88235f52ebb4484,
                                           0xe99c7026b45f7e41,
                                           0x3991d639835339f4,
                                           0x9c845f8bbdf9283b,
                                           0x1ff897ffde05980f,
                                           0xef2f118b5a0a6d1f,
                                           0x6d367ecf27cb09b7,
                                           0x4f463f669e5fea2d,
                                           0x7527bac7ebe5f17b,
                                           0x3d0739f78a5292ea,
                                           0x6bfb5fb11f8d5d08,
                                           0x56033046fc7b6bab};
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  __extension__ using Wide = unsigned __int128;
  int e;
  const auto m = static_cast<std::uint64_t>(std::ldexp(std::frexp(std::abs(x), &e), 53));
  const int first = 64 + e - 53 - 2;  // the first bit, of weight 2 or 1 in the product
  const auto word = [&](int i) {
    const std::uint64_t* at = bits + first / 64 + i;
    return static_cast<std::uint64_t>(((Wide{at[0]} << 64 | at[1]) << first % 64) >> 64);
  };
  const Wide low = Wide{m} * word(2), middle = Wide{m} * word(1) + (low >> 64);
  const std::uint64_t high = m * word(0) + static_cast<std::uint64_t>(middle >> 64);
  const Wide product =
      Wide{high} << 64 | static_cast<std::uint64_t>(middle);  // 2^126 is a turn of π/2
  const auto quarter = static_cast<unsigned>((product + (Wide{1} << 125)) >> 126);
  __extension__ using Signed = __int128;
  const double r = static_cast<double>(static_cast<Signed>(product - (Wide{quarter} << 126))) *
                   0x1p-126 * (std::numbers::pi / 2);
  turns = 0x1.8p52 + (x < 0 ? -static_cast<int>(quarter) : static_cast<int>(quarter));
  return x < 0 ? -r : r;
}

}  // namespace attune::simd
#endif  // HWY_ONCE
