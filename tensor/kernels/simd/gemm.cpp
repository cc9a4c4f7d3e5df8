#include <algorithm>
#include <array>
#include <utility>

#include <attune/tensor/kernels/simd/dispatch.hpp>
#include <attune/tensor/kernels/simd/gemm.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attune/tensor/kernels/simd/gemm.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which compiles this file once for every instruction set.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attune::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Rows of C in registers, two registers each, leaving some for B and an element of A.
constexpr Index kMaxRows = HWY_ARCH_ARM || HWY_TARGET <= HWY_AVX3 ? 14 : 6;

template <class T>
HWY_INLINE Index Lanes() {
  return static_cast<Index>(hn::Lanes(hn::ScalableTag<T>()));
}

/// f(0), f(1), ..., f(n - 1) with constant indices, so that arrays of registers stay in registers.
template <Index n, class F>
HWY_INLINE void Unroll(F f) {
  [&]<Index... i>(std::integer_sequence<Index, i...>) HWY_ATTR {
    (f(std::integral_constant<Index, i>()), ...);
  }
  (std::make_integer_sequence<Index, n>());
}

/// C = start + A·B for kRows rows and one panel of B. Multiplies each element of A by one or two
/// registers of B, and adds the products to as many registers for each row of C.
template <class T, Index kRegisters, Index kRows>
void Kernel(Index depth, const T* a, Index a_row, Index a_column, const T* b, Index stride_b, T* c,
            Index stride_c, Start<T> start, Ahead<T> ahead) {
  constexpr Index kTogether = Ahead<T>::group, kWide = 512;
  const Index fetched_rows = stride_c < kWide ? 0 : kRows;  // a narrow C is in the cache already
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const Index lanes = Lanes<T>();
  V sum[kRows][kRegisters];
  Unroll<kRows>([&](auto i) HWY_ATTR {
    Unroll<kRegisters>([&](auto j) HWY_ATTR {
      sum[i][j] =
          start.data ? hn::LoadU(d, start.data + i * start.stride + j * lanes) : hn::Zero(d);
    });
  });
  // One pointer for three rows: a single one, or one per row, would need more registers.
  const T* rows[(kRows + 2) / 3];
  Unroll<(kRows + 2) / 3>([&](auto i) HWY_ATTR { rows[i] = a + 3 * i * a_row; });
  for (Index begin = 0; begin < depth; begin += kTogether) {
    fetch(ahead.data + begin / kTogether * ahead.stride, ahead.n);
    // Two rows of C, which are stored at the end.
    for (Index i = begin / kTogether * 2, end = std::min(i + 2, fetched_rows); i < end; ++i)
      fetch(c + i * stride_c, kRegisters * lanes);
    for (Index k = std::min(kTogether, depth - begin); k > 0; --k) {
      V y[kRegisters];
      Unroll<kRegisters>([&](auto j) HWY_ATTR { y[j] = hn::LoadU(d, b + j * lanes); });
      Unroll<kRows>([&](auto i) HWY_ATTR {
        const V x = hn::Set(d, rows[i / 3][i % 3 * a_row]);
        Unroll<kRegisters>([&](auto j) HWY_ATTR { sum[i][j] = hn::MulAdd(x, y[j], sum[i][j]); });
      });
      Unroll<(kRows + 2) / 3>([&](auto i) HWY_ATTR { rows[i] += a_column; });
      b += stride_b;
    }
  }
  Unroll<kRows>([&](auto i) HWY_ATTR {
    Unroll<kRegisters>([&](auto j)
                           HWY_ATTR { hn::StoreU(sum[i][j], d, c + i * stride_c + j * lanes); });
  });
}

/// The kernels for 1, 2, ... rows.
template <class T, Index kRegisters, std::size_t... i>
constexpr std::array<PanelKernel<T>, sizeof...(i)> Kernels(std::index_sequence<i...>) {
  return {Kernel<T, kRegisters, static_cast<Index>(i) + 1>...};
}

template <class T>
void Run(const PanelProduct<T>& product) {
  constexpr auto kRows = std::make_index_sequence<kMaxRows>();
  static constexpr auto kOne = Kernels<T, 1>(kRows), kTwo = Kernels<T, 2>(kRows);
  run_panels<T>(product, product.width == Lanes<T>() ? kOne : kTwo);
}

#if HWY_TARGET != HWY_SCALAR
/// The first 16-byte blocks of several rows, which are `step` elements apart, in one register.
template <class D, class T>
HWY_INLINE hn::Vec<D> BlocksOfRows(D d, const T* x, Index step) {
  if constexpr (hn::MaxLanes(d) * sizeof(T) == 16) {
    return hn::LoadU(d, x);
  } else {
    const hn::Half<D> half;
    const Index blocks = static_cast<Index>(hn::MaxLanes(half) * sizeof(T) / 16);
    return hn::Combine(d, BlocksOfRows(half, x + blocks * step, step), BlocksOfRows(half, x, step));
  }
}

