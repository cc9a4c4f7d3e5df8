// One driver for the LSTM and both GRUs: tiles of rows walk through the steps and make the products
// with W_h; a cell says what it makes of a row.
#include <vector>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/product_sizes.hpp>
#include <attune/tensor/recurrent.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/simd/kernels.hpp>
#include <attune/tensor/threads.hpp>

namespace attune {
namespace {

using namespace detail;

/// A recurrence of T steps, their order, and how the cell's columns stand, in blocks of H. A step
/// makes its products in two parts: of the first gates from h_{t-1}, and of the others, if any, from
/// r ⊙ h_{t-1}.
struct Walk {
  Cell cell;
  Index steps, batch, hidden;
  Direction direction;
  Index gates = gates_of(cell);                                   // of xw and of W_h
  Index from_state = cell == Cell::gru_reset_before ? 2 : gates;  // gates of the first part
  Index kept = cell == Cell::gru_reset_before ? 3 : 4;            // of `gates` in RecurrentStates

  Index step(Index i) const { return direction == Direction::forward ? i : steps - 1 - i; }
  Index width() const { return gates * hidden; }
};

Walk walk_of(const Tensor& xw, const Tensor& w_h, const RecurrenceOf<Tensor>& o) {
  return {o.cell, xw.dim(0), xw.dim(1), w_h.dim(0), o.direction};
}

/// What is defined of the optional inputs has xw's dtype.
void check_recurrent(const Tensor& xw, const Tensor& w_h, const RecurrenceOf<Tensor>& o) {
  const bool lstm = o.cell == Cell::lstm;
  const char* const operation = operation_of(o.cell);
  ShapeCheck check(operation);
  check("w_h", w_h, lstm ? "H 4H" : "H 3H");
  check("xw", xw, lstm ? "T B 4H" : "T B 3H");
  const auto optional = [&](const char* name, const Tensor& x, const char* letters,
                            bool allowed = true, const char* of = "") {
    if (!x.defined()) return;
    if (!allowed) fail(operation, "{} belongs to {} only", name, of);
    check(name, x, letters);
    require_same_dtype(operation, xw, x);
  };
  require_same_dtype(operation, xw, w_h);
  optional("b_hn", o.b_hn, "H", o.cell == Cell::gru, "Cell::gru");
  optional("c0", o.c0, "B H", lstm, "an LSTM");
  optional("h0", o.h0, "B H");
  optional("mask", o.mask, "T B");
  if (xw.dim(0) == 0) fail(operation, "the sequence has no steps");
}

Tensor defined_or_zeros(const Tensor& x, const Shape& shape, DType dtype) {
  return x.defined() ? x : zeros(shape, dtype);
}

/// The product of a step that makes the gates in columns [begin, begin + columns): W_h's part of
/// them, or for backward its transpose, as all steps use it.
template <class T>
struct Part {
  Index begin, columns;
  MatrixView<const T> w;
  PackedMatrix<T> packed;

  void multiply(const MatrixView<const T>& a, const MatrixView<T>& c,
                Into into = Into::overwrite) const {
    packed.defined() ? gemm<T>(a, packed, c, into) : gemm<T>(a, w, c, into);
  }
};

template <class T>
std::vector<Part<T>> parts_of(const Tensor& w_h, const Walk& walk, bool transposed) {
  const Index n = walk.hidden, first = walk.from_state * n;
  const bool many = walk.steps >= sizes::enough_steps;
  std::vector<Part<T>> parts;
  const auto add = [&](Index begin, Index end) {
    if (begin == end) return;
    MatrixView<const T> w{w_h.data<T>() + begin, n, end - begin, w_h.dim(1)};
    if (transposed) w = w.transpose();
    Part<T>& part = parts.emplace_back(Part<T>{begin, end - begin, w, {}});
    if (many || walk.batch >= sizes::enough_step_rows || transposed)
      part.packed = kept_packed(w_h, w, many ? Uses::many : Uses::one);
  };
  add(0, first);
  add(first, walk.width());
  return parts;
}

/// Rows [begin, end) of a batch.
struct BatchTile {
  Index begin, end;
  Index count() const { return end - begin; }

  /// These rows of a (B, cols) slab.
  template <class T>
  MatrixView<T> of(T* slab, Index cols, Index stride) const {
    return {slab + begin * stride, count(), cols, stride};
  }

