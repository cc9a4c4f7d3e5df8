// Products in bf16 and bf16x3. The expected values follow the definition: factors are rounded to
// bf16, or to sums of two bf16, and sums are f32.

#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include <doctest/doctest.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/kernels/gemm.hpp>
#include <attune/tensor/kernels/simd/tiles.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/random.hpp>
#include <attune/tensor/reduce.hpp>

#include "support/naive.hpp"
#include "support/targets.hpp"
#include "support/threads_scope.hpp"

namespace attune {
namespace {

/// Rounds to 8 bits of significand, ties to even.
float bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000);
}

/// Integers from -8 to 8: exact in bf16, with products and sums exact in f32, so
/// nothing is rounded.
Tensor whole_numbers(const Shape& shape, std::uint64_t seed) {
  return map(randn(shape, DType::f32, seed) * 3.0, [](auto x) {
    using T = decltype(x);
    return std::clamp(std::round(x), T(-8), T(8));
  });
}

struct Sizes {
  Index m, k, n;
};
/// Sizes: odd K, edges of panels and of blocks of k and of conversions, several tiles, 1 row, 1
/// column.
constexpr Sizes kSizes[] = {{1, 1, 1},     {3, 2, 5},      {1, 513, 70},    {17, 33, 1},
                            {40, 511, 33}, {513, 100, 32}, {29, 1031, 290}, {33, 70, 2085}};

/// Calls test() with each precision that this CPU computes and each precision of tiles, emulated if
/// necessary. Each call must create its tensors: packed forms are cached with them.
template <class Test>
void for_each_bf16(Test test) {
  for (const bool emulated : {false, true}) {
    simd::emulated_tiles = emulated;
    for (const Precision wanted : {Precision::bf16, Precision::bf16x3}) {
      if (fastest_precision(wanted) != wanted) continue;
      INFO(std::string(to_string(wanted)) << (emulated ? " by emulated tiles" : ""));
      const InPrecision in(wanted);
      test();
    }
  }
  simd::emulated_tiles = false;
}

/// Sets the precision to f32 until the end of the scope.
struct InF32 : InPrecision {
  InF32() : InPrecision(Precision::f32) {}
};

}  // namespace

TEST_CASE("bf16: small integers are multiplied exactly: all sizes, transposed, packed, added") {
  for_each_bf16([] {
    for (const auto& [m, k, n] : kSizes) {
      for (int transposes = 0; transposes < 4; ++transposes) {
        const Transpose transpose{.a = (transposes & 1) != 0, .b = (transposes & 2) != 0};
        const Tensor a = whole_numbers(transpose.a ? Shape{k, m} : Shape{m, k}, 1),
                     b = whole_numbers(transpose.b ? Shape{n, k} : Shape{k, n}, 2);
        const Tensor expected = [&] { return InF32(), matmul(a, b, transpose); }();
        const MatrixView<const float> x{a.data<float>(), a.dim(0), a.dim(1), a.dim(1)},
            y{b.data<float>(), b.dim(0), b.dim(1), b.dim(1)};
        CHECK(identical(matmul(a, b, transpose), expected));
        Tensor twice = zeros({m, n}, DType::f32);
        const PackedMatrix<float> packed(transpose.b ? y.transpose() : y);
        for (int i = 0; i < 2; ++i) {
          gemm<float>(transpose.a ? x.transpose() : x, packed,
                      {twice.mutable_data<float>(), m, n, n}, Into::add);
        }
        CHECK(identical(twice, expected * 2.0));
      }
    }
  });
}

TEST_CASE("bf16: factors are rounded to nearest even, sums are f32; bf16x3: errors below 5e-5") {
  const double v = 0x1.01008p+0;  // the errors of v² have one sign, and do not average out
  const Tensor a = concat({randn({9, 301}), full({1, 301}, v)}, 0),
               b = concat({randn({301, 37}, DType::f32, 2), full({301, 1}, v)}, 1);
  const auto round = [](auto x) { return static_cast<decltype(x)>(bf16(static_cast<float>(x))); };
  for_each_bf16([&] {
    const bool split = precision() == Precision::bf16x3;
    const Tensor c = matmul(a, b).to(DType::f64), x = (split ? a : map(a, round)).to(DType::f64),
                 y = (split ? b : map(b, round)).to(DType::f64);
    const Tensor bound = matmul(abs(x), abs(y)) * (split ? 5e-5 : 1e-6);
    CHECK(all(abs(c - matmul(x, y)) <= bound).item() == 1);
    CHECK(any(abs(c - matmul(a.to(DType::f64), b.to(DType::f64))) > bound).item() == !split);
  });
}

TEST_CASE("bf16: a row gives the same bits alone and in a batch, with one and two threads") {
  for_each_bf16([] {
    const Tensor a = randn({150, 530}), b = randn({530, 600}, DType::f32, 2);
    const test::ThreadsScope scope(1);
    const Tensor one = matmul(a, b);
    set_threads(2);
    CHECK(identical(matmul(a, b), one));
    for (Index i : {0, 77, 149})
      CHECK(identical(matmul(a.slice(i, i + 1), b), one.slice(i, i + 1)));
  });
}

