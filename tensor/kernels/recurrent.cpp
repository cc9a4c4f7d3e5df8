// One implementation for the LSTM and both GRUs: each tile of rows runs through all steps and
// computes the products with W_h; each cell supplies its per-row update.
#include <vector>

#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/gemm.hpp>
#include <attune/tensor/kernels/product_sizes.hpp>
#include <attune/tensor/kernels/recurrent.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/loops.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune {
namespace {

using namespace detail;

/// A recurrence of T steps: their order, and the layout of the gates, in blocks of H columns. A
/// step has up to two matrix products, called parts: h_{t-1} W_h for the first gates, and (r ⊙
/// h_{t-1}) W_h for the others, if any.
struct Walk {
  Cell cell;
  Index steps, batch, hidden;
  Direction direction;
  Index gates = gates_of(cell);                                   // blocks of xw and of W_h
  Index from_state = cell == Cell::gru_reset_before ? 2 : gates;  // gates of the first part
  Index kept = cell == Cell::gru_reset_before ? 3 : 4;            // blocks of states.gates

  Index step(Index i) const { return direction == Direction::forward ? i : steps - 1 - i; }
  Index width() const { return gates * hidden; }
};

Walk walk_of(const Tensor& xw, const Tensor& w_h, const RecurrenceOf<Tensor>& o) {
  return {o.cell, xw.dim(0), xw.dim(1), w_h.dim(0), o.direction};
}

/// Throws if a shape or dtype does not fit, or if the sequence has no steps.
void check_recurrent(const Tensor& xw, const Tensor& w_h, const RecurrenceOf<Tensor>& o) {
  const bool lstm = o.cell == Cell::lstm;
  const char* const operation = operation_of(o.cell);
  ShapeCheck check(operation);
  check("w_h", w_h, lstm ? "H 4H" : "H 3H");
  check("xw", xw, lstm ? "T B 4H" : "T B 3H");
  const auto optional = [&](const char* name, const Tensor& x, const char* letters,
                            bool allowed = true, const char* of = "") {
    if (!x.defined()) return;
    if (!allowed) fail(operation, "{} is supported by {} only", name, of);
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

/// One matrix product of a step, which computes the gates in columns [begin, begin + columns): the
/// columns of W_h for it, or their transpose in backward. All steps share it.
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
      part.packed = cached_packed(w_h, w, many ? Uses::many : Uses::one);
  };
  add(0, first);
  add(first, walk.width());
  return parts;
}

/// Rows [begin, end) of a batch.
struct BatchTile {
  Index begin, end;
  Index count() const { return end - begin; }

  /// These rows of a (B, cols) matrix.
  template <class T>
  MatrixView<T> of(T* slab, Index cols, Index stride) const {
    return {slab + begin * stride, count(), cols, stride};
  }

  /// Without the rows at both ends that do not take part in the step, and need no product.
  template <class TakesPart>
  BatchTile used(const TakesPart& takes_part) const {
    BatchTile used = *this;
    while (used.count() > 0 && !takes_part(used.begin)) ++used.begin;
    while (used.count() > 0 && !takes_part(used.end - 1)) --used.end;
    return used;
  }
  /// The same rows, relative to the first row of another tile.
  BatchTile within(const BatchTile& tile) const { return {begin - tile.begin, end - tile.begin}; }
};

/// Calls body(tile) for tiles of the batch in parallel: equal shares, an even number of tiles.
template <class Body>
void for_batch_tiles(Index batch, Body body) {
  constexpr Index pair = 2 * sizes::max_tile_rows;
  const Index pairs = std::max<Index>(1, ceil_div(batch, pair));
  const Index share = (batch + 2 * pairs - 1) / (2 * pairs);
  parallel_ranges(batch, std::max(sizes::min_tile_rows, (share + 3) / 4 * 4),
                  [&](Index begin, Index end) {
                    body(BatchTile{begin, end});
                  });
}

/// States (T, B, H) and the initial states (B, H); null if the cell does not have them.
template <class T>
struct StateRows {
  const T *initial, *all;

  /// The row's state before the i-th visited step.
  const T* before(const Walk& walk, Index i, Index row) const {
    if (!all) return nullptr;
    const T* states = i == 0 ? initial : all + walk.step(i - 1) * walk.batch * walk.hidden;
    return states + row * walk.hidden;
  }
};

/// Inputs and outputs of a forward pass. Pointers are null if the cell does not use them.
template <class T>
struct ForwardPass {
  Walk walk;
  const T *xw, *b_hn, *mask;
  StateRows<T> from_h, from_c;
  T *h, *c, *rh;  // (T, B, H); rh is the left factor of part 1
  T* gates;       // (T, B, kept · H)

  /// The update of row `at` of (T·B) after the product of part p, whose result is in hw (G·H).
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

