// Matrix products in bf16 by AMX tiles (Intel), and an emulation of the instructions for tests.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <hwy/base.h>

#include <attune/tensor/kernels/simd/tiles.hpp>
#include <attune/tensor/platform.hpp>

#if HWY_ARCH_X86_64
#include <cpuid.h>
#endif

namespace attune::simd {
namespace {

/// Rows of a tile, and pairs or f32 in each row; elements of a tile; rows and columns of a block of
/// C, which consists of two by two tiles.
constexpr Index side = tile_side, tile_size = side * side, block_side = 2 * side;

/// The instructions as Intel specifies them (Instruction Set Extensions Programming Reference,
/// chapter 3, TDPBF16PS): subnormal numbers count as 0.
struct Emulated {
  struct Session {};

  static inline thread_local float tiles[8][tile_size];

  template <int tile>
  static void zero() {
    std::fill_n(tiles[tile], tile_size, 0.0F);
  }
  template <int tile>
  static void load(const float* from, Index stride) {
    for (Index i = 0; i < side; ++i) std::copy_n(from + i * stride, side, tiles[tile] + i * side);
  }
  template <int tile>
  static void store(float* to, Index stride) {
    for (Index i = 0; i < side; ++i) std::copy_n(tiles[tile] + i * side, side, to + i * stride);
  }
  template <int c, int a, int b>
  static void multiply() {
    for (Index i = 0; i < side; ++i) {
      for (Index j = 0; j < side; ++j) {
        float even = 0, odd = 0;
        for (Index k = 0; k < side; ++k) {
          const auto x = std::bit_cast<std::uint32_t>(tiles[a][i * side + k]),
                     y = std::bit_cast<std::uint32_t>(tiles[b][k * side + j]);
          even = flushed(std::fma(factor(x << 16), factor(y << 16), even));
          odd = flushed(std::fma(factor(x), factor(y), odd));
        }
        float& sum = tiles[c][i * side + j];
        sum = flushed(flushed(sum) + flushed(even + odd));
      }
    }
  }

  static void to_pairs(const Strided<float>& x, Index rows, Index depth, const TilePairs& to) {
    for (Index i = 0; i < side; ++i) {
      for (Index k = 0; k < block_side; k += 2) {
        std::uint32_t high[2] = {}, low[2] = {};
        for (Index j = 0; j < 2 && i < rows && k + j < depth; ++j) {
          const float value = x.data[i * x.row + (k + j) * x.column];
          high[j] = rounded(value);
          low[j] = rounded(value - factor(high[j] << 16));
        }
        const Index at = to.transposed ? k / 2 * to.stride + i : i * to.stride + k / 2;
        to.high[at] = std::bit_cast<float>(high[0] | high[1] << 16);
        if (to.low) to.low[at] = std::bit_cast<float>(low[0] | low[1] << 16);
      }
    }
  }

 private:
  static float flushed(float x) {
    return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
  }
  static float factor(std::uint32_t bits) {
    return flushed(std::bit_cast<float>(bits & 0xFFFF0000));
  }
  /// The nearest bf16, ties to even.
  static std::uint32_t rounded(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(flushed(x));
    return x != x ? bits >> 16 | 0x40 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  }
};

#if HWY_ARCH_X86_64
struct Tiles {
  /// Configures the tiles, all as 16 rows of 64 bytes, and releases them on scope exit.
  struct Session {
    Session() {
      struct alignas(64) {
        std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
        std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
      } const configuration;
      asm volatile("ldtilecfg %0" : : "m"(configuration));
    }
    ~Session() { asm volatile("tilerelease"); }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
  };

  template <int tile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(tile));
  }
  template <int tile>
  static void load(const float* from, Index stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(from), "r"(4 * stride), "i"(tile)
                 : "memory");
  }
  template <int tile>
  static void store(float* to, Index stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                 :
                 : "r"(to), "r"(4 * stride), "i"(tile)
                 : "memory");
  }
  template <int c, int a, int b>
  static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
  }

  static void to_pairs(const Strided<float>& x, Index rows, Index depth, const TilePairs& to) {
    to_tile_pairs(x, rows, depth, to);
  }
};

/// True if the CPU has the instructions and the system lets this process use them.
bool permitted() {
  unsigned a, b, c, d;
  if (!__builtin_cpu_supports("avx512bf16") || !__get_cpuid_count(7, 0, &a, &b, &c, &d) ||
      !(d >> 22 & 1) || !(d >> 24 & 1))
    return false;
  return platform::permit_tiles();
}
#else
using Tiles = Emulated;
bool permitted() { return false; }
#endif

