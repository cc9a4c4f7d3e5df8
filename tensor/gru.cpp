#include <attune/tensor/arrange.hpp>
#include <attune/tensor/recurrent_tiles.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune {
namespace {

using namespace detail;

Walk check_gru(const GruInput& in) {
  ShapeCheck check("gru");
  check("w_h", in.w_h.shape(), "H 3H")("xw", in.xw.shape(), "T B 3H");
  require_same_dtype("gru", in.xw, in.w_h);
  if (in.b_hn.defined() && in.form == GruForm::reset_before) {
    fail("gru", "b_hn belongs to the form reset_after only");
  }
  check_optional(check, in.xw,
                 {{"b_hn", in.b_hn, "H"},
                  {"h0", in.h0, "B H"},
                  {"mask", in.mask, "T B"},
                  {"gain_h", in.gain_h, "3H"}});
  if (check['T'] == 0) fail("gru", "the sequence has no steps");
  return {check['T'], check['B'], check['H'], in.direction};
}

/// How many of the blocks r z n of W_h are multiplied by h_{t-1}; the others by r ⊙ h_{t-1}.
Index state_blocks(GruForm form) { return form == GruForm::reset_after ? 3 : 2; }

template <class T>
struct GruForwardData {
  StepMatrix<T> w_h, w_n;  // W_h or its columns r z, and those of n
  ProductNorm<T, T> norm;
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
    T* products = data.norm.products(t * b + rows.begin, hw);
    data.w_h.multiply(used.of(h_prev, n, n), used.within(rows).of(products, 3 * n, 3 * n));
    for (Index row = rows.begin; row < rows.end; ++row) {
      const Index at = t * b + row;
      if (carry_over(data.mask, at, h_prev + row * n, data.h, data.gates, 4, n)) continue;
      T* hw_row = hw + (row - rows.begin) * 3 * n;
      if (data.norm) data.norm.forward(at, 0, 3, hw_row);
      simd::run(simd::GruForwardRow<T>{data.xw + at * 3 * n, hw_row, data.b_hn, h_prev + row * n,
                                       data.gates + at * 4 * n, data.h + at * n},
                static_cast<std::size_t>(n));
    }
  }
}

