// What the LSTM and both GRUs have in common: tiles of rows that walk through the steps, the
// products with W_h and their normalisation. A cell says what it makes of a row. Not installed.
#pragma once

#include <array>

#include <attune/tensor/check.hpp>
#include <attune/tensor/normalize.hpp>
#include <attune/tensor/packed.hpp>
#include <attune/tensor/product_sizes.hpp>
#include <attune/tensor/recurrent.hpp>
#include <attune/tensor/simd/kernels.hpp>
#include <attune/tensor/threads.hpp>

namespace attune::detail {

/// Rows of a tile: an even share of the batch, for an even number of threads.
inline Index tile_rows(Index batch) {
  constexpr Index pair = 2 * sizes::most_tile_rows;
  const Index pairs = std::max<Index>(1, (batch + pair - 1) / pair);
  const Index share = (batch + 2 * pairs - 1) / (2 * pairs);
  return std::max(sizes::least_tile_rows, (share + 3) / 4 * 4);
}

/// Extents of a recurrence, and the order of its steps.
struct Walk {
  Index steps, batch, hidden;
  Direction direction;

  Index step(Index i) const { return direction == Direction::forward ? i : steps - 1 - i; }
};

/// A tile's rows [begin, end) of a (B, n) slab.
struct Rows {
  Index begin, end;
  Index count() const { return end - begin; }

  template <class T>
  MatrixView<T> of(T* slab, Index cols, Index stride) const {
    return {slab + begin * stride, count(), cols, stride};
  }

  /// Without those at both ends that are masked, given a step's mask (B) or null: the product need
  /// not be made for them.
  template <class T>
  Rows used(const T* mask) const {
    Rows used = *this;
    if (!mask) return used;
    while (used.count() > 0 && mask[used.begin] == 0) ++used.begin;
    while (used.count() > 0 && mask[used.end - 1] == 0) --used.end;
    return used;
  }
  /// The same rows, counted from the first of a tile.
  Rows within(const Rows& tile) const { return {begin - tile.begin, end - tile.begin}; }
};

/// W_h, some of its columns or a transpose, as all steps use it.
template <class T>
class StepMatrix {
 public:
  StepMatrix(const Tensor& w_h, const MatrixView<const T>& w, const Walk& walk) : w_(w) {
    const bool many = walk.steps >= sizes::enough_steps;
    if (w.cols > 0 && (many || walk.batch >= sizes::enough_step_rows || w.transposed)) {
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
    simd::run(simd::LayerNormRow<T>{end - begin, hw + first * n, gain + begin * n, nullptr,
                                    static_cast<T>(layer_norm_epsilon), y, moments + first * 2},
              n);
  }

  /// dy -> dx of the same gates; dgain and dbias, which may be null, are added to.
  void backward(Index at, Index begin, Index end, const T* dy, T* dx, T* dgain, T* dbias) const {
    const Index first = at * gates + begin;
    simd::run(simd::LayerNormBackwardRow<T>{end - begin, hw + first * n, gain + begin * n,
                                            moments + first * 2, dy, dx, dgain, dbias},
              n);
  }
};

template <class T>
ProductNorm<T, T> norm_of(const Tensor& gain, NormalizedProducts& products, Index gates, Index n) {
  return {gates, n, data_or_null<T>(gain), mutable_data_or_null<T>(products.hw),
          mutable_data_or_null<T>(products.moments)};
}
template <class T>
ProductNorm<T, const T> norm_of(const Tensor& gain, const NormalizedProducts& products, Index gates,
                                Index n) {
  return {gates, n, data_or_null<T>(gain), data_or_null<T>(products.hw),
          data_or_null<T>(products.moments)};
}

/// body(rows) for tiles of the batch, side by side.
template <class Body>
void for_tiles(Index batch, Body body) {
  parallel_ranges(batch, tile_rows(batch), [&](Index begin, Index end) { body(Rows{begin, end}); });
}

/// Room for the sums of each tile over its rows, where there is a gain.
inline Tensor tile_sums(const Walk& walk, const Tensor& gain) {
  if (!gain.defined()) return {};
  const Index rows = tile_rows(walk.batch);
  return zeros({(walk.batch + rows - 1) / rows, 6 * walk.hidden}, gain.dtype());
}

/// A step's products with W_h: part 0 makes the gates [0, bounds[1]) from h_{t-1}, and part 1 the
/// rest, [bounds[1], bounds[2]), if any, from what the cell has made of part 0.
template <class T>
struct Parts {
  std::array<Index, 3> bounds;
  std::array<StepMatrix<T>, 2> w_h;

