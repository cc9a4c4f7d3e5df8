// The vector functions compared with references in the next wider type, with every instruction set
// of this CPU.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
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
struct Function {
  const char* name;
  void (*computed)(const T*, T*, Index);
  Wide<T> (*exact)(Wide<T>);
  // Outside of these bounds the function is 0, 1, -1 or infinite.
  T low, high;
};

template <typename T>
Wide<T> ExactSigmoid(Wide<T> x) {
  const Wide<T> e = std::exp(-std::abs(x));
  return (x > 0 ? 1 : e) / (1 + e);
}

template <typename T>
const Function<T> kExp{"exp", exp<T>, [](Wide<T> x) { return std::exp(x); },
                       std::is_same_v<T, float> ? -106 : -748, std::is_same_v<T, float> ? 90 : 712};
template <typename T>
const Function<T> kTanh{"tanh", tanh<T>, [](Wide<T> x) { return std::tanh(x); }, -22, 22};
template <typename T>
const Function<T> kSigmoid{"sigmoid", sigmoid<T>, ExactSigmoid<T>,
                           std::is_same_v<T, float> ? -106 : -748, 40};

template <typename T>
const Function<T> kFunctions[] = {kExp<T>, kTanh<T>, kSigmoid<T>};

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
std::vector<T> Inputs(const Function<T>& function) {
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
void CheckAccuracy(const Function<T>& function) {
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
    CHECK(worst <= 2);
  });
}

template <typename T>
T One(const Function<T>& function, T x) {
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
void CheckCuts(const Function<T>& function) {
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
void CheckInPlace(const Function<T>& function) {
  std::vector<T> x(1001);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = (static_cast<T>(i) - 500) / 37;
  test::for_each_target([&] {
    std::vector<T> y(x.size()), in_place = x;
    function.computed(x.data(), y.data(), x.size());
    function.computed(in_place.data(), in_place.data(), x.size());
    CHECK_MESSAGE(AsBits(in_place) == AsBits(y), function.name);
  });
}

TEST_CASE_TEMPLATE("simd functions: at most 2 ulp from the exact value", T, float, double) {
  for (const Function<T>& function : kFunctions<T>) CheckAccuracy(function);
}

// Takes minutes, so it runs only if it is selected by name.
TEST_CASE("simd functions: every float is at most 2 ulp from the exact value" * doctest::skip()) {
  constexpr Index kBlock = 1 << 22, kTile = 1 << 14;
  std::vector<float> x(kBlock);
  std::vector<double> exact(kBlock);
  const auto wrong = [&](const Function<float>& function, Index begin, Index end) {
    std::vector<float> y(end - begin);
    function.computed(&x[begin], y.data(), end - begin);
    Index count = 0;
    for (Index i = begin; i < end; ++i) {
      // The spacing of floats is at least 2⁻²⁴ |exact|, so most values need no exact check.
      const bool close = std::abs(y[i - begin] - exact[i]) <= 0x1p-23 * std::abs(exact[i]);
      count += !close && UlpError(y[i - begin], exact[i]) > 2;
    }
    return count;
  };
  for (std::uint64_t first = 0; first >> 32 == 0; first += kBlock) {
    for (Index i = 0; i < kBlock; ++i) x[i] = FromBits<float>(first + i);
    for (const Function<float>& function : kFunctions<float>) {
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
  for (const Function<T>& function : kFunctions<T>) CheckCuts(function);
}

TEST_CASE_TEMPLATE("simd functions: input and output may be the same array", T, float, double) {
  for (const Function<T>& function : kFunctions<T>) CheckInPlace(function);
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
