// exp, log, sin, erf and other functions on one register of floats or doubles, for kernels that are
// compiled once per instruction set. Accuracy (see functions.hpp): at most 2 ulp, with or without
// fused multiply-add.
//
// exp, expm1, tanh and the logistic function use the same reduction, e^x = 2^n (1 + t), and differ
// in how they combine the parts without losing the accuracy of t. Coefficients are minimax fits of
// the relative error (Remez exchange). Those of f32 were rounded one by one; the others were fitted
// again each time.

// Visible once per target, see the comments in hwy/foreach_target.h.
#if defined(ATTUNE_TENSOR_SIMD_MATH_INL_HPP_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTUNE_TENSOR_SIMD_MATH_INL_HPP_
#undef ATTUNE_TENSOR_SIMD_MATH_INL_HPP_
#else
#define ATTUNE_TENSOR_SIMD_MATH_INL_HPP_
#endif

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <hwy/highway.h>

namespace attune::simd {
/// x = q π/2 + r, |r| <= π/4, for |x| > 2^20. Returns r, and 1.5 · 2^52 + q mod 4 in `turns`; NaN for
/// infinities.
double reduce_large_angle(double x, double& turns);
}  // namespace attune::simd

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
  // Outside of these bounds, exp is inf or 0, also if multiplied by 1000.
  static constexpr T kExpMax = Pick<T>(89, 710), kExpMin = Pick<T>(-120, -760);
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

// x = n ln(2) + r, n integral, |r| <= ln(2) / 2, for bounded x. Returns r.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ReduceLn2(D d, V x, V& n) {
  using C = Constants<hn::TFromD<D>>;
  const V round = hn::Set(d, C::kRound);
  n = hn::Sub(hn::MulAdd(x, hn::Set(d, C::kLog2E), round), round);
  const V r = hn::NegMulAdd(n, hn::Set(d, C::kLn2Hi), x);
  return hn::NegMulAdd(n, hn::Set(d, C::kLn2Lo), r);
}

// e^x = 2^n (1 + t), n integral, |t| < 0.42, for bounded x. Returns t.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ReduceExp(D d, V x, V& n) {
  return ExpMinus1(d, ReduceLn2(d, x, n));
}

// x within the bounds outside of which exp is inf or 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V CapExp(D d, V x) {
  using C = Constants<hn::TFromD<D>>;
  return Cap<false>(d, C::kExpMin, Cap<true>(d, C::kExpMax, x));
}

// e^(x + low) for |low| much smaller than |x|.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpOfSum(D d, V x, V low) {
  V n;
  const V r = ReduceLn2(d, CapExp(d, x), n);
  return Scale(d, hn::Add(hn::Set(d, hn::TFromD<D>{1}), ExpMinus1(d, hn::Add(r, low))), n);
}

// The first half of x's bits: their square is exact.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Leading(D d, V x) {
  const hn::RebindToUnsigned<D> bits;
  using U = hn::TFromD<decltype(bits)>;
  constexpr U kDropped = sizeof(U) == 4 ? 0xFFF : 0x7FFFFFF;
  return hn::BitCast(d, hn::And(hn::BitCast(bits, x), hn::Set(bits, ~kDropped)));
}

// The rounding error of p = a b.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ProductError([[maybe_unused]] D d, V a, V b, V p) {
#if HWY_NATIVE_FMA
  return hn::MulSub(a, b, p);
#else
  const V a1 = Leading(d, a), b1 = Leading(d, b), a2 = hn::Sub(a, a1), b2 = hn::Sub(b, b1);
  const V first = hn::Add(hn::Sub(hn::Mul(a1, b1), p), hn::Mul(a1, b2));
  return hn::Add(hn::Add(first, hn::Mul(a2, b1)), hn::Mul(a2, b2));
#endif
}

