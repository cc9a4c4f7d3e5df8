// The vector functions compared with references in the next wider type, with every instruction set
// of this CPU.

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/threads.hpp>

#include "support/targets.hpp"

namespace attune::simd {
namespace {

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
template <typename T>
using Bits = std::conditional_t<std::is_same_v<T, float>, std::uint32_t, std::uint64_t>;

template <typename T>
struct Checked {
  const char* name;
  void (*computed)(const T*, T*, Index);
  Wide<T> (*exact)(Wide<T>);
  // Outside of these bounds the function is 0, 1, -1 or infinite.
  T low, high;
  double ulp = 2;
};

template <typename T>
Wide<T> ExactSigmoid(Wide<T> x) {
  const Wide<T> e = std::exp(-std::abs(x));
  return (x > 0 ? 1 : e) / (1 + e);
}

template <typename T>
const Checked<T> kExp{"exp", exp<T>, [](Wide<T> x) { return std::exp(x); },
                      std::is_same_v<T, float> ? -106 : -748, std::is_same_v<T, float> ? 90 : 712};
template <typename T>
const Checked<T> kTanh{"tanh", tanh<T>, [](Wide<T> x) { return std::tanh(x); }, -22, 22};
template <typename T>
const Checked<T> kSigmoid{"sigmoid", sigmoid<T>, ExactSigmoid<T>,
                          std::is_same_v<T, float> ? -106 : -748, 40};

template <typename T>
std::span<const Checked<T>> Functions() {
  static const Checked<T> all[] = {
      kExp<T>,
      kTanh<T>,
      kSigmoid<T>,
      {"expm1", expm1<T>, [](Wide<T> x) { return std::expm1(x); }, -100, 100, 3},
      {"log", log<T>, [](Wide<T> x) { return std::log(x); }, 0, 100},
      {"log1p", log1p<T>, [](Wide<T> x) { return std::log1p(x); }, -1, 100},
      {"sin", sin<T>, [](Wide<T> x) { return std::sin(x); }, -1e6, 1e6, 3},
      {"cos", cos<T>, [](Wide<T> x) { return std::cos(x); }, -1e6, 1e6, 3},
      {"atan", atan<T>, [](Wide<T> x) { return std::atan(x); }, -10, 10},
      {"erf", erf<T>, [](Wide<T> x) { return std::erf(x); }, -7, 7},
      {"silu", silu<T>, [](Wide<T> x) { return x < -1e6 ? 0 : x * ExactSigmoid<T>(x); }, -750, 750,
       3},
      {"softplus", softplus<T>,
       [](Wide<T> x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x))); }, -750, 750}};
  return all;
}

// |computed - exact| in units of the spacing of T at exact. Infinity counts as the successor of the
// largest finite number.
template <typename T>
double UlpError(T computed, Wide<T> exact) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(computed) || std::isnan(exact)) {
    return std::isnan(computed) && std::isnan(exact) ? 0 : std::numeric_limits<double>::infinity();
  }
  const Wide<T> infinity = std::ldexp(Wide<T>{1}, Limits::max_exponent);
  exact = std::clamp(exact, -infinity, infinity);
  const Wide<T> value = std::clamp(Wide<T>{computed}, -infinity, infinity);
  int exponent;
  std::frexp(exact, &exponent);
  exponent = std::clamp(exponent, Limits::min_exponent, Limits::max_exponent);
  return static_cast<double>(std::ldexp(std::abs(value - exact), Limits::digits - exponent));
}

template <typename T>
T FromBits(std::uint64_t bits) {
  return std::bit_cast<T>(static_cast<Bits<T>>(bits));
}

// x and its 32 neighbours on either side.
template <typename T>
void AddNeighbourhood(T x, std::vector<T>& inputs) {
  const auto bits = std::bit_cast<Bits<T>>(x);
  for (Bits<T> i = 0; i <= 64; ++i) inputs.push_back(FromBits<T>(bits + i - 32));
}