  /// The update of a masked row: the states are copied, and the gates are 0, which stops gradients.
  void carry_over(Index at, const T* h_prev, const T* c_prev) const {
    const Index n = walk.hidden, kept = walk.kept * n;
    std::copy_n(h_prev, n, h + at * n);
    if (c) std::copy_n(c_prev, n, c + at * n);
    if (rh) std::fill_n(rh + at * n, n, T(0));
    std::fill_n(gates + at * kept, kept, T(0));
  }
};

/// Runs each tile of rows through all steps. Each part is a product with W_h and the cell's update.
template <class T>
void run_forward(const ForwardPass<T>& pass, const std::vector<Part<T>>& parts) {
  const Walk& walk = pass.walk;
  const Index n = walk.hidden, width = walk.width();
  for_batch_tiles(walk.batch, [&](BatchTile tile) {
    Tensor scratch = Tensor::uninitialized({tile.count(), width}, dtype_of<T>);
    T* hw = scratch.mutable_data<T>();
    for (Index i = 0; i < walk.steps; ++i) {
      const Index first = walk.step(i) * walk.batch;
      const auto takes_part = [&](Index row) { return !pass.mask || pass.mask[first + row] != 0; };
      const BatchTile used = tile.used(takes_part);
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const T* x = p == 0 ? pass.from_h.before(walk, i, 0) : pass.rh + first * n;
        const auto to = used.within(tile).of(hw + parts[p].begin, parts[p].columns, width);
        parts[p].multiply(used.of(x, n, n), to);
        for (Index row = tile.begin; row < tile.end; ++row) {
          const Index at = first + row;
          const T *h_prev = pass.from_h.before(walk, i, row),
                  *c_prev = pass.from_c.before(walk, i, row);
          if (takes_part(row)) {
            pass.run(p, at, hw + (row - tile.begin) * width, h_prev, c_prev);
          } else if (p == 0) {
            pass.carry_over(at, h_prev, c_prev);
          }
        }
      }
    }
  });
}

/// Inputs and outputs of a backward pass.
template <class T>
struct BackwardPass {
  Walk walk;
  const T *mask, *dh, *gates;  // (T, B), (T, B, H), (T, B, kept · H); the first two may be null
  StateRows<T> h, c;
  T *dxw, *dhw;  // (T, B, G·H), may be the same
  T *dh0, *dc0;  // (B, H): hold ∂L/∂h and ∂L/∂c while going from step to step

  /// Whether row `at` of (T·B), `row` of (B), is not masked and has a gradient.
  bool takes_part(Index at, Index row) const {
    const Index n = walk.hidden;
    return (!mask || mask[at] != 0) &&
           !(is_zero(dh0 + row * n, n) && (!dc0 || is_zero(dc0 + row * n, n)));
  }

  /// The gradients of row `at` of (T·B), which is `row` of (B). `scratch` (H) belongs to the row.
  /// dproduct (H) is the gradient of the left factor of part 1.
  void run(std::size_t p, Index at, Index row, Index i, T* scratch, const T* dproduct) const {
    const Index n = walk.hidden, width = walk.width();
    const T *g = gates + at * walk.kept * n, *h_prev = h.before(walk, i, row);
    T *dx = dxw + at * width, *dhw_t = dhw + at * width, *dh_prev = dh0 + row * n;
    const bool reset_after = walk.cell == Cell::gru;
    if (walk.cell == Cell::lstm) {
      simd::run(simd::LstmBackwardRow<T>{g, c.before(walk, i, row), c.all + at * n, dh_prev,
                                         dc0 + row * n, dx},
                n);
      std::fill_n(dh_prev, n, T(0));  // in a masked row the gradient remains instead
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

/// Runs each tile back through all steps. Each part, the last one first, is the cell's gradient and
/// the product of dhw with W_hᵀ, which part 0 adds to dh_{t-1}.
template <class T>
void run_backward(const BackwardPass<T>& pass, const std::vector<Part<T>>& parts) {
  const Walk& walk = pass.walk;
  const Index n = walk.hidden, width = walk.width();
  for_batch_tiles(walk.batch, [&](BatchTile tile) {
    Tensor scratch = Tensor::uninitialized({tile.count() + 1, n}, dtype_of<T>);
    T *of_row = scratch.mutable_data<T>(), *dproducts = of_row + n;
    std::vector<bool> takes_part(tile.count());
    for (Index i = walk.steps - 1; i >= 0; --i) {
      const Index first = walk.step(i) * walk.batch;
      if (pass.dh) {
        const T* dh = pass.dh + (first + tile.begin) * n;
        T* to = pass.dh0 + tile.begin * n;
        for (Index j = 0; j < tile.count() * n; ++j) to[j] += dh[j];
      }
      for (Index row = tile.begin; row < tile.end; ++row)
        takes_part[row - tile.begin] = pass.takes_part(first + row, row);
      const BatchTile used = tile.used([&](Index row) { return takes_part[row - tile.begin]; });
      for (std::size_t p = parts.size(); p-- > 0;) {
        for (Index row = tile.begin; row < tile.end; ++row) {
          const Index at = first + row;
          if (takes_part[row - tile.begin]) {
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

RecurrentActivations recurrent_forward(const Tensor& xw, const Tensor& w_h,
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
    RecurrentActivations out;
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
                                      const RecurrenceOf<Tensor>& o,
                                      const RecurrentActivations& states, const Tensor& dh,
                                      const Tensor& dc_last) {
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