// x = 2^e (1 + f), e integral, 1/sqrt(2) <= 1 + f < sqrt(2), for finite x > 0. Returns f.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ReduceLog(D d, V x, V& e) {
  using T = hn::TFromD<D>;
  constexpr int kShift = Constants<T>::kMantissaBits;
  const hn::RebindToUnsigned<D> bits;
  using U = hn::TFromD<decltype(bits)>;
  constexpr U kOne = std::bit_cast<U>(T{1}),
              kRootHalf = static_cast<U>(sizeof(T) == 4 ? 0x3F3504F3 : 0x3FE6A09E667F3BCD);
  const auto small = hn::Lt(x, hn::Set(d, std::numeric_limits<T>::min()));
  x = hn::IfThenElse(small, hn::Mul(x, hn::Set(d, T(U{4} << kShift))), x);
  const auto moved = hn::Add(hn::BitCast(bits, x), hn::Set(bits, kOne - kRootHalf));
  // An integer in the lowest bits of 2^kShift.
  const V integer = hn::Set(d, T(U{1} << kShift));
  e = hn::BitCast(d, hn::Or(hn::ShiftRight<kShift>(moved), hn::BitCast(bits, integer)));
  const T bias = T(U{1} << kShift) + Pick<T>(127, 1023);
  e = hn::Sub(e, hn::IfThenElse(small, hn::Set(d, bias + (kShift + 2)), hn::Set(d, bias)));
  const auto mantissa = hn::And(moved, hn::Set(bits, (U{1} << kShift) - 1));
  return hn::Sub(hn::BitCast(d, hn::Add(mantissa, hn::Set(bits, kRootHalf))), hn::Set(d, T{1}));
}

// ln(x) + low for finite x > 0, where |low| is at most the spacing of numbers at 1:
//     ln(1 + f) = f - f^2/2 + s (f^2/2 + z R(z)),   s = f / (2 + f),   z = s^2
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LogOfFinite(D d, V x, V low) {
  using T = hn::TFromD<D>;
  using C = Constants<T>;
  V e;
  const V f = ReduceLog(d, x, e);
  const V s = hn::Div(f, hn::Add(f, hn::Set(d, T{2})));
  const V z = hn::Mul(s, s), half_square = hn::Mul(hn::Mul(f, f), hn::Set(d, T(0.5)));
  V r;
  if constexpr (sizeof(T) == sizeof(float)) {
    r = Horner(d, z, 0x1.55557ap-1f, 0x1.995ed6p-2f, 0x1.31e0aap-2f);
  } else {
    r = Horner(d, z, 0x1.5555555555592p-1, 0x1.999999997fdb1p-2, 0x1.24924941f1488p-2,
               0x1.c71c52095a9c5p-3, 0x1.74663ee51692ap-3, 0x1.39a1bb576b0c8p-3,
               0x1.2f055b028dbd3p-3);
  }
  low = hn::MulAdd(e, hn::Set(d, C::kLn2Lo), low);
  low = hn::MulAdd(s, hn::MulAdd(z, r, half_square), low);
  return hn::MulAdd(e, hn::Set(d, C::kLn2Hi), hn::Sub(f, hn::Sub(half_square, low)));
}

// y = ln(x) where it is finite; else the limit, or NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LimitsOfLog(D d, V x, V y) {
  using Limits = std::numeric_limits<hn::TFromD<D>>;
  const V infinity = hn::Set(d, Limits::infinity()), zero = hn::Zero(d);
  const V at_zero =
      hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), hn::Set(d, Limits::quiet_NaN()));
  return hn::IfThenElse(hn::Gt(x, zero), hn::IfThenElse(hn::Lt(x, infinity), y, x), at_zero);
}