template <typename T>
std::vector<T> Inputs(const Checked<T>& function) {
  std::vector<T> inputs;
  std::mt19937_64 random(1);
  // Random bit patterns: all magnitudes, all kinds of NaN, infinities. For float these are most of
  // the samples, as there are only 2^32 values.
  if (std::is_same_v<T, float>) {
    for (std::uint64_t bits = 0; bits >> 32 == 0; bits += 997) {
      inputs.push_back(FromBits<T>(bits));
    }
  } else {
    for (int i = 0; i < 200'000; ++i) inputs.push_back(FromBits<T>(random()));
    std::uniform_real_distribution<T> range(function.low, function.high), middle(-3, 3);
    for (int i = 0; i < 400'000; ++i) {
      inputs.push_back(range(random));
      inputs.push_back(middle(random));
    }
  }
  // Points where the algorithm changes: the exponent n of the reduction of e^x or, for tanh, of
  // e^2x; the branches; the limits.
  constexpr double kLn2 = 0.693147180559945309;
  for (int i = -2160; i <= 2160; ++i) AddNeighbourhood(static_cast<T>(i * kLn2 / 4), inputs);
  for (const double x : {0.0, 0.625, 10.0, 18.0, 20.0, 38.0, 88.7228391, 89.0, 100.0, 103.97208,
                         104.0, 709.782712893384, 710.0, 745.13321910194, 746.0}) {
    AddNeighbourhood(static_cast<T>(x), inputs);
    AddNeighbourhood(static_cast<T>(-x), inputs);
  }
  using Limits = std::numeric_limits<T>;
  for (const T x : {Limits::denorm_min(), Limits::min(), Limits::epsilon(), Limits::max(),
                    Limits::infinity(), Limits::quiet_NaN()}) {
    AddNeighbourhood(x, inputs);
    AddNeighbourhood(-x, inputs);
  }
  return inputs;
}

template <typename T>
void CheckAccuracy(const Checked<T>& function) {
  const std::vector<T> x = Inputs(function);
  std::vector<Wide<T>> exact(x.size());
  std::transform(x.begin(), x.end(), exact.begin(), function.exact);
  std::vector<T> y(x.size());
  test::for_each_target([&] {
    function.computed(x.data(), y.data(), x.size());
    double worst = 0;
    T where = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double ulp = UlpError(y[i], exact[i]);
      if (ulp > worst) {
        worst = ulp;
        where = x[i];
      }
    }
    CAPTURE(function.name);
    CAPTURE(where);
    CHECK(worst <= function.ulp);
  });
}

template <typename T>
T One(const Checked<T>& function, T x) {
  function.computed(&x, &x, 1);
  return x;
}

template <typename T>
void CheckLimits() {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  constexpr T kMax = std::numeric_limits<T>::max();
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  constexpr T kLeast = std::numeric_limits<T>::denorm_min();
  test::for_each_target([&] {
    for (const T nan : {kNan, -kNan, std::numeric_limits<T>::signaling_NaN()}) {
      CHECK(std::isnan(One(kExp<T>, nan)));
      CHECK(std::isnan(One(kTanh<T>, nan)));
      CHECK(std::isnan(One(kSigmoid<T>, nan)));
    }
    for (const T large : {kInfinity, kMax}) {
      CHECK(One(kExp<T>, large) == kInfinity);
      CHECK(One(kExp<T>, -large) == 0);
      CHECK(One(kTanh<T>, large) == 1);
      CHECK(One(kTanh<T>, -large) == -1);
      CHECK(One(kSigmoid<T>, large) == 1);
      CHECK(One(kSigmoid<T>, -large) == 0);
    }
    for (const T small : {T{0}, T{-0.0}, kLeast, -kLeast}) {
      CHECK(One(kExp<T>, small) == 1);
      CHECK(One(kTanh<T>, small) == small);
      CHECK(std::signbit(One(kTanh<T>, small)) == std::signbit(small));
      CHECK(One(kSigmoid<T>, small) == T(0.5));
    }
    CHECK_FALSE(std::signbit(One(kExp<T>, -kInfinity)));
    CHECK_FALSE(std::signbit(One(kSigmoid<T>, -kInfinity)));
  });
}