  /// Without those at both ends that are masked, given a step's mask (B) or null: the product need
  /// not be made for them.
  template <class T>
  BatchTile used(const T* mask) const {
    BatchTile used = *this;
    if (!mask) return used;
    while (used.count() > 0 && mask[used.begin] == 0) ++used.begin;
    while (used.count() > 0 && mask[used.end - 1] == 0) --used.end;
    return used;
  }
  /// The same rows, counted from the first of another tile.
  BatchTile within(const BatchTile& tile) const { return {begin - tile.begin, end - tile.begin}; }
};

/// body(tile) for tiles of the batch, side by side: even shares, for an even number of threads.
template <class Body>
void for_batch_tiles(Index batch, Body body) {
  constexpr Index pair = 2 * sizes::most_tile_rows;
  const Index pairs = std::max<Index>(1, (batch + pair - 1) / pair);
  const Index share = (batch + 2 * pairs - 1) / (2 * pairs);
  parallel_ranges(batch, std::max(sizes::least_tile_rows, (share + 3) / 4 * 4),
                  [&](Index begin, Index end) {
                    body(BatchTile{begin, end});
                  });
}

/// States (T, B, H) and what they start from (B, H), or nulls where a cell has none.
template <class T>
struct StateRows {
  const T *initial, *all;

  /// The row's state before the i-th step in walking order.
  const T* before(const Walk& walk, Index i, Index row) const {
    if (!all) return nullptr;
    const T* states = i == 0 ? initial : all + walk.step(i - 1) * walk.batch * walk.hidden;
    return states + row * walk.hidden;
  }
};

/// What a forward pass reads and writes. Null is what a cell does not have.
template <class T>
struct ForwardPass {
  Walk walk;
  const T *xw, *b_hn, *mask;
  StateRows<T> from_h, from_c;
  T *h, *c, *rh;  // (T, B, H); rh is what part 1 multiplies
  T* gates;       // (T, B, kept · H)

  /// Row `at` of (T·B), whose products of part p are in hw (G·H).
  void run(std::size_t p, Index at, const T* hw, const T* h_prev, const T* c_prev) const {
    const Index n = walk.hidden;
    const T* x = xw + at * walk.width();
    T *g = gates + at * walk.kept * n, *h_t = h + at * n;
    if (walk.cell == Cell::lstm)
      return simd::run(simd::LstmForwardRow<T>{x, hw, c_prev, g, c + at * n, h_t}, n);
    if (p == 0) simd::run(simd::GruResetRow<T>{x, hw, h_prev, g, rh ? rh + at * n : nullptr}, n);
    simd::GruUpdateRow<T> update{x + 2 * n, hw + 2 * n, g + n, h_prev, g + 2 * n, h_t};
    if (!rh) update.r = g, update.b_hn = b_hn, update.hidden = g + 3 * n;
    if (p == 1 || !rh) simd::run(update, n);
  }