/// Transposes the first columns (as many as fit in 16 bytes) of as many rows as a register has
/// lanes. Rows are `row` elements apart in x, columns `step` elements in the result.
HWY_INLINE void TransposeBlocks(const float* x, Index row, float* to, Index step) {
  const hn::ScalableTag<float> d;
  const auto x0 = BlocksOfRows(d, x, 4 * row), x1 = BlocksOfRows(d, x + row, 4 * row),
             x2 = BlocksOfRows(d, x + 2 * row, 4 * row), x3 = BlocksOfRows(d, x + 3 * row, 4 * row);
  const auto low02 = hn::InterleaveLower(d, x0, x2), low13 = hn::InterleaveLower(d, x1, x3);
  const auto high02 = hn::InterleaveUpper(d, x0, x2), high13 = hn::InterleaveUpper(d, x1, x3);
  hn::Store(hn::InterleaveLower(d, low02, low13), d, to);
  hn::Store(hn::InterleaveUpper(d, low02, low13), d, to + step);
  hn::Store(hn::InterleaveLower(d, high02, high13), d, to + 2 * step);
  hn::Store(hn::InterleaveUpper(d, high02, high13), d, to + 3 * step);
}
HWY_INLINE void TransposeBlocks(const double* x, Index row, double* to, Index step) {
  const hn::ScalableTag<double> d;
  const auto x0 = BlocksOfRows(d, x, 2 * row), x1 = BlocksOfRows(d, x + row, 2 * row);
  hn::Store(hn::InterleaveLower(d, x0, x1), d, to);
  hn::Store(hn::InterleaveUpper(d, x0, x1), d, to + step);
}
#endif

/// Packs whole panels of a matrix with contiguous rows, some rows at a time: then rows and panels
/// are few enough streams for the hardware prefetcher.
template <class T>
HWY_INLINE void CopyPanels(const T* b, Index stride, Index depth, Index panels, Index width,
                           T* to) {
  constexpr Index kTogether = 8;
  const hn::ScalableTag<T> d;
  const Index lanes = Lanes<T>();
  for (Index begin = 0; begin < depth; begin += kTogether) {
    const Index end = std::min(begin + kTogether, depth);
    for (Index panel = 0; panel < panels; ++panel) {
      for (Index k = begin; k < end; ++k) {
        const T* from = b + k * stride + panel * width;
        T* row = to + (panel * depth + k) * width;
        for (Index j = 0; j < width; j += lanes) hn::Store(hn::LoadU(d, from + j), d, row + j);
      }
    }
  }
}

/// Packs a whole panel of a matrix with contiguous columns, `stride` apart.
template <class T>
HWY_INLINE void TransposePanel(const T* b, Index stride, Index depth, Index width, T* to) {
  Index k = 0;
#if HWY_TARGET != HWY_SCALAR
  // One cache line of each row at a time: rows a power of two apart evict each other.
  constexpr Index kLine = 64 / sizeof(T), kBlock = 16 / sizeof(T);
  for (const Index whole = depth - depth % kBlock; k < whole; k = std::min(k + kLine, whole)) {
    for (Index half = 0; half < width; half += Lanes<T>()) {
      for (Index at = k; at < std::min(k + kLine, whole); at += kBlock) {
        TransposeBlocks(b + half * stride + at, stride, to + at * width + half, width);
      }
    }
  }
#endif
  for (; k < depth; ++k) {
    for (Index j = 0; j < width; ++j) to[k * width + j] = b[j * stride + k];
  }
}

/// Copies n neighbouring elements with two overlapping registers, or half registers, if n > 1.
template <class T>
HWY_INLINE void CopyFew(const T* from, Index n, T* to) {
  const auto copy = [&](auto d) HWY_ATTR {
    const Index lanes = static_cast<Index>(hn::Lanes(d));
    if (n < lanes) return false;
    for (Index j = 0; j + lanes < n; j += lanes) hn::StoreU(hn::LoadU(d, from + j), d, to + j);
    hn::StoreU(hn::LoadU(d, from + n - lanes), d, to + n - lanes);
    return true;
  };
  const hn::ScalableTag<T> d;
  if (copy(d)) return;
#if HWY_TARGET != HWY_SCALAR
  if (copy(hn::Half<decltype(d)>())) return;
#endif
  std::copy_n(from, n, to);
}

/// Except for the last columns, copies whole registers: what they add is overwritten, by the next
/// columns or by the next rows.
template <class T>
HWY_INLINE void PackRows(Strided<T> a, Index rows, Index depth, T* to) {
  constexpr Index kTogether = 8;
  const hn::ScalableTag<T> d;
  const RowParts parts(rows, kMaxRows);
  for (Index k0 = 0; k0 < depth; k0 += kTogether) {
    for (Index i = 0; i < parts.count; ++i) {
      const Index begin = parts.begin(i), n = parts.begin(i + 1) - begin;
      const T* from = a.data + begin + k0 * a.column;
      T* column = to + begin * depth + k0 * n;
      const Index whole = depth - ceil_div(Lanes<T>(), n);
      for (Index k = k0; k < std::min(k0 + kTogether, depth); ++k, from += a.column, column += n) {
        if (k >= whole) {
          CopyFew(from, n, column);
          continue;
        }
        for (Index j = 0; j < n; j += Lanes<T>()) hn::StoreU(hn::LoadU(d, from + j), d, column + j);
      }
    }
  }
}