/// Replaces NaN, whose bits WebAssembly does not define, by a fixed value.
template <typename T>
std::vector<Bits<T>> AsBits(const std::vector<T>& values) {
  std::vector<Bits<T>> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(),
                 [](T v) { return std::isnan(v) ? ~Bits<T>{0} : std::bit_cast<Bits<T>>(v); });
  return bits;
}

// Compares all parts of an array with the whole, and checks that elements around them are
// not written.
template <typename T>
void CheckCuts(const Checked<T>& function) {
  constexpr std::size_t kSize = 83;
  std::vector<T> x(kSize);
  std::mt19937 random(2);
  std::normal_distribution<T> normal(0, 4);
  for (T& v : x) v = normal(random);
  x[5] = std::numeric_limits<T>::quiet_NaN();
  x[70] = -std::numeric_limits<T>::infinity();
  test::for_each_target([&] {
    std::vector<T> whole(kSize);
    function.computed(x.data(), whole.data(), kSize);
    bool equal = true;
    for (std::size_t begin = 0; begin <= kSize; ++begin) {
      for (std::size_t end = begin; end <= kSize; ++end) {
        std::vector<T> expected(kSize, T{7});
        std::copy(whole.begin() + begin, whole.begin() + end, expected.begin() + begin);
        std::vector<T> y(kSize, T{7});
        function.computed(x.data() + begin, y.data() + begin, end - begin);
        equal = equal && AsBits(y) == AsBits(expected);
      }
    }
    CHECK_MESSAGE(equal, function.name);
  });
}

template <typename T>
void CheckInPlace(const Checked<T>& function) {
  std::vector<T> x(1001);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = (static_cast<T>(i) - 500) / 37;
  test::for_each_target([&] {
    std::vector<T> y(x.size()), in_place = x;
    function.computed(x.data(), y.data(), x.size());
    function.computed(in_place.data(), in_place.data(), x.size());
    CHECK_MESSAGE(AsBits(in_place) == AsBits(y), function.name);
  });
}

TEST_CASE_TEMPLATE("simd functions: at most 2 or 3 ulp from the exact value", T, float, double) {
  for (const Checked<T>& function : Functions<T>()) CheckAccuracy(function);
}

// Takes minutes, so it runs only if it is selected by name.
TEST_CASE("simd functions: every float is at most 2 or 3 ulp from the exact value" *
          doctest::skip()) {
  constexpr Index kBlock = 1 << 22, kTile = 1 << 14;
  std::vector<float> x(kBlock);
  std::vector<double> exact(kBlock);
  const auto wrong = [&](const Checked<float>& function, Index begin, Index end) {
    std::vector<float> y(end - begin);
    function.computed(&x[begin], y.data(), end - begin);
    Index count = 0;
    for (Index i = begin; i < end; ++i) {
      // The spacing of floats is at least 2⁻²⁴ |exact|, so most values need no exact check.
      const bool close = std::abs(y[i - begin] - exact[i]) <= 0x1p-23 * std::abs(exact[i]);
      count += !close && UlpError(y[i - begin], exact[i]) > function.ulp;
    }
    return count;
  };
  for (std::uint64_t first = 0; first >> 32 == 0; first += kBlock) {
    for (Index i = 0; i < kBlock; ++i) x[i] = FromBits<float>(first + i);
    for (const Checked<float>& function : Functions<float>()) {
      parallel_ranges(kBlock, kTile, [&](Index begin, Index end) {
        std::transform(x.begin() + begin, x.begin() + end, exact.begin() + begin, function.exact);
      });
      test::for_each_target([&] {
        std::atomic<Index> count = 0;
        parallel_ranges(kBlock, kTile,
                        [&](Index begin, Index end) { count += wrong(function, begin, end); });
        CAPTURE(function.name);
        CAPTURE(first);
        CHECK(count == 0);
      });
    }
  }
}