template <class T>
void gru_reset_before_forward_tile(const Walk& walk, const GruForwardData<T>& data, Rows rows) {
  const Index n = walk.hidden, b = walk.batch;
  Tensor scratch = Tensor::uninitialized({rows.count(), 3 * n}, dtype_of<T>);
  T* hw = scratch.mutable_data<T>();
  for (Index i = 0; i < walk.steps; ++i) {
    const Index t = walk.step(i);
    const T* h_prev = walk.previous<T>(data.h0, data.h, i);
    const Rows used = rows.used(data.mask, t, b);
    T* products = data.norm.products(t * b + rows.begin, hw);
    data.w_h.multiply(used.of(h_prev, n, n), used.within(rows).of(products, 2 * n, 3 * n));
    for (Index row = rows.begin; row < rows.end; ++row) {
      const Index at = t * b + row;
      if (data.mask && data.mask[at] == 0) {
        std::fill_n(data.rh + at * n, n, T(0));
        continue;
      }
      T* hw_row = hw + (row - rows.begin) * 3 * n;
      if (data.norm) data.norm.forward(at, 0, 2, hw_row);
      simd::run(simd::GruResetRow<T>{data.xw + at * 3 * n, hw_row, h_prev + row * n,
                                     data.gates + at * 3 * n, data.rh + at * n},
                static_cast<std::size_t>(n));
    }
    data.w_n.multiply(used.of(static_cast<const T*>(data.rh + t * b * n), n, n),
                      used.within(rows).of(products + 2 * n, n, 3 * n));
    for (Index row = rows.begin; row < rows.end; ++row) {
      const Index at = t * b + row;
      if (carry_over(data.mask, at, h_prev + row * n, data.h, data.gates, 3, n)) continue;
      T *gates = data.gates + at * 3 * n, *hn = hw + (row - rows.begin) * 3 * n + 2 * n;
      if (data.norm) data.norm.forward(at, 2, 3, hn);
      simd::run(simd::GruUpdateRow<T>{data.xw + at * 3 * n + 2 * n, hn, gates + n, h_prev + row * n,
                                      gates + 2 * n, data.h + at * n},
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
                   after ? Tensor() : Tensor::uninitialized(states, dtype),
                   products_of(walk, in.gain_h, 3)};
    const Index blocks = state_blocks(in.form);
    const GruForwardData<T> data{
        {in.w_h, blocks_of<T>(in.w_h, 0, blocks), walk},
        {in.w_h, blocks_of<T>(in.w_h, blocks, 3), walk},
        {3, walk.hidden, data_or_null<T>(in.gain_h), mutable_data_or_null<T>(out.products.hw),
         mutable_data_or_null<T>(out.products.moments)},
        in.xw.data<T>(),
        b_hn.data<T>(),
        h0.data<T>(),
        data_or_null<T>(in.mask),
        out.h.mutable_data<T>(),
        out.gates.mutable_data<T>(),
        mutable_data_or_null<T>(out.rh)};
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
  ProductNorm<T, const T> norm;
  const T *h0, *mask, *h, *gates, *dh;
  T *dxw, *dhw, *dh0;  // dh0 carries ∂L/∂h from step to step
  T* sums;             // of each tile: gain_h (3H), what is added to LN (3H)
};

template <class T>
void gru_backward_tile(const Walk& walk, const GruBackwardData<T>& data, Rows rows) {
  const Index n = walk.hidden, b = walk.batch;
  Tensor scratch = Tensor::uninitialized({n}, dtype_of<T>);
  T *dh = scratch.mutable_data<T>(), *sums = sums_of_tile(data.sums, walk, rows);
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
      T* dhw = data.dhw + at * 3 * n;
      copy_row<T>(data.dh0 + row * n, dh, n);
      simd::run(simd::GruBackwardRow<T>{data.gates + at * 4 * n, h_prev + row * n, dh,
                                        data.dxw + at * 3 * n, dhw, data.dh0 + row * n},
                static_cast<std::size_t>(n));
      if (data.norm) data.norm.backward(at, 0, 3, dhw, dhw, sums, sums + 3 * n);
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
  T* sums = sums_of_tile(data.sums, walk, rows);
  for (Index i = walk.steps - 1; i >= 0; --i) {
    const Index t = walk.step(i);
    const T* h_prev = walk.previous(data.h0, data.h, i);
    if (data.dh) {
      add_rows(data.dh + (t * b + rows.begin) * n, data.dh0 + rows.begin * n, rows.count() * n);
    }
    const auto masked = [&](Index row) { return data.mask && data.mask[t * b + row] == 0; };
    for (Index row = rows.begin; row < rows.end; ++row) {
      const Index at = t * b + row;
      T *dxw = data.dxw + at * 3 * n, *dhw = data.dhw + at * 3 * n;
      if (masked(row)) {
        std::fill_n(dxw, 3 * n, T(0));
        std::fill_n(dhw, 3 * n, T(0));
        continue;
      }
      const T* gates = data.gates + at * 3 * n;
      copy_row<T>(data.dh0 + row * n, dh, n);
      simd::run(simd::GruUpdateBackwardRow<T>{gates + n, gates + 2 * n, h_prev + row * n, dh,
                                              dxw + n, dxw + 2 * n, data.dh0 + row * n},
                size);
      if (data.norm) data.norm.backward(at, 2, 3, dxw + 2 * n, dhw + 2 * n, sums + 2 * n, nullptr);
    }
    // d(r ⊙ h) = dhw[n] · W_nᵀ
    const T* dhw_t = data.dhw + t * b * 3 * n;
    const Rows used = rows.used(data.mask, t, b);
    data.w_n.multiply(used.of(dhw_t + 2 * n, n, 3 * n), used.within(rows).of(drh, n, n));
    for (Index row = rows.begin; row < rows.end; ++row) {
      if (masked(row)) continue;
      const Index at = t * b + row;
      T* dxw = data.dxw + at * 3 * n;
      simd::run(simd::GruResetBackwardRow<T>{data.gates + at * 3 * n, h_prev + row * n,
                                             drh + (row - rows.begin) * n, dxw, data.dh0 + row * n},
                size);
      if (data.norm) data.norm.backward(at, 0, 2, dxw, data.dhw + at * 3 * n, sums, nullptr);
    }
    // dh_{t-1} += dhw[r z] · W_rzᵀ
    data.w_h.multiply(used.of(dhw_t, 2 * n, 3 * n), used.of(data.dh0, n, n), Into::add);
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
    const Index n = walk.hidden;
    const Shape state{walk.batch, n};
    const Tensor h0 = or_zeros(in.h0, state, dtype);
    const bool separate = after || in.gain_h.defined();
    GruBackward out;
    out.dxw = Tensor::uninitialized(in.xw.shape(), dtype);
    out.dhw = separate ? Tensor::uninitialized(in.xw.shape(), dtype) : out.dxw;
    out.dh0 = zeros(state, dtype);
    Tensor sums = tile_sums(walk, in.gain_h);
    const Index blocks = state_blocks(in.form);
    const GruBackwardData<T> data{
        {in.w_h, blocks_of<T>(in.w_h, 0, blocks).transpose(), walk},
        {in.w_h, blocks_of<T>(in.w_h, blocks, 3).transpose(), walk},
        {3, n, data_or_null<T>(in.gain_h), data_or_null<T>(forward.products.hw),
         data_or_null<T>(forward.products.moments)},
        h0.data<T>(),
        data_or_null<T>(in.mask),
        forward.h.data<T>(),
        forward.gates.data<T>(),
        data_or_null<T>(dh),
        out.dxw.mutable_data<T>(),
        out.dhw.mutable_data<T>(),
        out.dh0.mutable_data<T>(),
        mutable_data_or_null<T>(sums)};
    for_tiles(walk.batch, [&](Rows rows) {
      after ? gru_backward_tile(walk, data, rows)
            : gru_reset_before_backward_tile(walk, data, rows);
    });
    const Tensor total = sums.defined() ? sum(sums, {0}) : Tensor();
    if (total.defined()) out.dgain_h = total.slice(0, 3 * n);
    if (in.b_hn.defined()) {
      out.db_hn = total.defined() ? total.slice(5 * n, 6 * n)
                                  : sum(slice(out.dhw, 2, 2 * n, 3 * n), {0, 1});
    }
    return out;
  });
}

}  // namespace attune