/// C = start + A·B for a block of C. The tiles of the upper 16 rows of A are contiguous; those of
/// the lower 16 begin `below` elements later. The rows of B's panel are 32 elements apart. Split
/// factors have a tile of high parts, then one of low parts. The product of low parts is omitted.
template <class Machine, bool split>
void multiply_block(Index steps, const float* a, Index below, const float* b, float* c,
                    Index stride, Start<float> start) {
  constexpr Index parts = split ? 2 : 1, b_size = side * block_side;
  const auto load_a = [&](const float* from) {
    Machine::template load<4>(from, side);
    Machine::template load<5>(from + below, side);
  };
  const auto load_b = [&](const float* from) {
    Machine::template load<6>(from, block_side);
    Machine::template load<7>(from + side, block_side);
  };
  const auto multiply = [] {
    Machine::template multiply<0, 4, 6>();
    Machine::template multiply<1, 4, 7>();
    Machine::template multiply<2, 5, 6>();
    Machine::template multiply<3, 5, 7>();
  };
  if (start.data) {
    Machine::template load<0>(start.data, start.stride);
    Machine::template load<1>(start.data + side, start.stride);
    Machine::template load<2>(start.data + side * start.stride, start.stride);
    Machine::template load<3>(start.data + side * start.stride + side, start.stride);
  } else {
    Machine::template zero<0>(), Machine::template zero<1>();
    Machine::template zero<2>(), Machine::template zero<3>();
  }
  for (Index k = 0; k < steps; k += parts * side, a += parts * tile_size, b += parts * b_size) {
    load_a(a), load_b(b);
    multiply();
    if constexpr (split) {
      load_b(b + b_size);
      multiply();
      load_a(a + tile_size), load_b(b);
      multiply();
    }
  }
  Machine::template store<0>(c, stride);
  Machine::template store<1>(c + side, stride);
  Machine::template store<2>(c + side * stride, stride);
  Machine::template store<3>(c + side * stride + side, stride);
}

template <class Machine, bool split>
void run_blocks(const PanelProduct<float>& p) {
  [[maybe_unused]] const typename Machine::Session session;
  alignas(64) float edge[block_side * block_side];
  const float* panel = p.panels;
  for (Index column = 0; column < p.columns; column += block_side, panel += p.panel_stride) {
    const Index columns = std::min(block_side, p.columns - column);
    for (Index row = 0; row < p.rows; row += block_side) {
      const Index rows = std::min(block_side, p.rows - row);
      const bool whole = rows == block_side && columns == block_side;
      float* const c = p.c + row * p.stride_c + column;
      Start<float> start = p.start.from(row, column);
      if (!whole && start.data) {
        copy_rows(start.data, start.stride, edge, block_side, rows, columns);
        start = {edge, block_side};
      }
      multiply_block<Machine, split>(p.depth, p.a.from(row, 0).data, side * p.a.row, panel,
                                     whole ? c : edge, whole ? p.stride_c : block_side, start);
      if (!whole) copy_rows(edge, block_side, c, p.stride_c, rows, columns);
    }
  }
}

template <class Machine>
void fill_tiles(const Strided<float>& x, Index rows, Index depth, const TileForm& form, Index steps,
                float* to) {
  for (Index row = 0; row < ceil_div(rows, block_side) * block_side; row += side) {
    const Index right = form.panels ? row % block_side : 0;
    float* const high = to + (row - right) * steps + right;
    float* const low = form.split ? high + (form.panels ? side * block_side : tile_size) : nullptr;
    Machine::to_pairs(x.from(row, 0), rows - row, depth,
                      {high, low, form.panels ? block_side : side, form.panels});
  }
}

}  // namespace

bool has_tiles() {
  static const bool here = permitted();
  // Not if less than AVX-512 is selected.
  return emulated_tiles || (here && panel_width<float>(block_side) == block_side);
}

void to_tiles(const Strided<float>& x, Index rows, Index depth, const TileForm& form, Index steps,
              float* to) {
  (emulated_tiles ? fill_tiles<Emulated> : fill_tiles<Tiles>)(x, rows, depth, form, steps, to);
}

void run_tiles(const PanelProduct<float>& product, bool split) {
  if (emulated_tiles) {
    (split ? run_blocks<Emulated, true> : run_blocks<Emulated, false>)(product);
  } else {
    (split ? run_blocks<Tiles, true> : run_blocks<Tiles, false>)(product);
  }
}

}  // namespace attune::simd