// ln(x) for finite x > 0 as the sum of two numbers, the first of 26 bits: the bits that x^b needs.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LogInTwoParts(D d, V x, V& low) {
  using C = Constants<double>;
  V e;
  const V f = ReduceLog(d, x, e), two = hn::Set(d, 2.0);
  // s = f / (2 + f) = s1 + s2;  2 + f = c1 + c2
  const V c = hn::Add(f, two), c1 = Leading(d, c), c2 = hn::Sub(f, hn::Sub(c1, two));
  const V inverse = hn::Div(hn::Set(d, 1.0), c);
  const V s = hn::Mul(f, inverse), s1 = Leading(d, s), z = hn::Mul(s, s);
  const V s2 = hn::Mul(hn::NegMulAdd(s1, c2, hn::NegMulAdd(s1, c1, f)), inverse);
  // ln(1 + f) = 2s + 2/3 s^3 + s^5 R(z);  s^3 = cube + cube_low, and 2/3 s^3 = third + third_low
  const V cube = hn::Mul(z, s), rest = hn::Sub(s2, hn::Sub(s, s1));
  V cube_low = hn::MulAdd(ProductError(d, s, s, z), s, ProductError(d, z, s, cube));
  cube_low = hn::MulAdd(hn::Mul(z, rest), hn::Set(d, 3.0), cube_low);
  const V two_thirds = hn::Set(d, 0x1.5555555555555p-1), third = hn::Mul(two_thirds, cube);
  V third_low =
      hn::MulAdd(cube, hn::Set(d, 0x1.5555555555555p-55), ProductError(d, two_thirds, cube, third));
  third_low = hn::MulAdd(two_thirds, cube_low, third_low);
  const V r = Horner(d, z, 0x1.999999999998ep-2, 0x1.24924924939abp-2, 0x1.c71c71c4bff72p-3,
                     0x1.745d1877b92c3p-3, 0x1.3b1353df7aa58p-3, 0x1.1122929a64f19p-3,
                     0x1.ddf2717add1a8p-4, 0x1.ecebe58b35fb3p-4);
  const V e1 = hn::Mul(e, hn::Set(d, C::kLn2Hi)), twice = hn::Add(s1, s1);
  const V most = hn::Add(e1, twice), sum = hn::Add(most, third), high = Leading(d, sum);
  const V lost = hn::Add(hn::Sub(twice, hn::Sub(most, e1)), hn::Sub(third, hn::Sub(sum, most)));
  low = hn::MulAdd(e, hn::Set(d, C::kLn2Lo), hn::Add(s2, s2));
  low = hn::MulAdd(hn::Mul(z, cube), r, hn::Add(third_low, low));
  low = hn::Add(hn::Sub(sum, high), hn::Add(lost, low));
  return high;
}

// x = q pi/2 + r, |r| <= pi/4 up to rounding. Returns r, and q in the lowest bits of `turns`.
template <class P, class D, class V = hn::Vec<D>>
HWY_INLINE V ReduceTurns(D d, V x, V& turns) {
  const V round = hn::Set(d, 0x1.8p52);
  turns = hn::MulAdd(x, hn::Set(d, 0x1.45f306dc9c883p-1), round);
  const V q = hn::Sub(turns, round);
  // q times the first two parts is exact.
  V r = hn::NegMulAdd(q, hn::Set(d, 0x1.921fb544p+0), x);
  if constexpr (sizeof(P) == sizeof(float)) {
    r = hn::NegMulAdd(q, hn::Set(d, 0x1.0b4611a626331p-34), r);
  } else {
    r = hn::NegMulAdd(q, hn::Set(d, 0x1.0b4611a6p-34), r);
    r = hn::NegMulAdd(q, hn::Set(d, 0x1.3198a2e037073p-69), r);
  }
  const auto large = hn::Gt(hn::Abs(x), hn::Set(d, 0x1p20));
  if (HWY_LIKELY(hn::AllFalse(d, large))) return r;
  HWY_ALIGN double xs[hn::MaxLanes(d)], rs[hn::MaxLanes(d)], qs[hn::MaxLanes(d)];
  hn::Store(x, d, xs);
  hn::Store(r, d, rs);
  hn::Store(turns, d, qs);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i)
    if (std::abs(xs[i]) > 0x1p20) rs[i] = reduce_large_angle(xs[i], qs[i]);
  turns = hn::Load(d, qs);
  return hn::Load(d, rs);
}

// sin(r + q pi/2) for |r| <= pi/4, q in the lowest bits of `turns`, accurate for results of type P.
template <class P, class D, class V = hn::Vec<D>, class Bits>
HWY_INLINE V SinOfTurn(D d, V r, Bits turns) {
  const V z = hn::Mul(r, r), one = hn::Set(d, 1.0);
  V s, c;
  if constexpr (sizeof(P) == sizeof(float)) {
    s = hn::Mul(r, Horner(d, z, 1.0, -0x1.5555554cb258ep-3, 0x1.11110890ad6cfp-7,
                          -0x1.a00f990b5853cp-13, 0x1.6cd73ac7a64f3p-19));
    c = Horner(d, z, 1.0, -0.5, 0x1.55554aac492p-5, -0x1.6c0c86c38ca7ep-10, 0x1.9a00dd4e0c90cp-16);
  } else {
    s = Horner(d, z, -0x1.5555555555549p-3, 0x1.111111110f86p-7, -0x1.a01a019c0e31fp-13,
               0x1.71de3574a3ed1p-19, -0x1.ae5e63bc682cep-26, 0x1.5d9241fa28c98p-33);
    s = hn::CopySign(hn::MulAdd(hn::Mul(r, z), s, r), r);
    c = Horner(d, z, 0x1.555555555554cp-5, -0x1.6c16c16c15163p-10, 0x1.a01a019caefcp-16,
               -0x1.27e4f807db4ffp-22, 0x1.1ee9ea6fb5be7p-29, -0x1.8fadd1ba16ec2p-37);
    c = hn::MulAdd(hn::Mul(z, z), c, hn::MulAdd(z, hn::Set(d, -0.5), one));
  }
  const V odd = hn::CopySign(one, hn::BitCast(d, hn::ShiftLeft<63>(turns)));
  const V sign = hn::And(hn::BitCast(d, hn::ShiftLeft<62>(turns)), hn::Set(d, -0.0));
  return hn::Xor(hn::IfThenElse(hn::Lt(odd, hn::Zero(d)), c, s), sign);
}

}  // namespace math_detail