TEST_CASE_TEMPLATE("simd functions: limits at infinity, NaN gives NaN, zero keeps its sign", T,
                   float, double) {
  CheckLimits<T>();
}

TEST_CASE_TEMPLATE(
    "simd functions: an element's result does not depend on where the array is split", T, float,
    double) {
  for (const Checked<T>& function : Functions<T>()) CheckCuts(function);
}

TEST_CASE_TEMPLATE("simd functions: input and output may be the same array", T, float, double) {
  for (const Checked<T>& function : Functions<T>()) CheckInPlace(function);
}

// (x, f(x), f'(x)) by mpmath: near roots, large, small and where the algorithm changes. x is a float.
// clang-format off
const std::pair<Function, std::vector<std::array<long double, 3>>> kPoints[] = {
    {Function::exp, {{0x1p+0, 2.718281828459045235L, 2.718281828459045235L}, {-0x1.6000000p-1, 5.028315779709409597e-1L, 5.028315779709409597e-1L},
      {-0x1.5e00000p+6, 9.982350930569247556e-39L, 9.982350930569247556e-39L}, {0x1.6200000p+6, 2.723087825068111612e+38L, 2.723087825068111612e+38L},
      {0x1p-130, 1.0L, 1.0L}}},
    {Function::expm1, {{0x1p-30, 9.313225750491593848e-10L, 1.000000000931322575L}, {0x1.6000000p-2, 4.102260349257107057e-1L, 1.410226034925710706L},
      {0x1.8000000p-2, 4.549914146182013361e-1L, 1.454991414618201336L}, {-0x1.1800000p+4, -9.999999748900084426e-1L, 2.510999155743981804e-8L},
      {-0x1.8000000p-1, -5.276334472589852929e-1L, 4.723665527410147071e-1L}, {0x1.6000000p+6, 1.651636254994001856e+38L, 1.651636254994001856e+38L}}},
    {Function::log, {{0x1.0000100p+0, 9.536738616591882339e-7L, 9.999990463265930876e-1L}, {0x1.8000000p-1, -2.876820724517809274e-1L, 1.333333333333333333L},
      {0x1.8000000p-139, -9.594199298972423363e+1L, 4.645988583027213154e+41L}, {0x1.6800000p+0, 3.409265869705932103e-1L, 7.111111111111111111e-1L},
      {0x1.93e5940p+99, 6.907755280486883663e+1L, 9.999999849525340065e-31L}}},
    {Function::log1p, {{0x1p-40, 9.094947017725146476e-13L, 9.999999999990905053e-1L}, {-0x1.8000000p-1, -1.386294361119890619L, 4.0L},
      {0x1.a000000p-2, 3.409265869705932103e-1L, 7.111111111111111111e-1L}, {-0x1.fffffe0p-1, -1.663553233343868743e+1L, 1.6777216e+7L},
      {0x1.5af1d80p+66, 4.605170187992179082e+1L, 9.999999799591230589e-21L}}},
    {Function::sin, {{0x1p-40, 9.094947017729282379e-13L, 1.0L}, {0x1.9200000p+1, 9.67653438782279465e-4L, -9.999995318233016117e-1L},
      {0x1.6300000p+8, -3.014435335948844921e-5L, -9.999999995456589802e-1L}, {-0x1.86a0000p+16, -3.574879797201650932e-2L, -9.993608074382124519e-1L},
      {0x1p+20, 3.304931400217346716e-1L, 9.43808393901311984e-1L}, {0x1.0f0cf00p+73, -7.34081535296101526e-1L, 6.790613370950509722e-1L},
      {0x1.8000000p+127, 8.466177358950335597e-1L, 5.322014743196106592e-1L}}},
    {Function::cos, {{0x1p-40, 1.0L, -9.094947017729282379e-13L}, {0x1.9200000p+0, 4.838267760202486938e-4L, -9.999998829558185533e-1L},
      {0x1.6000000p+3, 4.425697988050785748e-3L, 9.999902065507034571e-1L}, {-0x1.86a0000p+16, -9.993608074382124519e-1L, 3.574879797201650932e-2L},
      {0x1.0000100p+20, 2.31841463516241251e-1L, -9.727535843134413128e-1L}, {0x1.0f0cf00p+73, 6.790613370950509722e-1L, 7.34081535296101526e-1L},
      {0x1.4000000p+127, 6.664708890670786443e-1L, -7.455310550380431682e-1L}}},
    {Function::atan, {{0x1p-40, 9.094947017729282379e-13L, 1.0L}, {0x1.e000000p-1, 7.531512809621943895e-1L, 5.322245322245322245e-1L},
      {0x1.1000000p+0, 8.15691923316223411e-1L, 4.697247706422018349e-1L}, {-0x1.4000000p+5, -1.54580153317597646L, 6.246096189881324172e-4L},
      {0x1.93e5940p+99, 1.570796326794896619L, 9.999999699050682395e-61L}}},
    {Function::erf, {{0x1p-40, 1.026254874064318368e-12L, 1.128379167095512574L}, {-0x1.f800000p-1, -8.36112870050396484e-1L, 4.281798750030604718e-1L},
      {0x1.0400000p+0, 8.490860348888875326e-1L, 4.022377678117162576e-1L}, {0x1.c000000p+1, 9.999992569016276586e-1L, 5.399426777384782512e-6L},
      {-0x1.2800000p+3, -1.0L, 7.818680227161615375e-38L}}},
    {Function::softplus, {{-0x1.9000000p+6, 3.720075976020835963e-44L, 3.720075976020835963e-44L}, {-0x1.e000000p-1, 3.304582076022206324e-1L, 2.814056074291438381e-1L},
      {0x1p-5, 7.088942459057149301e-1L, 5.078118642792044326e-1L}, {0x1.1000000p+4, 1.700000004139937633e+1L, 9.999999586006245261e-1L},
      {0x1.5af1d80p+66, 1.000000020040877343e+20L, 1.0L}}},
    {Function::silu, {{-0x1.9000000p+6, -3.720075976020835963e-42L, -3.682875216260627603e-42L}, {-0x1.4749740p+0, -2.784645427610737768e-1L, -2.827039668355436669e-9L},
      {-0x1.1000000p+0, -2.728839908492387696e-1L, 5.403333932586353454e-2L}, {0x1p-1, 3.112296656009272823e-1L, 7.399611873026518092e-1L},
      {0x1.4000000p+4, 1.999999995877692764e+1L, 1.000000039161918661L}}},
    {Function::gelu, {{-0x1.2000000p+3, -1.33645959473487255e-28L, -2.515735285067425154e-27L}, {-0x1.8142a00p-1, -1.70040750571254023e-1L, -4.880576990954943393e-9L},
      {-0x1p-1, -1.54285990174856078e-1L, 1.326300964653576884e-1L}, {0x1.4000000p+2, 4.999999770820380337L, 1.000001546361987533L},
      {0x1.4000000p+3, 1.0e+1L, 1.0L}}},
};
// clang-format on

