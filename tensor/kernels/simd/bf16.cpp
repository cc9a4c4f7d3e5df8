#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include <hwy/base.h>

#include <attune/tensor/kernels/simd/bf16.hpp>

#if HWY_ARCH_X86_64
#include <immintrin.h>
#pragma GCC diagnostic ignored "-Wuninitialized"  // inside GCC's own intrinsics
#endif

namespace attune::simd {
#if HWY_ARCH_X86_64
HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512bf16")
namespace {

constexpr Index lanes = tile_side;

// The compiler's vector types, as some intrinsics cause warnings.
using Halves = std::uint16_t __attribute__((vector_size(32)));
using Pairs = std::uint32_t __attribute__((vector_size(64)));

Pairs rounded(__m512 x) {
  return __builtin_convertvector(reinterpret_cast<Halves>(_mm512_cvtneps_pbh(x)), Pairs);
}

/// x minus x rounded to bf16: the rounding error, which becomes the low part.
__m512 rest(__m512 x) { return _mm512_sub_ps(x, reinterpret_cast<__m512>(rounded(x) << 16)); }

/// Mask of the first n of 16 lanes.
__mmask16 first(Index n) {
  return static_cast<__mmask16>((1U << std::clamp<Index>(n, 0, lanes)) - 1);
}

/// The bf16 pairs (x_j, y_j); without y, (x_j, 0).
void pair_rows(const float* x, const float* y, Index n, float* to) {
  const auto pair = [&](Index j, __mmask16 mask) {
    Pairs pair = rounded(_mm512_maskz_loadu_ps(mask, x + j));
    if (y) pair |= rounded(_mm512_maskz_loadu_ps(mask, y + j)) << 16;
    _mm512_mask_storeu_ps(to + j, mask, reinterpret_cast<__m512>(pair));
  };
  Index j = 0;
  for (; j + lanes <= n; j += lanes) pair(j, 0xFFFF);
  if (j < n) pair(j, first(n - j));
}

/// The bf16 pairs (x_0, x_1), (x_2, x_3), ...
void pair_within(const float* x, Index n, float* to) {
  Index j = 0;
  for (; j + 2 * lanes <= n; j += 2 * lanes) {
    const __m512 low = _mm512_loadu_ps(x + j), high = _mm512_loadu_ps(x + j + lanes);
    _mm512_storeu_ps(to + j / 2, reinterpret_cast<__m512>(_mm512_cvtne2ps_pbh(high, low)));
  }
  for (; j < n; j += lanes) {
    const Index rest = std::min(lanes, n - j);
    const __mmask16 mask = rest == lanes ? 0xFFFF : first(rest);
    const __m256bh pair = _mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(mask, x + j));
    _mm256_mask_storeu_ps(to + j / 2, static_cast<__mmask8>(first(pairs(rest))),
                          reinterpret_cast<__m256>(pair));
  }
}

/// Transposes a matrix of 16 x 16 elements of 32 bits.
void transpose(Pairs (&x)[lanes]) {
  __m512i y[lanes], z[lanes];
  for (Index i = 0; i < lanes; i += 2) {
    y[i] =
        _mm512_unpacklo_epi32(reinterpret_cast<__m512i>(x[i]), reinterpret_cast<__m512i>(x[i + 1]));
    y[i + 1] =
        _mm512_unpackhi_epi32(reinterpret_cast<__m512i>(x[i]), reinterpret_cast<__m512i>(x[i + 1]));
  }
  for (Index i = 0; i < lanes; i += 4) {
    for (Index half = 0; half < 2; ++half) {
      z[i + 2 * half] = _mm512_unpacklo_epi64(y[i + half], y[i + half + 2]);
      z[i + 2 * half + 1] = _mm512_unpackhi_epi64(y[i + half], y[i + half + 2]);
    }
  }
  // Column 4q + i consists of quarter q of z[i], z[4 + i], z[8 + i] and z[12 + i].
  for (Index i = 0; i < 4; ++i) {
    const __m512i even = _mm512_shuffle_i32x4(z[i], z[4 + i], 0x88),
                  odd = _mm512_shuffle_i32x4(z[i], z[4 + i], 0xDD),
                  even_below = _mm512_shuffle_i32x4(z[8 + i], z[12 + i], 0x88),
                  odd_below = _mm512_shuffle_i32x4(z[8 + i], z[12 + i], 0xDD);
    x[i] = reinterpret_cast<Pairs>(_mm512_shuffle_i32x4(even, even_below, 0x88));
    x[4 + i] = reinterpret_cast<Pairs>(_mm512_shuffle_i32x4(odd, odd_below, 0x88));
    x[8 + i] = reinterpret_cast<Pairs>(_mm512_shuffle_i32x4(even, even_below, 0xDD));
    x[12 + i] = reinterpret_cast<Pairs>(_mm512_shuffle_i32x4(odd, odd_below, 0xDD));
  }
}

__m512bh as_pairs(__m512 x) { return reinterpret_cast<__m512bh>(x); }

template <int rows>
void kernel(Index depth, const float* a, Index a_row, Index a_column, const float* b,
            Index stride_b, float* c, Index stride_c, Start<float> start, Ahead<float> ahead) {
  constexpr Index together = Ahead<float>::group;
  __m512 left[rows], right[rows];
#pragma GCC unroll 14
  for (int i = 0; i < rows; ++i) {
    const float* from = start.data + i * start.stride;
    left[i] = start.data ? _mm512_loadu_ps(from) : _mm512_setzero_ps();
    right[i] = start.data ? _mm512_loadu_ps(from + lanes) : _mm512_setzero_ps();
  }
  // One pointer for three rows, as addresses need registers too.
  constexpr int pointers = (rows + 2) / 3;
  const float* row[pointers];
#pragma GCC unroll 5
  for (int i = 0; i < pointers; ++i) row[i] = a + 3 * i * a_row;
  for (Index begin = 0; begin < depth; begin += together) {
    fetch(ahead.data + begin / together * ahead.stride, ahead.n);
    for (Index k = std::min(together, depth - begin); k > 0; --k) {
      const __m512bh b_left = as_pairs(_mm512_load_ps(b)),
                     b_right = as_pairs(_mm512_load_ps(b + lanes));
#pragma GCC unroll 14
      for (int i = 0; i < rows; ++i) {
        const __m512bh x = as_pairs(_mm512_set1_ps(row[i / 3][i % 3 * a_row]));
        left[i] = _mm512_dpbf16_ps(left[i], x, b_left);
        right[i] = _mm512_dpbf16_ps(right[i], x, b_right);
      }
#pragma GCC unroll 5
      for (int i = 0; i < pointers; ++i) row[i] += a_column;
      b += stride_b;
    }
  }
#pragma GCC unroll 14
  for (int i = 0; i < rows; ++i) {
    _mm512_storeu_ps(c + i * stride_c, left[i]);
    _mm512_storeu_ps(c + i * stride_c + lanes, right[i]);
  }
}

template <int... i>
constexpr std::array<PanelKernel<float>, sizeof...(i)> kernels(std::integer_sequence<int, i...>) {
  return {kernel<i + 1>...};
}

}  // namespace