  Index gates() const { return bounds[2]; }
  bool empty(std::size_t p) const { return bounds[p] == bounds[p + 1]; }
  bool last(std::size_t p) const { return bounds[p + 1] == bounds[2]; }
};

/// The columns of W_h of both parts; for backward their transposes.
template <class T>
Parts<T> parts_of(const Tensor& w_h, Index first, Index gates, const Walk& walk,
                  bool transposed = false) {
  const auto part = [&](Index begin, Index end) {
    const auto w = blocks_of<T>(w_h, begin, end);
    return StepMatrix<T>(w_h, transposed ? w.transpose() : w, walk);
  };
  return {{0, first, gates}, {part(0, first), part(first, gates)}};
}

/// A row of the batch at a step, and its states (H) before that step.
template <class T>
struct Place {
  Index at;                  // of (T·B, ...)
  Index row;                 // of (B, ...)
  const T *h_prev, *c_prev;  // null where there is none
};

/// States (T, B, H) and what they start from (B, H), or nulls.
template <class T>
struct States {
  const T *initial, *all;

  /// The row's state before the i-th step in walking order.
  const T* before(const Walk& walk, Index i, Index row) const {
    if (!all) return nullptr;
    const T* states = i == 0 ? initial : all + walk.step(i - 1) * walk.batch * walk.hidden;
    return states + row * walk.hidden;
  }
};

/// What a forward pass reads and writes, whatever the cell. Null is what a cell does not have.
template <class T>
struct ForwardPass {
  Walk walk;
  Parts<T> parts;
  ProductNorm<T, T> norm;
  const T *mask, *h0, *c0;
  T *h, *c, *rh;  // (T, B, H); rh is what part 1 multiplies
  T* gates;       // (T, B, kept · H)
  Index kept;