/// e^x
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  V n;
  const V t = math_detail::ReduceExp(d, math_detail::CapExp(d, x), n);
  return math_detail::Scale(d, hn::Add(hn::Set(d, hn::TFromD<D>{1}), t), n);
}

/// e^x - 1
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Expm1(D d, V x) {
  using T = hn::TFromD<D>;
  using C = math_detail::Constants<T>;
  const V one = hn::Set(d, T{1}), most = hn::Set(d, C::kSigmoidMax + C::kSigmoidMax);
  V n;
  const V t = math_detail::ReduceExp(d, math_detail::CapExp(d, x), n);
  // 2^n t + (2^n - 1); the 1 has no effect where n is large.
  const V round = hn::Set(d, C::kRound);
  const V bounded = hn::Max(hn::Min(n, most), hn::Neg(most));
  const V scale = math_detail::PowerOfTwo(d, hn::Add(bounded, round));
  const V y = hn::MulAdd(scale, t, hn::Sub(scale, one));
  const V large = math_detail::Scale(d, hn::Add(one, t), n);
  return hn::CopySign(hn::IfThenElse(hn::Gt(n, most), large, y), x);
}

/// e^(-x^2)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Gauss(D d, V x) {
  using T = hn::TFromD<D>;
  const V a = math_detail::Cap<true>(d, math_detail::Pick<T>(11, 28), hn::Abs(x));
  const V h = math_detail::Leading(d, a), square = hn::Mul(h, h);  // exact
  const V rest = hn::Mul(hn::Sub(a, h), hn::Add(a, h)), sum = hn::Add(square, rest);
  return math_detail::ExpOfSum(d, hn::Neg(sum), hn::Sub(hn::Sub(sum, square), rest));
}

/// ln(x)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log(D d, V x) {
  return math_detail::LimitsOfLog(d, x, math_detail::LogOfFinite(d, x, hn::Zero(d)));
}

/// ln(1 + x)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log1p(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T{1}), u = hn::Add(one, x);
  const V lost =
      hn::IfThenElse(hn::Lt(x, one), hn::Sub(x, hn::Sub(u, one)), hn::Sub(one, hn::Sub(u, x)));
  const V y = math_detail::LimitsOfLog(d, u, math_detail::LogOfFinite(d, u, hn::Div(lost, u)));
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y);
}

/// sin(x + quarters pi/2) for doubles, accurate for results of type P.
template <class P, class D, class V = hn::Vec<D>>
HWY_INLINE V Sin(D d, V x, std::uint64_t quarters = 0) {
  const hn::RebindToUnsigned<D> bits;
  V turns;
  const V r = math_detail::ReduceTurns<P>(d, x, turns);
  return math_detail::SinOfTurn<P>(d, r,
                                   hn::Add(hn::BitCast(bits, turns), hn::Set(bits, quarters)));
}