void to_pairs(const Strided<float>& x, Index rows, Index depth, float* to) {
  const Index steps = pairs(depth);
  if (x.column == 1) {
    for (Index i = 0; i < rows; ++i) pair_within(x.data + i * x.row, depth, to + i * steps);
    return;
  }
  for (Index k = 0; k < steps; ++k) {
    const float* low = x.data + 2 * k * x.column;
    pair_rows(low, 2 * k + 1 < depth ? low + x.column : nullptr, rows, to + k * rows);
  }
}

void to_tile_pairs(const Strided<float>& x, Index rows, Index depth, const TilePairs& to) {
  const bool along_rows = x.column == 1;
  Pairs high[lanes], low[lanes];
  for (Index i = 0; i < lanes; ++i) {
    // Steps 0 to 15 and 16 to 31 of row i; or steps 2i and 2i + 1 of all rows.
    const Index first_step = along_rows ? 0 : 2 * i, second_step = along_rows ? lanes : 2 * i + 1;
    const auto mask = [&](Index step) {
      return along_rows ? first(i < rows ? depth - step : 0) : first(step < depth ? rows : 0);
    };
    const float* const from = along_rows ? x.data + i * x.row : x.data;
    const __m512 a = _mm512_maskz_loadu_ps(mask(first_step), from + first_step * x.column),
                 b = _mm512_maskz_loadu_ps(mask(second_step), from + second_step * x.column);
    if (!along_rows) {  // 32 streams: more than the CPU prefetches by itself
      _mm_prefetch(from + first_step * x.column + 8 * lanes, _MM_HINT_T0);
      _mm_prefetch(from + second_step * x.column + 8 * lanes, _MM_HINT_T0);
    }
    const auto pair = [&](__m512 u, __m512 v) {
      return along_rows ? reinterpret_cast<Pairs>(_mm512_cvtne2ps_pbh(v, u))
                        : rounded(u) | rounded(v) << 16;
    };
    high[i] = pair(a, b);
    if (to.low) low[i] = pair(rest(a), rest(b));
  }
  const auto put = [&](Pairs(&pairs)[lanes], float* at) {
    if (along_rows == to.transposed) transpose(pairs);
    for (Index i = 0; i < lanes; ++i)
      _mm512_storeu_si512(at + i * to.stride, reinterpret_cast<__m512i>(pairs[i]));
  };
  put(high, to.high);
  if (to.low) put(low, to.low);
}

void run_pairs(const PanelProduct<float>& product) {
  static constexpr auto all = kernels(std::make_integer_sequence<int, 14>());
  run_panels<float>(product, all);
}

HWY_POP_ATTRIBUTES

bool has_bf16() {
  // The panels have the format of the f32 kernels of the instruction set in use.
  static const bool cpu = __builtin_cpu_supports("avx512bf16") && !__builtin_cpu_is("intel") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  return cpu && panel_width<float>(2 * lanes) == 2 * lanes;
}
#else
bool has_bf16() { return false; }
void to_pairs(const Strided<float>&, Index, Index, float*) {}
void run_pairs(const PanelProduct<float>&) {}
#endif
}  // namespace attune::simd