template <class T>
HWY_INLINE void PackPanels(Strided<T> b, Index depth, Index columns, Index width, T* panels) {
  const Index whole = columns / width, rest = columns % width;
  if (b.column == 1) {
    CopyPanels(b.data, b.row, depth, whole, width, panels);
  } else {
    for (Index i = 0; i < whole; ++i) {
      TransposePanel(b.data + i * width * b.column, b.column, depth, width,
                     panels + i * width * depth);
    }
  }
  if (rest == 0) return;
  const T* from = b.data + whole * width * b.column;
  T* to = panels + whole * width * depth;
  std::fill_n(to, depth * width, T(0));
  for (Index k = 0; k < depth; ++k) {
    for (Index j = 0; j < rest; ++j) to[k * width + j] = from[k * b.row + j * b.column];
  }
}

/// C += A·B for kRows rows of C and kDepth rows of B.
template <Index kRows, Index kDepth, class T>
HWY_INLINE void AddRows(Index columns, Strided<T> a, const T* b, Index stride_b, T* c,
                        Index stride_c) {
  T x[kDepth][kRows];
  Unroll<kDepth>([&](auto k) HWY_ATTR {
    Unroll<kRows>([&](auto i) HWY_ATTR { x[k][i] = a.data[i * a.row + k * a.column]; });
  });
  const auto add = [&](auto d, Index at) HWY_ATTR {
    hn::Vec<decltype(d)> sum[kRows];
    Unroll<kRows>([&](auto i) HWY_ATTR { sum[i] = hn::LoadU(d, c + i * stride_c + at); });
    Unroll<kDepth>([&](auto k) HWY_ATTR {
      const auto y = hn::LoadU(d, b + k * stride_b + at);
      Unroll<kRows>([&](auto i) HWY_ATTR { sum[i] = hn::MulAdd(hn::Set(d, x[k][i]), y, sum[i]); });
    });
    Unroll<kRows>([&](auto i) HWY_ATTR { hn::StoreU(sum[i], d, c + i * stride_c + at); });
  };
  const hn::ScalableTag<T> wide;
  const hn::CappedTag<T, 1> one;
  Index at = 0;
  for (; at + Lanes<T>() <= columns; at += Lanes<T>()) add(wide, at);
  for (; at < columns; ++at) add(one, at);
}

template <class T>
HWY_INLINE void Run(const RowProduct<T>& p) {
  constexpr Index kDepth = 8;
  const auto add = [&](auto depth, Index k) HWY_ATTR {
    Index row = 0;
    const auto rows = [&](auto count) HWY_ATTR {
      for (; row + count <= p.rows; row += count) {
        AddRows<count, depth>(p.columns, p.a.from(row, k), p.b + k * p.stride_b, p.stride_b,
                              p.c + row * p.stride_c, p.stride_c);
      }
    };
    rows(std::integral_constant<Index, 4>());
    rows(std::integral_constant<Index, 1>());
  };
  Index k = 0;
  for (; k + kDepth <= p.depth; k += kDepth) add(std::integral_constant<Index, kDepth>(), k);
  for (; k < p.depth; ++k) add(std::integral_constant<Index, 1>(), k);
}

template <class T>
HWY_INLINE Index PanelWidth(Index columns) {
  return columns <= Lanes<T>() ? Lanes<T>() : 2 * Lanes<T>();
}

// clang-format off
#define ATTUNE_KERNELS(KERNEL, T, bits) \
  KERNEL(Index, PanelWidth<T>, PanelWidth##bits, panel_width<T>, (Index columns), (columns)) \
  KERNEL(void, PackPanels, PackPanels##bits, pack_panels, (Strided<T> b, Index depth, Index columns, Index width, T* panels), (b, depth, columns, width, panels)) \
  KERNEL(void, PackRows, PackRows##bits, pack_rows, (Strided<T> a, Index rows, Index depth, T* to), (a, rows, depth, to)) \
  KERNEL(void, Run, PanelProduct##bits, run, (const PanelProduct<T>& product), (product)) \
  KERNEL(void, Run, RowProduct##bits, run, (const RowProduct<T>& product), (product))
// clang-format on
ATTUNE_KERNELS(ATTUNE_DEFINE, float, F32)
ATTUNE_KERNELS(ATTUNE_DEFINE, double, F64)

}  // namespace attune::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attune::simd {

ATTUNE_KERNELS(ATTUNE_CHOOSE, float, F32)
ATTUNE_KERNELS(ATTUNE_CHOOSE, double, F64)

}  // namespace attune::simd
#endif  // HWY_ONCE
