// exp, tanh and the logistic function on one register of floats or doubles, for kernels that are
// compiled once per instruction set. Accuracy (see kernels.hpp): at most 2 ulp, with or without
// fused multiply-add.
//
// All three use the same reduction, e^x = 2^n (1 + t), and differ in how they combine the parts
// without losing the accuracy of t. The coefficients are minimax fits of the relative error (Remez
// exchange). Those of polynomials were rounded one by one; the others were fitted again each time.

// Visible once per target, see the comments in hwy/foreach_target.h.
#if defined(ATTUNE_TENSOR_SIMD_MATH_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTUNE_TENSOR_SIMD_MATH_INL_HPP_
#undef ATTUNE_TENSOR_SIMD_MATH_INL_HPP_
#else
#define ATTUNE_TENSOR_SIMD_MATH_INL_HPP_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attune::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

namespace math_detail {

template <typename T>
constexpr T Pick(float single, double twice) {
  return sizeof(T) == sizeof(float) ? single : static_cast<T>(twice);
}

// Of float and of double.
template <typename T>
struct Constants {
  static constexpr int kMantissaBits = sizeof(T) == sizeof(float) ? 23 : 52;
  // Adding this rounds to an integer and leaves integer + exponent bias in the lowest bits.
  static constexpr T kRound = Pick<T>(0x1.8p23f + 127, 0x1.8p52 + 1023);
  // ln(2) in two parts. The first has so few bits that n * kLn2Hi is exact for every n that occurs.
  static constexpr T kLn2Hi = Pick<T>(0x1.62e4p-1f, 0x1.62e42fefa38p-1);
  static constexpr T kLn2Lo = Pick<T>(0x1.7f7d1cp-20f, 0x1.ef35793c7673p-45);
  static constexpr T kLn2 = Pick<T>(0x1.62e43p-1f, 0x1.62e42fefa39efp-1);
  static constexpr T kLog2E = Pick<T>(0x1.715476p+0f, 0x1.71547652b82fep+0);
  // Outside of these bounds, exp is inf or 0.
  static constexpr T kExpMax = Pick<T>(89, 710), kExpMin = Pick<T>(-104, -746);
  static constexpr T kMinExponent = Pick<T>(-126, -1022);
  // From these values on, sigmoid and tanh are 1.
  static constexpr T kSigmoidMax = Pick<T>(18, 38), kTanhMax = Pick<T>(10, 20);
  // TanhSmall is accurate up to this value.
  static constexpr T kTanhSmall = 0.625;
};

// c0 + c1 z + c2 z^2 + ...
template <class D, class V = hn::Vec<D>, typename T = hn::TFromD<D>>
HWY_INLINE V Horner(D d, V /*z*/, T c0) {
  return hn::Set(d, c0);
}
template <class D, class V = hn::Vec<D>, typename T = hn::TFromD<D>, typename... Ts>
HWY_INLINE V Horner(D d, V z, T c0, T c1, Ts... cs) {
  return hn::MulAdd(Horner(d, z, c1, cs...), z, hn::Set(d, c0));
}

// e^r - 1 for |r| <= ln(2) / 2. Pairs of terms are evaluated in parallel, for less latency.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpMinus1(D d, V r) {
  const V r2 = hn::Mul(r, r);
  V tail;  // (e^r - 1 - r) / r^2
  if constexpr (sizeof(hn::TFromD<D>) == sizeof(float)) {
    tail = hn::MulAdd(hn::Set(d, 0x1.6ac74ep-10f), r2, Horner(d, r, 0x1.555858p-5f, 0x1.123dep-7f));
    tail = hn::MulAdd(tail, r2, Horner(d, r, 0x1.fffffcp-2f, 0x1.55548cp-3f));
  } else {
    const V r4 = hn::Mul(r2, r2);
    const V c01 = Horner(d, r, 0x1.000000000000ap-1, 0x1.5555555555551p-3);
    const V c23 = Horner(d, r, 0x1.555555555124cp-5, 0x1.11111111403d3p-7);
    const V c45 = Horner(d, r, 0x1.6c16c1814a74fp-10, 0x1.a01a00155d707p-13);
    const V c67 = Horner(d, r, 0x1.a019a241f4f58p-16, 0x1.71e246b434a67p-19);
    const V c89 = Horner(d, r, 0x1.28a60850afd02p-22, 0x1.a7f0ea992a836p-26);
    tail = hn::MulAdd(c89, r4, hn::MulAdd(c67, r2, c45));
    tail = hn::MulAdd(tail, r4, hn::MulAdd(c23, r2, c01));
  }
  return hn::MulAdd(tail, r2, r);
}