TEST_CASE("bf16: a change of precision affects the next product of a packed weight") {
  for_each_bf16([] {
    const Tensor a = randn({8, 64}), w = randn({64, 48}, DType::f32, 2);
    const auto three_times = [&] {
      const Tensor first = matmul(a, w);
      for (int i = 0; i < 3; ++i) CHECK(identical(matmul(a, w), first));  // packed by then
      return first;
    };
    const auto exactly = [&] { return InF32(), three_times(); };
    const Tensor exact = exactly(), rounded = three_times();
    CHECK(!identical(rounded, exact));
    CHECK(identical(exactly(), exact));
  });
}

TEST_CASE("bf16: NaN and infinity reach the elements that depend on them; f64 is not affected") {
  Tensor a = whole_numbers({20, 5}, 1);
  const Tensor b = whole_numbers({5, 40}, 2) + 0.5;
  const Tensor a64 = a.to(DType::f64) * 0.1, b64 = b.to(DType::f64), precise = matmul(a64, b64);
  a.mutable_data<float>()[3 * 5 + 4] = std::numeric_limits<float>::quiet_NaN();
  a.mutable_data<float>()[7 * 5 + 1] = std::numeric_limits<float>::infinity();
  for_each_bf16([&] {
    const Tensor c = matmul(a, b);
    for (Index i = 0; i < 20; ++i) {
      const float last = c.data<float>()[i * 40 + 39];
      CHECK(std::isfinite(last) == (i != 3 && i != 7));
      if (i == 7 && precision() == Precision::bf16) CHECK(std::isinf(last));  // low parts are 0
    }
    CHECK(identical(matmul(a64, b64), precise));
  });
}

TEST_CASE("bf16: empty matrices") {
  for_each_bf16([] {
    for (const auto& [m, k, n] : {Sizes{0, 3, 4}, Sizes{3, 0, 4}, Sizes{3, 4, 0}}) {
      const Tensor a = zeros({m, k}), b = zeros({k, n}), bt = zeros({n, k});
      CHECK(identical(matmul(a, b), zeros({m, n})));
      CHECK(identical(matmul(a, bt, {.b = true}), zeros({m, n})));
      Tensor c = zeros({m, n});
      for (const Tensor& x : {b, bt}) {
        const MatrixView<const float> view{x.data<float>(), x.dim(0), x.dim(1), x.dim(1)};
        const PackedMatrix<float> packed(x.dim(0) == k ? view : view.transpose());
        gemm<float>({a.data<float>(), m, k, k}, packed, {c.mutable_data<float>(), m, n, n});
        CHECK(identical(c, zeros({m, n})));
      }
    }
  });
}

TEST_CASE("tiles: packing and products of the CPU give the same bits as the emulation") {
  const Tensor x = concat({randn({45, 70}) * 1e-38, randn({45, 70})}, 0);  // some are subnormal
  const bool packs = simd::has_bf16() || simd::has_tiles();
  if (!packs) return;
  for (const bool transposed : {false, true}) {
    const simd::Strided<float> matrix{x.data<float>(), transposed ? 1 : 70, transposed ? 70 : 1};
    const Index rows = transposed ? 70 : 90, depth = transposed ? 90 : 70;
    for (const simd::TileForm& form :
         {simd::TileForm{false, false}, {false, true}, {true, false}, {true, true}}) {
      Tensor packed[2];
      for (const bool emulated : {false, true}) {
        simd::emulated_tiles = emulated;
        packed[emulated] = zeros({96 * form.steps(depth)});
        float* const to = packed[emulated].mutable_data<float>();
        for (Index k = 0; k < depth; k += 32)
          simd::to_tiles(matrix.from(0, k), rows, depth - k, form, form.steps(depth),
                         to + form.steps(k) * (form.panels ? 32 : 16));
      }
      simd::emulated_tiles = false;
      CHECK(std::ranges::equal(bytes_of(packed[0]), bytes_of(packed[1])));
    }
  }
  if (!simd::has_tiles()) return;
  for (const Precision wanted : {Precision::bf16, Precision::bf16x3}) {
    const InPrecision in(wanted);
    const Tensor real = matmul(x, x, {.b = true});
    simd::emulated_tiles = true;
    CHECK(identical(real, matmul(x, x, {.b = true})));
    simd::emulated_tiles = false;
  }
}

TEST_CASE("precision: set per thread") {
  // Computes no product, so that the test runs on every CPU.
  const detail::ScopedValue scope(detail::thread_state.precision, Precision::bf16);
  Precision elsewhere = Precision::bf16;
  std::thread([&] { elsewhere = precision(); }).join();
  CHECK(elsewhere == Precision::f32);
}

TEST_CASE("precision: one that is not faster falls back to f32; setting it is an error") {
  int without = 0;
  test::for_each_target([&] {
    CHECK(fastest_precision(Precision::f32) == Precision::f32);
    if (fastest_precision(Precision::bf16) == Precision::bf16) return;
    ++without;
    CHECK(fastest_precision(Precision::bf16) == Precision::f32);
    CHECK_ERROR(
        "set_precision: this CPU does not compute bf16 products faster than f32 (needs AMX, AMD's "
        "AVX512-BF16)",
        set_precision(Precision::bf16));
    CHECK_ERROR(
        "set_precision: this CPU does not compute bf16x3 products faster than f32 (needs AMX)",
        set_precision(Precision::bf16x3));
  });
  CHECK(without > 0);
  CHECK(precision() == Precision::f32);
}

}  // namespace attune