TEST_CASE_TEMPLATE("functions: values and gradients are at most 4 ulp from mpmath's", T, float,
                   double) {
  test::for_each_target([] {
    for (const auto& [f, points] : kPoints) {
      for (const auto& [exact_x, value, slope] : points) {
        const T x = static_cast<T>(exact_x), one = 1;
        T y, dx;
        apply(f, &x, &y, 1);
        apply_gradient(f, &one, f == Function::exp ? &y : &x, &dx, 1);
        const int function = static_cast<int>(f);  // clang 14 captures no structured bindings
        CAPTURE(function);
        CAPTURE(x);
        CHECK(UlpError(y, static_cast<Wide<T>>(value)) <= 4);
        CHECK(UlpError(dx, static_cast<Wide<T>>(slope)) <= 4);
      }
    }
  });
}

TEST_CASE_TEMPLATE("functions: the gradient is 0 where dy is 0, whatever x is", T, float, double) {
  const T zero = 0;
  test::for_each_target([&] {
#define ATTUNE_FUNCTION(name, kept, value, gradient)                                       \
  for (const T x :                                                                         \
       {std::numeric_limits<T>::infinity(), T(-1), std::numeric_limits<T>::quiet_NaN()}) { \
    T dx = 7;                                                                              \
    apply_gradient(Function::name, &zero, &x, &dx, 1);                                     \
    CHECK(dx == 0);                                                                        \
  }
#include <attune/tensor/functions.inc>
  });
}