/// arctan(x)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Atan(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T{1}), a = hn::Abs(x);
  const auto above = hn::Gt(a, one);
  const V t = hn::Div(hn::IfThenElse(above, one, a), hn::IfThenElse(above, a, one));
  const V z = hn::Mul(t, t);
  V p;
  if constexpr (sizeof(T) == sizeof(float)) {
    p = math_detail::Horner(d, z, -0x1.55553ep-2f, 0x1.9991e4p-3f, -0x1.242084p-3f, 0x1.c08c1ap-4f,
                            -0x1.580814p-4f, 0x1.da24cap-5f, -0x1.fd6fbap-6f, 0x1.6410dcp-7f,
                            -0x1.d32d8ap-10f);
  } else {
    p = math_detail::Horner(d, z, -0x1.555555555544cp-2, 0x1.99999999840d9p-3,
                            -0x1.2492491fa1892p-3, 0x1.c71c709e026bdp-4, -0x1.745d022fc3ff6p-4,
                            0x1.3b12b2dd473efp-4, -0x1.11089cb64b74dp-4, 0x1.e178144cd663p-5,
                            -0x1.ad32afa20a18bp-5, 0x1.7ee3d83ab81bp-5, -0x1.4f44e0f41e4c9p-5,
                            0x1.17156e6fabc9cp-5, -0x1.a72590c817e9fp-6, 0x1.162b295e11a38p-6,
                            -0x1.2cf5d44b9f22ep-7, 0x1.f9695f668efedp-9, -0x1.3127c172bb515p-10,
                            0x1.d3b69c54767b5p-13, -0x1.53e21bae1a019p-16);
  }
  p = hn::MulAdd(hn::Mul(t, z), p, t);
  const V high = hn::Set(d, math_detail::Pick<T>(0x1.921fb6p+0f, 0x1.921fb54442d18p+0));
  const V low = hn::Set(d, math_detail::Pick<T>(-0x1.777a5cp-25f, 0x1.1a62633145c07p-54));
  return hn::CopySign(hn::IfThenElse(above, hn::Sub(high, hn::Sub(p, low)), p), x);
}

/// erf(x) = 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x:
///     x + x P(x^2) for |x| < 1,   1 - e^(-Q(|x| - 1)) beyond
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Erf(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T{1});
  const V a = math_detail::Cap<true>(d, math_detail::Pick<T>(3.95f, 6), hn::Abs(x));
  const V z = hn::Mul(a, a), u = hn::Sub(a, one);
  V p, q;
  if constexpr (sizeof(T) == sizeof(float)) {
    p = math_detail::Horner(d, z, 0x1.06eba8p-3f, -0x1.81273ep-2f, 0x1.ce2ce6p-4f, -0x1.b7f71ap-6f,
                            0x1.53f224p-8f, -0x1.a3515ap-11f, 0x1.4771d6p-14f);
    q = math_detail::Horner(d, u, 0x1.d97fcp+0f, 0x1.51c98ep+1f, 0x1.afb2dap-1f, 0x1.527216p-5f,
                            -0x1.391adap-7f, 0x1.9b47acp-10f, -0x1.ea802ap-14f);
  } else {
    p = math_detail::Horner(d, z, 0x1.06eba8214db68p-3, -0x1.812746b0379bdp-2, 0x1.ce2f21a040d16p-4,
                            -0x1.b82ce311fa94ep-6, 0x1.565bccf92b544p-8, -0x1.c02db03ddce41p-11,
                            0x1.f9a2baa98df0cp-14, -0x1.f4ca4d78001f3p-17, 0x1.b97fd4308da4p-20,
                            -0x1.5c072902c0b3fp-23, 0x1.d71b1d421513bp-27, -0x1.abae728c8f2ccp-31);
    q = math_detail::Horner(d, u, 0x1.d97fbf27aa2a1p+0, 0x1.51c9b0006c21ep+1, 0x1.afabc11a2aceep-1,
                            0x1.5477f099ef766p-5, -0x1.48c9d3889703p-7, 0x1.033f5ae3dc909p-9,
                            -0x1.f1b07c56ac93dp-13, -0x1.b929d046a5864p-16, 0x1.c84b48f6c238bp-16,
                            -0x1.4470f0be027dep-17, 0x1.1dd990c35b73bp-19, -0x1.b481212207b56p-23,
                            -0x1.f92e9a25b1df5p-25, 0x1.21618eec05df2p-25, -0x1.275b8b8fc0878p-27,
                            0x1.6e401ebe7734cp-30, -0x1.0964e2709adcfp-33, 0x1.5abe3ef46cd98p-38);
  }
  const V y = hn::IfThenElse(hn::Lt(a, one), hn::MulAdd(a, p, a), hn::Sub(one, Exp(d, hn::Neg(q))));
  return hn::CopySign(y, x);
}