// tanh(x) = x + x z P(z) / Q(z) for |x| <= kTanhSmall, z = x^2.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void TanhSmall(D d, V z, V& p, V& q) {
  if constexpr (sizeof(hn::TFromD<D>) == sizeof(float)) {
    p = Horner(d, z, -0x1.a5cd7cp-1f, -0x1.f361fap-9f);
    q = hn::Add(z, hn::Set(d, 0x1.3c5a2cp+1f));
  } else {
    p = Horner(d, z, -0x1.93ac0305217d5p+10, -0x1.8d26a0e21d03dp+6, -0x1.edc5baafd3449p-1);
    q = hn::Add(z, hn::Set(d, 0x1.c33f28a5321c3p+6));
    q = hn::MulAdd(q, z, hn::Set(d, 0x1.176fa0e513933p+11));
    q = hn::MulAdd(q, z, hn::Set(d, 0x1.2ec10243d91e1p+12));
  }
}

// min(x, bound) with kAbove, else max(x, bound); NaN if x is NaN. Highway does not define Min and
// Max for NaN; the x86 instructions return their second operand.
template <bool kAbove, class D, class V = hn::Vec<D>>
HWY_INLINE V Cap(D d, hn::TFromD<D> bound, V x) {
  const V limit = hn::Set(d, bound);
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  return kAbove ? hn::Min(limit, x) : hn::Max(limit, x);
#else
  return hn::IfThenElse(kAbove ? hn::Gt(x, limit) : hn::Lt(x, limit), limit, x);
#endif
}

// 2^n from n + kRound, for n in the range of normal exponents.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V PowerOfTwo(D d, V rounded) {
  const hn::RebindToUnsigned<D> bits;
  return hn::BitCast(
      d, hn::ShiftLeft<Constants<hn::TFromD<D>>::kMantissaBits>(hn::BitCast(bits, rounded)));
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
#define ATTUNE_SIMD_HAVE_SCALEF 1
// Highway does not have this instruction, which handles subnormal results and overflow.
HWY_INLINE __m128 ScaleF(__m128 v, __m128 n) { return _mm_scalef_ps(v, n); }
HWY_INLINE __m512 ScaleF(__m512 v, __m512 n) { return _mm512_scalef_ps(v, n); }
HWY_INLINE __m128d ScaleF(__m128d v, __m128d n) { return _mm_scalef_pd(v, n); }
HWY_INLINE __m512d ScaleF(__m512d v, __m512d n) { return _mm512_scalef_pd(v, n); }
#else
#define ATTUNE_SIMD_HAVE_SCALEF 0
#endif

// v * 2^n for 0.5 < v < 2 and any integer n that Exp computes, rounded once.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Scale(D d, V v, V n) {
#if ATTUNE_SIMD_HAVE_SCALEF
  (void)d;
  return V{ScaleF(v.raw, n.raw)};
#else
  // 2^n itself may be out of range; 2^(n/2) is not, and the first product is exact.
  const V round = hn::Set(d, Constants<hn::TFromD<D>>::kRound);
  const V half = hn::MulAdd(n, hn::Set(d, hn::TFromD<D>{0.5}), round);
  const V rest = hn::Sub(n, hn::Sub(half, round));
  return hn::Mul(hn::Mul(v, PowerOfTwo(d, half)), PowerOfTwo(d, hn::Add(rest, round)));
#endif
}

// e^x = 2^n (1 + t), n integral, |t| < 0.42, for bounded x. Returns t.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ReduceExp(D d, V x, V& n) {
  using C = Constants<hn::TFromD<D>>;
  const V round = hn::Set(d, C::kRound);
  n = hn::Sub(hn::MulAdd(x, hn::Set(d, C::kLog2E), round), round);
  const V r = hn::NegMulAdd(n, hn::Set(d, C::kLn2Hi), x);
  return ExpMinus1(d, hn::NegMulAdd(n, hn::Set(d, C::kLn2Lo), r));
}

}  // namespace math_detail

