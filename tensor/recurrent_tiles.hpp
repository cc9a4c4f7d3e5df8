// What the LSTM and the GRU have in common: tiles of rows, the order of steps, the product with W_h
// and its normalisation. Not installed.
#pragma once

#include <attune/tensor/check.hpp>
#include <attune/tensor/normalize.hpp>
#include <attune/tensor/packed.hpp>
#include <attune/tensor/recurrent.hpp>
#include <attune/tensor/simd/kernels.hpp>
#include <attune/tensor/threads.hpp>

namespace attune::detail {

/// Rows of the batch that one thread takes through all steps: an even share of them, for an even
/// number of threads, but not so few that the products become matrix-vector products.
inline Index tile_rows(Index batch) {
  constexpr Index most_rows = 40;
  const Index pairs = std::max<Index>(1, (batch + 2 * most_rows - 1) / (2 * most_rows));
  const Index share = (batch + 2 * pairs - 1) / (2 * pairs);
  return std::max<Index>(8, (share + 3) / 4 * 4);
}

/// Extents of a recurrence, the order of its steps, and where the previous state of a step stands.
struct Walk {
  Index steps, batch, hidden;
  Direction direction;

  Index step(Index i) const { return direction == Direction::forward ? i : steps - 1 - i; }

  /// State before the i-th step in walking order: the initial one, or h at the step visited before.
  template <class T>
  const T* previous(const T* initial, const T* states, Index i) const {
    return i == 0 ? initial : states + step(i - 1) * batch * hidden;
  }
};

/// A tile's rows [begin, end) of a (B, n) slab.
struct Rows {
  Index begin, end;
  Index count() const { return end - begin; }

  template <class T>
  MatrixView<T> of(T* slab, Index cols, Index stride) const {
    return {slab + begin * stride, count(), cols, stride};
  }

  /// Without those at both ends whose mask at step t is 0: the product need not be made for them.
  template <class T>
  Rows used(const T* mask, Index t, Index batch) const {
    Rows used = *this;
    if (!mask) return used;
    while (used.count() > 0 && mask[t * batch + used.begin] == 0) ++used.begin;
    while (used.count() > 0 && mask[t * batch + used.end - 1] == 0) --used.end;
    return used;
  }
  /// The same rows, counted from the first of a tile.
  Rows within(const Rows& tile) const { return {begin - tile.begin, end - tile.begin}; }
};

/// Steps from which on a packed matrix pays at once, and rows of a single step from which on it
/// pays when further calls follow, as in a decoder.
inline constexpr Index enough_steps = 3, enough_rows = 2;

/// W_h, some of its columns or a transpose, as all steps use it.
template <class T>
class StepMatrix {
 public:
  StepMatrix(const Tensor& w_h, const MatrixView<const T>& w, const Walk& walk) : w_(w) {
    const bool many = walk.steps >= enough_steps;
    if (w.cols > 0 && (many || walk.batch >= enough_rows || w.transposed)) {
      packed_ = kept_packed(w_h, w, many ? Uses::many : Uses::one);
    }
  }

  void multiply(const MatrixView<const T>& a, const MatrixView<T>& c,
                Into into = Into::overwrite) const {
    packed_.defined() ? gemm<T>(a, packed_, c, into) : gemm<T>(a, w_, c, into);
  }

 private:
  MatrixView<const T> w_;
  PackedMatrix<T> packed_;
};

/// Columns [begin, end) of w_h in blocks of H.
template <class T>
MatrixView<const T> blocks_of(const Tensor& w_h, Index begin, Index end) {
  const Index n = w_h.dim(0);
  return {w_h.data<T>() + begin * n, n, (end - begin) * n, w_h.dim(1)};
}

template <class Body>
void for_tiles(Index batch, Body body) {
  parallel_ranges(batch, tile_rows(batch), [&](Index begin, Index end) { body(Rows{begin, end}); });
}

template <class T>
const T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}
template <class T>
T* mutable_data_or_null(Tensor& x) {
  return x.defined() ? x.mutable_data<T>() : nullptr;
}

inline Tensor or_zeros(const Tensor& x, const Shape& shape, DType dtype) {
  return x.defined() ? x : zeros(shape, dtype);
}

template <class T>
void copy_row(const T* from, T* to, Index n) {
  std::copy_n(from, n, to);
}

template <class T>
void add_rows(const T* from, T* to, Index n) {
  for (Index i = 0; i < n; ++i) to[i] += from[i];
}

/// Room for what backward will need, where there is a gain.
inline NormalizedProducts products_of(const Walk& walk, const Tensor& gain, Index gates) {
  if (!gain.defined()) return {};
  const Shape moments{walk.steps, walk.batch, gates, 2};
  return {Tensor::uninitialized(moments.without(3).with(2, gates * walk.hidden), gain.dtype()),
          Tensor::uninitialized(moments, gain.dtype())};
}

/// Layer normalisation of the products with W_h, of each gate's H elements; false without a gain.
/// Kept is const T in backward, which reads what forward has kept.
template <class T, class Kept>
struct ProductNorm {
  Index gates, n;
  const T* gain;       // (G·H)
  Kept *hw, *moments;  // (T, B, G·H), (T, B, G, 2)

  explicit operator bool() const { return gain; }

  /// Where a tile's products go, of which `at` is the first row: what is normalised is kept.
  T* products(Index at, T* scratch) const { return gain ? hw + at * gates * n : scratch; }

  /// Gates [begin, end) of row `at` -> y
  void forward(Index at, Index begin, Index end, T* y) const {
    const Index first = at * gates + begin;
    simd::run(simd::LayerNormRow<T>{static_cast<std::size_t>(end - begin), hw + first * n,
                                    gain + begin * n, nullptr, static_cast<T>(layer_norm_epsilon),
                                    y, moments + first * 2},
              static_cast<std::size_t>(n));
  }

  /// dy -> dx of the same gates; dgain and dbias, which may be null, are added to.
  void backward(Index at, Index begin, Index end, const T* dy, T* dx, T* dgain, T* dbias) const {
    const Index first = at * gates + begin;
    simd::run(
        simd::LayerNormBackwardRow<T>{static_cast<std::size_t>(end - begin), hw + first * n,
                                      gain + begin * n, moments + first * 2, dy, dx, dgain, dbias},
        static_cast<std::size_t>(n));
  }
};

/// Sums over all rows for the gradients of gains and biases, 6H in all: each tile makes its own.
inline Tensor tile_sums(const Walk& walk, const Tensor& gain) {
  if (!gain.defined()) return {};
  const Index rows = tile_rows(walk.batch);
  return zeros({(walk.batch + rows - 1) / rows, 6 * walk.hidden}, gain.dtype());
}
template <class T>
T* sums_of_tile(T* sums, const Walk& walk, const Rows& rows) {
  return sums ? sums + rows.begin / tile_rows(walk.batch) * 6 * walk.hidden : nullptr;
}

/// What is defined of these has its shape, and xw's dtype.
struct Optional {
  const char* name;
  const Tensor& x;
  const char* letters;
};
inline void check_optional(ShapeCheck& check, const Tensor& xw,
                           std::initializer_list<Optional> all) {
  for (const auto& [name, x, letters] : all) {
    if (!x.defined()) continue;
    check(name, x.shape(), letters);
    require_same_dtype("recurrent", xw, x);
  }
}

}  // namespace attune::detail