/// x^b as std::pow defines it, also for infinities and NaN, in doubles, accurate for results of
/// type P.
template <class P, class D, class V = hn::Vec<D>>
HWY_INLINE V Pow(D d, V x, V b) {
  using Limits = std::numeric_limits<double>;
  const V one = hn::Set(d, 1.0), zero = hn::Zero(d), a = hn::Abs(x);
  const V infinity = hn::Set(d, Limits::infinity());
  const V p = math_detail::Cap<false>(d, -0x1p100, math_detail::Cap<true>(d, 0x1p100, b));
  V y;
  if constexpr (sizeof(P) == sizeof(float)) {
    y = Exp(d, hn::Mul(p, math_detail::LogOfFinite(d, a, zero)));
  } else {
    V low;
    V high = math_detail::LogInTwoParts(d, a, low);
    const V p1 = math_detail::Leading(d, p);
    low = hn::MulAdd(p, low, hn::Mul(hn::Sub(p, p1), high));
    high = hn::Mul(p1, high);  // exact
    const V sum = hn::Add(high, low);
    low = hn::Sub(low, hn::Sub(sum, high));
    const auto bounded = hn::Lt(hn::Abs(sum), hn::Set(d, 2000.0));
    y = math_detail::ExpOfSum(d, sum, hn::IfThenElseZero(bounded, low));
  }
  // At 0 and infinity, x^b is one of both.
  const auto extreme = hn::Or(hn::Eq(a, zero), hn::Eq(a, infinity));
  y = hn::IfThenElse(
      extreme, hn::IfThenElse(hn::Gt(p, zero), a, hn::IfThenElseZero(hn::Eq(a, zero), infinity)),
      y);
  // Below 0: the sign of an odd power; NaN unless b is an integer.
  const V half = hn::Mul(p, hn::Set(d, 0.5));
  const auto integer = hn::Eq(hn::Floor(p), p);
  const V odd = hn::IfThenElseZero(integer, hn::Sub(half, hn::Floor(half)));  // 0.5 or 0
  const V sign = hn::IfThenElseZero(hn::Gt(odd, zero), hn::And(x, hn::Set(d, -0.0)));
  const auto defined = hn::Or(integer, hn::Or(extreme, hn::Ge(x, zero)));
  y = hn::IfThenElse(defined, hn::Or(y, sign), hn::Set(d, Limits::quiet_NaN()));
  y = hn::IfThenElse(hn::And(hn::Eq(x, x), hn::Eq(b, b)), y, hn::Add(x, b));
  return hn::IfThenElse(hn::Or(hn::Eq(b, zero), hn::Eq(x, one)), one, y);
}

namespace math_detail {

// factor e^x / (1 + e^x), also if it underflows without a factor; e^x = 2^n (1 + t), x <= kSigmoidMax.
template <class D, class V = hn::Vec<D>, class... Factor>
HWY_INLINE V SigmoidOf(D d, V n, V t, Factor... factor) {
  using T = hn::TFromD<D>;
  using C = Constants<T>;
  const V one = hn::Set(d, T{1});
  // With e = e^x = 2^n (1 + t), the result is e / (1 + e), computed as
  //   n >= -1:  2^n ((1 + t) / (1 + e))
  //   n <= -2:  2^n (1 + (t - e) / (1 + e)).
  // In the second form the quotient is at most 0.42 in magnitude, so its rounding errors weigh
  // less. The scale in e is at least the smallest normal number: a smaller e has no effect.
#if ATTUNE_SIMD_HAVE_SCALEF
  const V scale = Scale(d, one, n);
#else
  const V round = hn::Set(d, C::kRound);
  const V normal_n = hn::Max(n, hn::Set(d, C::kMinExponent));
  const V scale = PowerOfTwo(d, hn::Add(normal_n, round));
#endif
  const V p = hn::Add(one, t);
  const auto large = hn::Gt(n, hn::Set(d, T{-1.5}));
  const V numerator = hn::IfThenElse(large, p, hn::NegMulAdd(scale, p, t));
  const V quotient = hn::Div(numerator, hn::MulAdd(scale, p, one));
  V sum = hn::Add(hn::IfThenZeroElse(large, one), quotient);
  ((sum = hn::Mul(sum, factor)), ...);
#if ATTUNE_SIMD_HAVE_SCALEF
  return Scale(d, sum, n);
#else
  const V rest = PowerOfTwo(d, hn::Add(hn::Sub(n, normal_n), round));
  // In this order, only the second product can be subnormal and rounded.
  return hn::Mul(hn::Mul(sum, rest), scale);
#endif
}

// x within the bounds outside of which sigmoid is 0 or 1, also if multiplied by 1000.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V CapSigmoid(D d, V x) {
  using C = Constants<hn::TFromD<D>>;
  return Cap<false>(d, C::kExpMin, Cap<true>(d, C::kSigmoidMax, x));
}