/// e^x
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  using C = math_detail::Constants<hn::TFromD<D>>;
  x = math_detail::Cap<false>(d, C::kExpMin, math_detail::Cap<true>(d, C::kExpMax, x));
  V n;
  const V t = math_detail::ReduceExp(d, x, n);
  return math_detail::Scale(d, hn::Add(hn::Set(d, hn::TFromD<D>{1}), t), n);
}

/// 1 / (1 + e^-x)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  using T = hn::TFromD<D>;
  using C = math_detail::Constants<T>;
  const V one = hn::Set(d, T{1});
  x = math_detail::Cap<false>(d, C::kExpMin, math_detail::Cap<true>(d, C::kSigmoidMax, x));
  V n;
  const V t = math_detail::ReduceExp(d, x, n);

  // With e = e^x = 2^n (1 + t), the result is e / (1 + e), computed as
  //   n >= -1:  2^n ((1 + t) / (1 + e))
  //   n <= -2:  2^n (1 + (t - e) / (1 + e)).
  // In the second form the quotient is at most 0.42 in magnitude, so its rounding errors weigh
  // less. The scale in e is at least the smallest normal number: a smaller e has no effect.
#if ATTUNE_SIMD_HAVE_SCALEF
  const V scale = math_detail::Scale(d, one, n);
#else
  const V round = hn::Set(d, C::kRound);
  const V normal_n = hn::Max(n, hn::Set(d, C::kMinExponent));
  const V scale = math_detail::PowerOfTwo(d, hn::Add(normal_n, round));
#endif
  const V p = hn::Add(one, t);
  const auto large = hn::Gt(n, hn::Set(d, T{-1.5}));
  const V numerator = hn::IfThenElse(large, p, hn::NegMulAdd(scale, p, t));
  const V quotient = hn::Div(numerator, hn::MulAdd(scale, p, one));
  const V sum = hn::Add(hn::IfThenZeroElse(large, one), quotient);
#if ATTUNE_SIMD_HAVE_SCALEF
  return math_detail::Scale(d, sum, n);
#else
  const V rest = math_detail::PowerOfTwo(d, hn::Add(hn::Sub(n, normal_n), round));
  // In this order, only the second product can be subnormal and rounded.
  return hn::Mul(hn::Mul(sum, rest), scale);
#endif
}

/// tanh(x)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  using T = hn::TFromD<D>;
  using C = math_detail::Constants<T>;
  const V one = hn::Set(d, T{1});
  const V a = hn::Abs(x);

  // For large |x|: 1 - 2 / (e^(2a) + 1), with e^(2a) = 2^n (1 + t). The larger n, the less an error
  // of t matters, so ln(2) need not be more precise.
  const V capped = math_detail::Cap<true>(d, C::kTanhMax, a);
  const V round = hn::Set(d, C::kRound);
  const V rounded = hn::MulAdd(capped, hn::Set(d, 2 * C::kLog2E), round);
  const V n = hn::Sub(rounded, round);
  const V r = hn::NegMulAdd(n, hn::Set(d, C::kLn2), hn::Add(capped, capped));
  const V t = math_detail::ExpMinus1(d, r);
  const V scale = math_detail::PowerOfTwo(d, rounded);
  const V denominator = hn::MulAdd(scale, t, hn::Add(scale, one));

  // For small |x|, where that loses digits: a + a z P(z) / Q(z). Both forms share one division.
  const auto near_zero = hn::Lt(a, hn::Set(d, C::kTanhSmall));
  const V z = hn::Mul(a, a);
  V p, q;
  math_detail::TanhSmall(d, z, p, q);
  p = hn::Mul(hn::Mul(a, z), p);

  const V quotient = hn::Div(hn::IfThenElse(near_zero, p, hn::Set(d, T{-2})),
                             hn::IfThenElse(near_zero, q, denominator));
  return hn::CopySignToAbs(hn::Add(hn::IfThenElse(near_zero, a, one), quotient), x);
}

}  // namespace attune::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#undef ATTUNE_SIMD_HAVE_SCALEF

#endif  // per-target include guard