  /// Where the mask is 0: the states go on, and nothing flows back.
  void carry_over(Index at, const T* h_prev, const T* c_prev) const {
    const Index n = walk.hidden, kept = walk.kept * n;
    std::copy_n(h_prev, n, h + at * n);
    if (c) std::copy_n(c_prev, n, c + at * n);
    if (rh) std::fill_n(rh + at * n, n, T(0));
    std::fill_n(gates + at * kept, kept, T(0));
  }
};

/// Takes each tile of rows through all steps: products with W_h, then the cell, part by part.
template <class T>
void run_forward(const ForwardPass<T>& pass, const std::vector<Part<T>>& parts) {
  const Walk& walk = pass.walk;
  const Index n = walk.hidden, width = walk.width();
  for_batch_tiles(walk.batch, [&](BatchTile tile) {
    Tensor scratch = Tensor::uninitialized({tile.count(), width}, dtype_of<T>);
    T* hw = scratch.mutable_data<T>();
    for (Index i = 0; i < walk.steps; ++i) {
      const Index first = walk.step(i) * walk.batch;
      const BatchTile used = tile.used(pass.mask ? pass.mask + first : nullptr);
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const T* x = p == 0 ? pass.from_h.before(walk, i, 0) : pass.rh + first * n;
        const auto to = used.within(tile).of(hw + parts[p].begin, parts[p].columns, width);
        parts[p].multiply(used.of(x, n, n), to);
        for (Index row = tile.begin; row < tile.end; ++row) {
          const Index at = first + row;
          const T *h_prev = pass.from_h.before(walk, i, row),
                  *c_prev = pass.from_c.before(walk, i, row);
          if (!pass.mask || pass.mask[at] != 0) {
            pass.run(p, at, hw + (row - tile.begin) * width, h_prev, c_prev);
          } else if (p == 0) {
            pass.carry_over(at, h_prev, c_prev);
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
  const T *mask, *dh, *gates;  // (T, B), (T, B, H), (T, B, kept · H); the first two may be null
  StateRows<T> h, c;
  T *dxw, *dhw;  // (T, B, G·H), perhaps the same
  T *dh0, *dc0;  // (B, H): carry ∂L/∂h and ∂L/∂c from step to step

  /// Row `at` of (T·B) and `row` of (B). `scratch` (H) is the row's, and dproduct (H) the gradient
  /// of what part 1 multiplied.
  void run(std::size_t p, Index at, Index row, Index i, T* scratch, const T* dproduct) const {
    const Index n = walk.hidden, width = walk.width();
    const T *g = gates + at * walk.kept * n, *h_prev = h.before(walk, i, row);
    T *dx = dxw + at * width, *dhw_t = dhw + at * width, *dh_prev = dh0 + row * n;
    const bool reset_after = walk.cell == Cell::gru;
    if (walk.cell == Cell::lstm) {
      simd::run(simd::LstmBackwardRow<T>{g, c.before(walk, i, row), c.all + at * n, dh_prev,
                                         dc0 + row * n, dx},
                n);
      std::fill_n(dh_prev, n, T(0));  // a masked row carries its gradient over instead
      return;
    }
    if (p == 1 || reset_after) {
      std::copy_n(dh_prev, n, scratch);
      simd::run(simd::GruUpdateBackwardRow<T>{g + n, g + 2 * n, h_prev, scratch, dx + n, dx + 2 * n,
                                              dh_prev},
                n);
    }
    if (reset_after) {
      std::fill_n(dhw_t + 2 * n, n, T(0));
      simd::run(simd::GruResetBackwardRow<T>{g, g + 3 * n, dx + 2 * n, dx, dhw_t + 2 * n}, n);
      std::copy_n(dx, 2 * n, dhw_t);
    } else if (p == 0) {
      simd::run(simd::GruResetBackwardRow<T>{g, h_prev, dproduct, dx, dh_prev}, n);
    }
  }
};

/// Takes each tile back through all steps, from the last part to the first: the cell, and then the
/// product of dhw with W_hᵀ, which part 0 adds to dh_{t-1}.
template <class T>
void run_backward(const BackwardPass<T>& pass, const std::vector<Part<T>>& parts) {
  const Walk& walk = pass.walk;
  const Index n = walk.hidden, width = walk.width();
  for_batch_tiles(walk.batch, [&](BatchTile tile) {
    Tensor scratch = Tensor::uninitialized({tile.count() + 1, n}, dtype_of<T>);
    T *of_row = scratch.mutable_data<T>(), *dproducts = of_row + n;
    for (Index i = walk.steps - 1; i >= 0; --i) {
      const Index first = walk.step(i) * walk.batch;
      const BatchTile used = tile.used(pass.mask ? pass.mask + first : nullptr);
      if (pass.dh) {
        const T* dh = pass.dh + (first + tile.begin) * n;
        T* to = pass.dh0 + tile.begin * n;
        for (Index j = 0; j < tile.count() * n; ++j) to[j] += dh[j];
      }
      for (std::size_t p = parts.size(); p-- > 0;) {
        for (Index row = tile.begin; row < tile.end; ++row) {
          const Index at = first + row;
          if (!pass.mask || pass.mask[at] != 0) {
            pass.run(p, at, row, i, of_row, dproducts + (row - tile.begin) * n);
          } else if (p == parts.size() - 1) {
            std::fill_n(pass.dxw + at * width, width, T(0));
            std::fill_n(pass.dhw + at * width, width, T(0));
          }
        }
        const T* d = pass.dhw + first * width + parts[p].begin;
        parts[p].multiply(used.of(d, parts[p].columns, width),
                          p == 0 ? used.of(pass.dh0, n, n) : used.within(tile).of(dproducts, n, n),
                          p == 0 ? Into::add : Into::overwrite);
      }
    }
  });
}

}  // namespace

RecurrentStates recurrent_forward(const Tensor& xw, const Tensor& w_h,
                                  const RecurrenceOf<Tensor>& o) {
  check_recurrent(xw, w_h, o);
  const Walk walk = walk_of(xw, w_h, o);
  return visit_floating(operation_of(o.cell), xw, [&](auto zero) {
    using T = decltype(zero);
    const DType dtype = xw.dtype();
    const bool lstm = o.cell == Cell::lstm;
    const Index n = walk.hidden;
    const Shape all{walk.steps, walk.batch, n}, state{walk.batch, n};
    const Tensor h0 = defined_or_zeros(o.h0, state, dtype);
    const Tensor c0 = lstm ? defined_or_zeros(o.c0, state, dtype) : Tensor();
    const Tensor b_hn = o.cell == Cell::gru ? defined_or_zeros(o.b_hn, {n}, dtype) : Tensor();
    RecurrentStates out;
    out.h = Tensor::uninitialized(all, dtype);
    if (lstm) out.c = Tensor::uninitialized(all, dtype);
    out.gates = Tensor::uninitialized(all.with(2, walk.kept * n), dtype);
    if (o.cell == Cell::gru_reset_before) out.rh = Tensor::uninitialized(all, dtype);
    T *h = out.h.mutable_data<T>(), *c = elements_or_null<T>(out.c);
    run_forward<T>({.walk = walk,
                    .xw = xw.data<T>(),
                    .b_hn = elements_or_null<T>(b_hn),
                    .mask = elements_or_null<T>(o.mask),
                    .from_h = {h0.data<T>(), h},
                    .from_c = {elements_or_null<T>(c0), c},
                    .h = h,
                    .c = c,
                    .rh = elements_or_null<T>(out.rh),
                    .gates = out.gates.mutable_data<T>()},
                   parts_of<T>(w_h, walk, /*transposed=*/false));
    return out;
  });
}

RecurrentGradients recurrent_backward(const Tensor& xw, const Tensor& w_h,
                                      const RecurrenceOf<Tensor>& o, const RecurrentStates& states,
                                      const Tensor& dh, const Tensor& dc_last) {
  const Walk walk = walk_of(xw, w_h, o);
  const Index n = walk.hidden;
  return visit_floating(operation_of(o.cell), xw, [&](auto zero) {
    using T = decltype(zero);
    const DType dtype = xw.dtype();
    const bool lstm = o.cell == Cell::lstm;
    const Shape state{walk.batch, n};
    const Tensor h0 = lstm ? Tensor() : defined_or_zeros(o.h0, state, dtype);
    const Tensor c0 = lstm ? defined_or_zeros(o.c0, state, dtype) : Tensor();
    RecurrentGradients out;
    out.dxw = Tensor::uninitialized(xw.shape(), dtype);
    const bool apart = o.cell == Cell::gru;
    out.dhw = apart ? Tensor::uninitialized(xw.shape(), dtype) : out.dxw;
    out.dh0 = zeros(state, dtype);
    if (lstm) out.dc0 = dc_last.defined() ? dc_last.clone() : zeros(state, dtype);
    T* dxw = out.dxw.mutable_data<T>();
    run_backward<T>({.walk = walk,
                     .mask = elements_or_null<T>(o.mask),
                     .dh = elements_or_null<T>(dh),
                     .gates = states.gates.data<T>(),
                     .h = {elements_or_null<T>(h0), lstm ? nullptr : states.h.data<T>()},
                     .c = {elements_or_null<T>(c0), elements_or_null<T>(states.c)},
                     .dxw = dxw,
                     .dhw = apart ? out.dhw.mutable_data<T>() : dxw,
                     .dh0 = out.dh0.mutable_data<T>(),
                     .dc0 = elements_or_null<T>(out.dc0)},
                    parts_of<T>(w_h, walk, /*transposed=*/true));
    if (o.b_hn.defined()) out.db_hn = sum(slice(out.dhw, 2, 2 * n, 3 * n), {0, 1});
    return out;
  });
}

}  // namespace attune