// The derivative of x / (1 + e^-g(x)), where g is odd: 1 - f for x > 0, else
//     f = e (1 + c + e) / (1 + e)^2,   c = x g'(x),   e = e^g(x) = 2^n (1 + t),
// for the n, t and c of -|x|; `low` is what 1 + c lacks. Near the root of 1 + c + e, where its digits cancel, it is `near` instead.
template <class D, class V = hn::Vec<D>, class M = hn::Mask<D>>
HWY_INLINE V GatedSlope(D d, V x, V n, V t, V one_and_c, V low, M at_root, V near) {
  using T = hn::TFromD<D>;
  using C = Constants<T>;
  const V one = hn::Set(d, T{1});
  const V bounded = hn::Add(hn::Max(n, hn::Set(d, C::kMinExponent)), hn::Set(d, C::kRound));
  const V scale = PowerOfTwo(d, bounded), e = hn::MulAdd(scale, t, scale);
  const V square = hn::MulAdd(e, hn::Add(e, hn::Set(d, T{2})), one);
  const V factor = hn::IfThenElse(at_root, near, hn::Add(one_and_c, hn::Add(low, e)));
  const V f = Scale(d, hn::Div(hn::MulAdd(t, factor, factor), square), n);
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Sub(one, f), f);
}

// Of gelu: 2 sqrt(2 / pi), in two parts, and 0.044715 times that.
template <typename T>
constexpr T kGeluA = Pick<T>(0x1.988454p+0f, 0x1.9884533d43651p+0);
template <typename T>
constexpr T kGeluALow = Pick<T>(-0x1.857936p-25f, -0x1.cbc0d30ebfd15p-54);
template <typename T>
constexpr T kGeluB = Pick<T>(0x1.2444f2p-4f, 0x1.2444f2a4d8b4bp-4);

// The exponent g(x) = x (a + b x^2) of gelu as t + low, for |x| <= kGeluMax.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluExponent(D d, V x, V& low) {
  using T = hn::TFromD<D>;
  const V a = hn::Set(d, kGeluA<T>), b = hn::Set(d, kGeluB<T>);
  const V a_low = hn::Set(d, kGeluALow<T>);
  const V b_low = hn::Set(d, Pick<T>(0x1.49b16ap-29f, -0x1.6c843a29d1c7p-61));
  const V square = hn::Mul(x, x), square_low = ProductError(d, x, x, square);
  const V p = hn::Mul(b, square), p_low = ProductError(d, b, square, p);
  const V larger = hn::Max(p, a), u = hn::Add(p, a);
  low = hn::Add(hn::Sub(hn::Min(p, a), hn::Sub(u, larger)), p_low);
  low = hn::Add(low, hn::MulAdd(b, square_low, hn::MulAdd(b_low, square, a_low)));
  const V t = hn::Mul(x, u);
  low = hn::MulAdd(x, low, ProductError(d, x, u, t));
  return t;
}

}  // namespace math_detail

/// 1 / (1 + e^-x), or factor / (1 + e^-x) even if the former underflows, for factor >= -1000.
template <class D, class V = hn::Vec<D>, class... Factor>
HWY_INLINE V Sigmoid(D d, V x, Factor... factor) {
  V n;
  const V t = math_detail::ReduceExp(d, math_detail::CapSigmoid(d, x), n);
  return math_detail::SigmoidOf(d, n, t, factor...);
}

/// x / (1 + e^-g(x)), g(x) = 2 sqrt(2 / pi) (x + 0.044715 x^3)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Gelu(D d, V x) {
  using T = hn::TFromD<D>;
  constexpr T kMax = math_detail::Pick<T>(13, 25);
  x = math_detail::Cap<false>(d, -kMax, x);
  V n, low;
  const V t = math_detail::GeluExponent(d, math_detail::Cap<true>(d, kMax, x), low);
  const V r = math_detail::ReduceLn2(d, math_detail::CapSigmoid(d, t), n);
  return math_detail::SigmoidOf(d, n, math_detail::ExpMinus1(d, hn::Add(r, low)), x);
}