TEST_CASE_TEMPLATE("power: special values as std::pow, others to 2 ulp in f32 and 4 in f64", T,
                   float, double) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  std::vector<T> bases{0,        1,
                       T(0.3),   2,
                       1e30f,    std::numeric_limits<T>::denorm_min(),
                       infinity, std::numeric_limits<T>::quiet_NaN()};
  std::vector<T> exponents{0,        1,     2,        3,
                           4,        5,     T(0.5),   T(2.7),
                           T(1e-30), 1e30f, infinity, std::numeric_limits<T>::quiet_NaN()};
  for (std::vector<T>* all : {&bases, &exponents})
    for (std::size_t i = 0, n = all->size(); i < n; ++i) all->push_back(-(*all)[i]);
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    bases.push_back(std::exp(std::normal_distribution<T>(0, 3)(random)));
    if (i < 20) exponents.push_back(std::normal_distribution<T>(0, 8)(random));
  }
  test::for_each_target([&] {
    for (const T b : exponents) {
      std::vector<T> y(bases.size()), z(bases.size()), bs(bases.size(), b);
      power(bases.data(), b, y.data(), std::ssize(y));
      power(bases.data(), bs.data(), z.data(), std::ssize(z));
      for (std::size_t i = 0; i < y.size(); ++i) {
        const Wide<T> exact = std::pow(Wide<T>{bases[i]}, Wide<T>{b});
        CAPTURE(bases[i]);
        CAPTURE(b);
        REQUIRE(UlpError(y[i], exact) <= (sizeof(T) == 4 ? 2 : 4));
        REQUIRE(UlpError(z[i], exact) <= (sizeof(T) == 4 ? 2 : 4));
        if (exact == 0) REQUIRE(std::signbit(z[i]) == std::signbit(exact));
        if (exact == 0) REQUIRE(std::signbit(y[i]) == std::signbit(exact));
      }
    }
    for (int i = 0; i < 2000; ++i) {  // results near the largest and the smallest normal number
      const T x = std::uniform_real_distribution<T>(T(0.5), T(1.5))(random);
      const T b = (sizeof(T) == 4 ? 85 : 700) / std::log(x) * (i % 2 == 0 ? 1 : -1);
      REQUIRE(UlpError(power(x, b), std::pow(Wide<T>{x}, Wide<T>{b})) <= (sizeof(T) == 4 ? 2 : 4));
    }
  });
}

TEST_CASE_TEMPLATE("simd largest: any number of elements, the largest at any position", T, float,
                   double) {
  test::for_each_target([] {
    CHECK(largest(static_cast<const T*>(nullptr), 0) == -std::numeric_limits<T>::infinity());
    for (std::size_t n = 1; n < 80; ++n) {
      std::vector<T> x(n, T(-2));
      for (std::size_t at = 0; at < n; ++at) {
        x[at] = -1;
        CHECK(largest(x.data(), n) == -1);
        x[at] = -2;
      }
    }
  });
}

}  // namespace
}  // namespace attune::simd
