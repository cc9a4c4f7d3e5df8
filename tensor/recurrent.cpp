#include <attune/tensor/check.hpp>
#include <attune/tensor/packed.hpp>
#include <attune/tensor/recurrent.hpp>
#include <attune/tensor/simd/kernels.hpp>
#include <attune/tensor/threads.hpp>

namespace attune {
namespace {

/// Rows of the batch that one thread takes through all steps: an even share of them, for an even
/// number of threads, but not so few that the products become matrix-vector products.
Index tile_rows(Index batch) {
  constexpr Index most_rows = 40;
  const Index pairs = (batch + 2 * most_rows - 1) / (2 * most_rows);
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
constexpr Index enough_steps = 3, enough_rows = 2;

/// W_h, some of its columns or a transpose, as all steps use it.
template <class T>
class StepMatrix {
 public:
  StepMatrix(const Tensor& w_h, const MatrixView<const T>& w, const Walk& walk) : w_(w) {
    const bool many = walk.steps >= enough_steps;
    if (w.cols > 0 && (many || walk.batch >= enough_rows || w.transposed)) {
      packed_ = detail::kept_packed(w_h, w, many ? detail::Uses::many : detail::Uses::one);
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

Tensor or_zeros(const Tensor& x, const Shape& shape, DType dtype) {
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

void check_common(ShapeCheck& check, const Tensor& xw, const Tensor& h0, const Tensor& mask) {
  if (h0.defined()) check("h0", h0.shape(), "B H");
  if (mask.defined()) check("mask", mask.shape(), "T B");
  for (const Tensor* other : {&h0, &mask}) {
    if (other->defined()) require_same_dtype("recurrent", xw, *other);
  }
}

Walk check_lstm(const LstmInput& in) {
  ShapeCheck check("lstm");
  check("w_h", in.w_h.shape(), "H 4H")("xw", in.xw.shape(), "T B 4H");
  require_same_dtype("lstm", in.xw, in.w_h);
  if (in.c0.defined()) check("c0", in.c0.shape(), "B H");
  check_common(check, in.xw, in.h0, in.mask);
  if (check['T'] == 0) fail("lstm", "the sequence has no steps");
  return {check['T'], check['B'], check['H'], in.direction};
}

Walk check_gru(const GruInput& in) {
  ShapeCheck check("gru");
  check("w_h", in.w_h.shape(), "H 3H")("xw", in.xw.shape(), "T B 3H");
  require_same_dtype("gru", in.xw, in.w_h);
  if (in.b_hn.defined()) check("b_hn", in.b_hn.shape(), "H");
  if (in.b_hn.defined() && in.form == GruForm::reset_before) {
    fail("gru", "b_hn belongs to the form reset_after only");
  }
  check_common(check, in.xw, in.h0, in.mask);
  if (check['T'] == 0) fail("gru", "the sequence has no steps");
  return {check['T'], check['B'], check['H'], in.direction};
}

template <class T>
void lstm_forward_tile(const LstmInput& in, const StepMatrix<T>& w_h, const Walk& walk,
                       const Tensor& h0, const Tensor& c0, T* h, T* c, T* gates, Rows rows) {
  const Index n = walk.hidden, b = walk.batch;
  const T *xw = in.xw.data<T>(), *mask = data_or_null<T>(in.mask);
  Tensor scratch = Tensor::uninitialized({rows.count(), 4 * n}, dtype_of<T>);
  T* hw = scratch.mutable_data<T>();
  for (Index i = 0; i < walk.steps; ++i) {
    const Index t = walk.step(i);
    const T* h_prev = walk.previous(h0.data<T>(), h, i);
    const T* c_prev = walk.previous(c0.data<T>(), c, i);
    const Rows used = rows.used(mask, t, b);
    w_h.multiply(used.of(h_prev, n, n), used.within(rows).of(hw, 4 * n, 4 * n));
    for (Index row = rows.begin; row < rows.end; ++row) {
      const Index at = t * b + row;
      if (mask && mask[at] == 0) {
        copy_row(h_prev + row * n, h + at * n, n);
        copy_row(c_prev + row * n, c + at * n, n);
        std::fill_n(gates + at * 4 * n, 4 * n, T(0));
        continue;
      }
      simd::run(
          simd::LstmForwardRow<T>{xw + at * 4 * n, hw + (row - rows.begin) * 4 * n,
                                  c_prev + row * n, gates + at * 4 * n, c + at * n, h + at * n},
          static_cast<std::size_t>(n));
    }
  }
}

}  // namespace

LstmForward lstm_forward(const LstmInput& in) {
  const Walk walk = check_lstm(in);
  return visit_floating("lstm", in.xw, [&](auto zero) {
    using T = decltype(zero);
    const Shape states{walk.steps, walk.batch, walk.hidden}, state{walk.batch, walk.hidden};
    const Tensor h0 = or_zeros(in.h0, state, in.xw.dtype()),
                 c0 = or_zeros(in.c0, state, in.xw.dtype());
    LstmForward out{Tensor::uninitialized(states, in.xw.dtype()),
                    Tensor::uninitialized(states, in.xw.dtype()),
                    Tensor::uninitialized(in.xw.shape(), in.xw.dtype())};
    T *h = out.h.mutable_data<T>(), *c = out.c.mutable_data<T>(),
      *gates = out.gates.mutable_data<T>();
    const StepMatrix<T> w_h(in.w_h, blocks_of<T>(in.w_h, 0, 4), walk);
    for_tiles(walk.batch,
              [&](Rows rows) { lstm_forward_tile(in, w_h, walk, h0, c0, h, c, gates, rows); });
    return out;
  });
}

namespace {

/// What a tile of a backward pass reads; fetched once, in the calling thread.
template <class T>
struct LstmBackwardData {
  StepMatrix<T> w_h;  // transposed
  const T *c0, *mask, *c, *gates, *dh;
  T *dxw, *dh0, *dc0;  // dh0 and dc0 carry ∂L/∂h and ∂L/∂c from step to step
};

template <class T>
void lstm_backward_tile(const Walk& walk, const LstmBackwardData<T>& data, Rows rows) {
  const Index n = walk.hidden, b = walk.batch;
  for (Index i = walk.steps - 1; i >= 0; --i) {
    const Index t = walk.step(i);
    const T* c_prev = walk.previous(data.c0, data.c, i);
    if (data.dh) {
      add_rows(data.dh + (t * b + rows.begin) * n, data.dh0 + rows.begin * n, rows.count() * n);
    }
    for (Index row = rows.begin; row < rows.end; ++row) {
      const Index at = t * b + row;
      if (data.mask && data.mask[at] == 0) {
        std::fill_n(data.dxw + at * 4 * n, 4 * n, T(0));
        continue;
      }
      simd::run(
          simd::LstmBackwardRow<T>{data.gates + at * 4 * n, c_prev + row * n, data.c + at * n,
                                   data.dh0 + row * n, data.dc0 + row * n, data.dxw + at * 4 * n},
          static_cast<std::size_t>(n));
      std::fill_n(data.dh0 + row * n, n, T(0));  // a masked row carries its gradient over instead
    }
    // dh_{t-1} += dgates · W_hᵀ
    const Rows used = rows.used(data.mask, t, b);
    data.w_h.multiply(used.of(static_cast<const T*>(data.dxw + t * b * 4 * n), 4 * n, 4 * n),
                      used.of(data.dh0, n, n), Into::add);
  }
}

}  // namespace

LstmBackward lstm_backward(const LstmInput& in, const LstmForward& forward, const Tensor& dh,
                           const Tensor& dc_last) {
  const Walk walk = check_lstm(in);
  ShapeCheck check("lstm");
  check("xw", in.xw.shape(), "T B 4H")("c", forward.c.shape(), "T B H");
  check("gates", forward.gates.shape(), "T B 4H");
  if (dh.defined()) check("dh", dh.shape(), "T B H");
  if (dc_last.defined()) check("dc_last", dc_last.shape(), "B H");
  return visit_floating("lstm", in.xw, [&](auto zero) {
    using T = decltype(zero);
    const Shape state{walk.batch, walk.hidden};
    const Tensor c0 = or_zeros(in.c0, state, in.xw.dtype());
    LstmBackward out{Tensor::uninitialized(in.xw.shape(), in.xw.dtype()),
                     zeros(state, in.xw.dtype()),
                     dc_last.defined() ? dc_last.clone() : zeros(state, in.xw.dtype())};
    const LstmBackwardData<T> data{{in.w_h, blocks_of<T>(in.w_h, 0, 4).transpose(), walk},
                                   c0.data<T>(),
                                   data_or_null<T>(in.mask),
                                   forward.c.data<T>(),
                                   forward.gates.data<T>(),
                                   data_or_null<T>(dh),
                                   out.dxw.mutable_data<T>(),
                                   out.dh0.mutable_data<T>(),
                                   out.dc0.mutable_data<T>()};
    for_tiles(walk.batch, [&](Rows rows) { lstm_backward_tile(walk, data, rows); });
    return out;
  });
}

namespace {

/// How many of the blocks r z n of W_h are multiplied by h_{t-1}; the others by r ⊙ h_{t-1}.
Index state_blocks(GruForm form) { return form == GruForm::reset_after ? 3 : 2; }

template <class T>
struct GruForwardData {
  StepMatrix<T> w_h, w_n;  // W_h or its columns r z, and those of n
  const T *xw, *b_hn, *h0, *mask;
  T *h, *gates, *rh;
};

/// h_t for rows whose mask is 0; true when the row was handled.
template <class T>
bool carry_over(const T* mask, Index at, const T* h_prev, T* h, T* gates, Index gate_count,
                Index n) {
  if (!mask || mask[at] != 0) return false;
  copy_row(h_prev, h + at * n, n);
  std::fill_n(gates + at * gate_count * n, gate_count * n, T(0));
  return true;
}

template <class T>
void gru_forward_tile(const Walk& walk, const GruForwardData<T>& data, Rows rows) {
  const Index n = walk.hidden, b = walk.batch;
  Tensor scratch = Tensor::uninitialized({rows.count(), 3 * n}, dtype_of<T>);
  T* hw = scratch.mutable_data<T>();
  for (Index i = 0; i < walk.steps; ++i) {
    const Index t = walk.step(i);
    const T* h_prev = walk.previous<T>(data.h0, data.h, i);
    const Rows used = rows.used(data.mask, t, b);
    data.w_h.multiply(used.of(h_prev, n, n), used.within(rows).of(hw, 3 * n, 3 * n));
    for (Index row = rows.begin; row < rows.end; ++row) {
      const Index at = t * b + row;
      if (carry_over(data.mask, at, h_prev + row * n, data.h, data.gates, 4, n)) continue;
      simd::run(
          simd::GruForwardRow<T>{data.xw + at * 3 * n, hw + (row - rows.begin) * 3 * n, data.b_hn,
                                 h_prev + row * n, data.gates + at * 4 * n, data.h + at * n},
          static_cast<std::size_t>(n));
    }
  }
}

template <class T>
void gru_reset_before_forward_tile(const Walk& walk, const GruForwardData<T>& data, Rows rows) {
  const Index n = walk.hidden, b = walk.batch;
  Tensor scratch = Tensor::uninitialized({rows.count(), 3 * n}, dtype_of<T>);
  T *hw = scratch.mutable_data<T>(), *hn = hw + rows.count() * 2 * n;
  for (Index i = 0; i < walk.steps; ++i) {
    const Index t = walk.step(i);
    const T* h_prev = walk.previous<T>(data.h0, data.h, i);
    const Rows used = rows.used(data.mask, t, b);
    data.w_h.multiply(used.of(h_prev, n, n), used.within(rows).of(hw, 2 * n, 2 * n));
    for (Index row = rows.begin; row < rows.end; ++row) {
      const Index at = t * b + row;
      if (data.mask && data.mask[at] == 0) {
        std::fill_n(data.rh + at * n, n, T(0));
        continue;
      }
      simd::run(simd::GruResetRow<T>{data.xw + at * 3 * n, hw + (row - rows.begin) * 2 * n,
                                     h_prev + row * n, data.gates + at * 3 * n, data.rh + at * n},
                static_cast<std::size_t>(n));
    }
    data.w_n.multiply(used.of(static_cast<const T*>(data.rh + t * b * n), n, n),
                      used.within(rows).of(hn, n, n));
    for (Index row = rows.begin; row < rows.end; ++row) {
      const Index at = t * b + row;
      if (carry_over(data.mask, at, h_prev + row * n, data.h, data.gates, 3, n)) continue;
      T* gates = data.gates + at * 3 * n;
      simd::run(simd::GruUpdateRow<T>{data.xw + at * 3 * n + 2 * n, hn + (row - rows.begin) * n,
                                      gates + n, h_prev + row * n, gates + 2 * n, data.h + at * n},
                static_cast<std::size_t>(n));
    }
  }
}

}  // namespace

GruForward gru_forward(const GruInput& in) {
  const Walk walk = check_gru(in);
  const bool after = in.form == GruForm::reset_after;
  return visit_floating("gru", in.xw, [&](auto zero) {
    using T = decltype(zero);
    const DType dtype = in.xw.dtype();
    const Shape states{walk.steps, walk.batch, walk.hidden};
    const Tensor h0 = or_zeros(in.h0, {walk.batch, walk.hidden}, dtype);
    const Tensor b_hn = or_zeros(in.b_hn, {walk.hidden}, dtype);
    GruForward out{Tensor::uninitialized(states, dtype),
                   Tensor::uninitialized(states.with(2, (after ? 4 : 3) * walk.hidden), dtype),
                   after ? Tensor() : Tensor::uninitialized(states, dtype)};
    const Index blocks = state_blocks(in.form);
    const GruForwardData<T> data{{in.w_h, blocks_of<T>(in.w_h, 0, blocks), walk},
                                 {in.w_h, blocks_of<T>(in.w_h, blocks, 3), walk},
                                 in.xw.data<T>(),
                                 b_hn.data<T>(),
                                 h0.data<T>(),
                                 data_or_null<T>(in.mask),
                                 out.h.mutable_data<T>(),
                                 out.gates.mutable_data<T>(),
                                 after ? nullptr : out.rh.mutable_data<T>()};
    for_tiles(walk.batch, [&](Rows rows) {
      after ? gru_forward_tile(walk, data, rows) : gru_reset_before_forward_tile(walk, data, rows);
    });
    return out;
  });
}

namespace {

template <class T>
struct GruBackwardData {
  StepMatrix<T> w_h, w_n;  // as in forward, transposed
  const T *h0, *mask, *h, *gates, *dh;
  T *dxw, *dhw, *dh0;  // dh0 carries ∂L/∂h from step to step
};

template <class T>
void gru_backward_tile(const Walk& walk, const GruBackwardData<T>& data, Rows rows) {
  const Index n = walk.hidden, b = walk.batch;
  Tensor scratch = Tensor::uninitialized({n}, dtype_of<T>);
  T* dh = scratch.mutable_data<T>();
  for (Index i = walk.steps - 1; i >= 0; --i) {
    const Index t = walk.step(i);
    const T* h_prev = walk.previous(data.h0, data.h, i);
    if (data.dh) {
      add_rows(data.dh + (t * b + rows.begin) * n, data.dh0 + rows.begin * n, rows.count() * n);
    }
    for (Index row = rows.begin; row < rows.end; ++row) {
      const Index at = t * b + row;
      if (data.mask && data.mask[at] == 0) {
        std::fill_n(data.dxw + at * 3 * n, 3 * n, T(0));
        std::fill_n(data.dhw + at * 3 * n, 3 * n, T(0));
        continue;
      }
      copy_row<T>(data.dh0 + row * n, dh, n);
      simd::run(
          simd::GruBackwardRow<T>{data.gates + at * 4 * n, h_prev + row * n, dh,
                                  data.dxw + at * 3 * n, data.dhw + at * 3 * n, data.dh0 + row * n},
          static_cast<std::size_t>(n));
    }
    // dh_{t-1} += dhw · W_hᵀ
    const Rows used = rows.used(data.mask, t, b);
    data.w_h.multiply(used.of(static_cast<const T*>(data.dhw + t * b * 3 * n), 3 * n, 3 * n),
                      used.of(data.dh0, n, n), Into::add);
  }
}

template <class T>
void gru_reset_before_backward_tile(const Walk& walk, const GruBackwardData<T>& data, Rows rows) {
  const Index n = walk.hidden, b = walk.batch;
  const auto size = static_cast<std::size_t>(n);
  Tensor scratch = Tensor::uninitialized({rows.count() + 1, n}, dtype_of<T>);
  T *dh = scratch.mutable_data<T>(), *drh = dh + n;
  for (Index i = walk.steps - 1; i >= 0; --i) {
    const Index t = walk.step(i);
    const T* h_prev = walk.previous(data.h0, data.h, i);
    if (data.dh) {
      add_rows(data.dh + (t * b + rows.begin) * n, data.dh0 + rows.begin * n, rows.count() * n);
    }
    const auto masked = [&](Index row) { return data.mask && data.mask[t * b + row] == 0; };
    for (Index row = rows.begin; row < rows.end; ++row) {
      T* dxw = data.dxw + (t * b + row) * 3 * n;
      if (masked(row)) {
        std::fill_n(dxw, 3 * n, T(0));
        continue;
      }
      const T* gates = data.gates + (t * b + row) * 3 * n;
      copy_row<T>(data.dh0 + row * n, dh, n);
      simd::run(simd::GruUpdateBackwardRow<T>{gates + n, gates + 2 * n, h_prev + row * n, dh,
                                              dxw + n, dxw + 2 * n, data.dh0 + row * n},
                size);
    }
    // d(r ⊙ h) = dn · W_nᵀ
    const T* dxw_t = data.dxw + t * b * 3 * n;
    const Rows used = rows.used(data.mask, t, b);
    data.w_n.multiply(used.of(dxw_t + 2 * n, n, 3 * n), used.within(rows).of(drh, n, n));
    for (Index row = rows.begin; row < rows.end; ++row) {
      if (masked(row)) continue;
      const Index at = t * b + row;
      simd::run(simd::GruResetBackwardRow<T>{data.gates + at * 3 * n, h_prev + row * n,
                                             drh + (row - rows.begin) * n, data.dxw + at * 3 * n,
                                             data.dh0 + row * n},
                size);
    }
    // dh_{t-1} += [dr dz] · W_rzᵀ
    data.w_h.multiply(used.of(dxw_t, 2 * n, 3 * n), used.of(data.dh0, n, n), Into::add);
  }
}

}  // namespace

GruBackward gru_backward(const GruInput& in, const GruForward& forward, const Tensor& dh) {
  const Walk walk = check_gru(in);
  ShapeCheck check("gru");
  check("xw", in.xw.shape(), "T B 3H")("h", forward.h.shape(), "T B H");
  check("gates", forward.gates.shape(), in.form == GruForm::reset_after ? "T B 4H" : "T B 3H");
  if (dh.defined()) check("dh", dh.shape(), "T B H");
  const bool after = in.form == GruForm::reset_after;
  return visit_floating("gru", in.xw, [&](auto zero) {
    using T = decltype(zero);
    const DType dtype = in.xw.dtype();
    const Shape state{walk.batch, walk.hidden};
    const Tensor h0 = or_zeros(in.h0, state, dtype);
    GruBackward out{Tensor::uninitialized(in.xw.shape(), dtype),
                    after ? Tensor::uninitialized(in.xw.shape(), dtype) : Tensor(),
                    zeros(state, dtype)};
    const Index blocks = state_blocks(in.form);
    const GruBackwardData<T> data{{in.w_h, blocks_of<T>(in.w_h, 0, blocks).transpose(), walk},
                                  {in.w_h, blocks_of<T>(in.w_h, blocks, 3).transpose(), walk},
                                  h0.data<T>(),
                                  data_or_null<T>(in.mask),
                                  forward.h.data<T>(),
                                  forward.gates.data<T>(),
                                  data_or_null<T>(dh),
                                  out.dxw.mutable_data<T>(),
                                  after ? out.dhw.mutable_data<T>() : nullptr,
                                  out.dh0.mutable_data<T>()};
    for_tiles(walk.batch, [&](Rows rows) {
      after ? gru_backward_tile(walk, data, rows)
            : gru_reset_before_backward_tile(walk, data, rows);
    });
    return out;
  });
}

}  // namespace attune