/// The derivative of Gelu. Its root is r; there, with z = x - r, q = x^2 + x r + r^2,
///     1 + c + e = z (a + 3 b q) + e^g(r) (e^(z (a + b q)) - 1).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluSlope(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T{1}), a = hn::Set(d, math_detail::kGeluA<T>);
  const V b = hn::Set(d, math_detail::kGeluB<T>);
  const V b3 = hn::Set(d, math_detail::Pick<T>(0x1.b6676cp-3f, 0x1.b6676bf7450fp-3));
  const V minus = math_detail::Cap<false>(d, math_detail::Pick<T>(-13, -25), hn::Neg(hn::Abs(x)));
  V n, low;
  const V g = math_detail::GeluExponent(d, minus, low);
  const V r = math_detail::ReduceLn2(d, math_detail::CapExp(d, g), n);
  const V t = math_detail::ExpMinus1(d, hn::Add(r, low));
  const V root = hn::Set(d, math_detail::Pick<T>(-0x1.8142ap-1f, -0x1.81429f9e97e4dp-1));
  const V root_low = hn::Set(d, math_detail::Pick<T>(0x1.85a06cp-27f, 0x1.4f523ed77dbdcp-55));
  const V root_square = hn::Set(d, math_detail::Pick<T>(0x1.21e4bap-1f, 0x1.21e4bab8db157p-1));
  const V e_of_root = hn::Set(d, math_detail::Pick<T>(0x1.2af64ep-2f, 0x1.2af64e9c485eep-2));
  const V z = hn::Sub(hn::Sub(minus, root), root_low);
  const V q = hn::MulAdd(minus, hn::Add(minus, root), root_square);
  // A quarter of the exponent is in the range of ExpMinus1.
  const V exponent = hn::Mul(z, hn::MulAdd(b, q, a));
  V h = math_detail::ExpMinus1(d, hn::Mul(exponent, hn::Set(d, T(0.25))));
  h = hn::MulAdd(h, h, hn::Add(h, h));
  h = hn::MulAdd(h, h, hn::Add(h, h));
  const V near = hn::MulAdd(e_of_root, h, hn::Mul(z, hn::MulAdd(b3, q, a)));
  const V square = hn::Mul(minus, minus), slope = hn::MulAdd(b3, square, a);
  const V one_and_c = hn::MulAdd(minus, slope, one);
  const V a_low = hn::Set(d, math_detail::kGeluALow<T>);
  const V c_low = hn::Mul(minus, hn::Add(hn::MulAdd(b3, square, hn::Sub(a, slope)), a_low));
  const auto at_root = hn::Lt(hn::Abs(hn::Add(z, hn::Set(d, T(0.175)))), hn::Set(d, T(0.525)));
  return math_detail::GatedSlope(d, x, n, t, one_and_c, c_low, at_root, near);
}

/// The derivative of x / (1 + e^-x). Near its root r, 1 + x + e^x = x - r + e^r (e^(x - r) - 1).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V SiluSlope(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T{1}), minus = math_detail::CapExp(d, hn::Neg(hn::Abs(x)));
  V n;
  const V t = math_detail::ReduceExp(d, minus, n);
  const V root = hn::Set(d, math_detail::Pick<T>(-0x1.474974p+0f, -0x1.474973c84120bp+0));
  const V root_low = hn::Set(d, math_detail::Pick<T>(0x1.bdf6fap-27f, -0x1.f8d74bc9ac154p-54));
  const V e_of_root = hn::Set(d, math_detail::Pick<T>(0x1.1d25dp-2f, 0x1.1d25cf210482ep-2));
  const V z = hn::Sub(hn::Sub(minus, root), root_low);
  const V near = hn::MulAdd(e_of_root, math_detail::ExpMinus1(d, z), z);
  const auto at_root = hn::Lt(hn::Abs(z), hn::Set(d, T(0.34)));
  return math_detail::GatedSlope(d, x, n, t, hn::Add(one, minus), hn::Zero(d), at_root, near);
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