  /// Where the mask is 0: the states go on, and nothing flows back.
  void carry_over(const Place<T>& p) const {
    const Index n = walk.hidden;
    copy_row(p.h_prev, h + p.at * n, n);
    if (c) copy_row(p.c_prev, c + p.at * n, n);
    if (rh) std::fill_n(rh + p.at * n, n, T(0));
    std::fill_n(gates + p.at * kept * n, kept * n, T(0));
  }
};

/// Takes each tile of rows through all steps. run(part, place, hw) computes the gates and states of
/// a row from its products hw (G·H), which are normalised if there is a gain; it may overwrite hw.
template <class T, class Run>
void run_forward(const ForwardPass<T>& pass, Run run) {
  const Walk& walk = pass.walk;
  const Parts<T>& parts = pass.parts;
  const Index n = walk.hidden, width = parts.gates() * n;
  const States<T> h{pass.h0, pass.h}, c{pass.c0, pass.c};
  for_tiles(walk.batch, [&](Rows rows) {
    Tensor scratch = Tensor::uninitialized({rows.count(), width}, dtype_of<T>);
    T* hw = scratch.mutable_data<T>();
    for (Index i = 0; i < walk.steps; ++i) {
      const Index first = walk.step(i) * walk.batch;
      const Rows used = rows.used(pass.mask ? pass.mask + first : nullptr);
      T* products = pass.norm.products(first + rows.begin, hw);
      for (std::size_t p = 0; p < 2 && !parts.empty(p); ++p) {
        const T* x = p == 0 ? h.before(walk, i, 0) : pass.rh + first * n;
        const Index begin = parts.bounds[p] * n, columns = parts.bounds[p + 1] * n - begin;
        parts.w_h[p].multiply(used.of(x, n, n),
                              used.within(rows).of(products + begin, columns, width));
        for (Index row = rows.begin; row < rows.end; ++row) {
          const Place<T> place{first + row, row, h.before(walk, i, row), c.before(walk, i, row)};
          if (!pass.mask || pass.mask[place.at] != 0) {
            T* y = hw + (row - rows.begin) * width;
            if (pass.norm) {
              pass.norm.forward(place.at, parts.bounds[p], parts.bounds[p + 1], y + begin);
            }
            run(p, place, y);
          } else if (p == 0) {
            pass.carry_over(place);
          }
        }
      }
    }
  });
}

/// What a backward pass reads and writes.
template <class T>
struct BackwardPass {
  Walk walk;
  Parts<T> parts;      // transposed
  const T *mask, *dh;  // (T, B), (T, B, H), or null
  States<T> h, c;      // of forward, where the cell asks for them
  T *dxw, *dhw;        // (T, B, G·H), perhaps the same
  T* dh0;              // (B, H): carries ∂L/∂h from step to step
  T* sums;             // (tiles, 6H), or null
};

/// What a row may use in backward.
template <class T>
struct RowScratch {
  T* row;       // (H)
  T* products;  // (H): the gradient of what part 1 multiplied
  T* sums;      // (6H), of the tile, for gradients of gains and biases
};

/// Takes each tile back through all steps, from the last part to the first: run(part, place,
/// scratch), and then the product of dhw with W_hᵀ, which part 0 adds to dh_{t-1}.
template <class T, class Run>
void run_backward(const BackwardPass<T>& pass, Run run) {
  const Walk& walk = pass.walk;
  const Parts<T>& parts = pass.parts;
  const Index n = walk.hidden, width = parts.gates() * n;
  for_tiles(walk.batch, [&](Rows rows) {
    Tensor scratch = Tensor::uninitialized({rows.count() + 1, n}, dtype_of<T>);
    T *of_row = scratch.mutable_data<T>(), *products = of_row + n;
    T* of_tile = pass.sums ? pass.sums + rows.begin / tile_rows(walk.batch) * 6 * n : nullptr;
    for (Index i = walk.steps - 1; i >= 0; --i) {
      const Index first = walk.step(i) * walk.batch;
      const Rows used = rows.used(pass.mask ? pass.mask + first : nullptr);
      if (pass.dh) {
        add_rows(pass.dh + (first + rows.begin) * n, pass.dh0 + rows.begin * n, rows.count() * n);
      }
      for (std::size_t p = 2; p-- > 0;) {
        if (parts.empty(p)) continue;
        for (Index row = rows.begin; row < rows.end; ++row) {
          const Index at = first + row;
          if (!pass.mask || pass.mask[at] != 0) {
            run(p, Place<T>{at, row, pass.h.before(walk, i, row), pass.c.before(walk, i, row)},
                RowScratch<T>{of_row, products + (row - rows.begin) * n, of_tile});
          } else if (parts.last(p)) {
            std::fill_n(pass.dxw + at * width, width, T(0));
            std::fill_n(pass.dhw + at * width, width, T(0));
          }
        }
        const Index begin = parts.bounds[p] * n, columns = parts.bounds[p + 1] * n - begin;
        const T* d = pass.dhw + first * width + begin;
        parts.w_h[p].multiply(
            used.of(d, columns, width),
            p == 0 ? used.of(pass.dh0, n, n) : used.within(rows).of(products, n, n),
            p == 0 ? Into::add : Into::overwrite);
      }
    }
  });
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
