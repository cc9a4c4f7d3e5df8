#include <attune/tensor/recurrent_tiles.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune {
namespace {

using namespace detail;

Walk check_lstm(const LstmInput& in) {
  ShapeCheck check("lstm");
  check("w_h", in.w_h.shape(), "H 4H")("xw", in.xw.shape(), "T B 4H");
  require_same_dtype("lstm", in.xw, in.w_h);
  check_optional(check, in.xw,
                 {{"c0", in.c0, "B H"},
                  {"h0", in.h0, "B H"},
                  {"mask", in.mask, "T B"},
                  {"gain_h", in.gain_h, "4H"},
                  {"gain_c", in.gain_c, "H"},
                  {"bias_c", in.bias_c, "H"}});
  if (in.gain_c.defined() != in.gain_h.defined() || in.bias_c.defined() != in.gain_h.defined()) {
    fail("lstm", "of gain_h, gain_c and bias_c either all are given or none");
  }
  if (check['T'] == 0) fail("lstm", "the sequence has no steps");
  return {check['T'], check['B'], check['H'], in.direction};
}

template <class T>
struct LstmForwardData {
  StepMatrix<T> w_h;
  ProductNorm<T, T> norm;
  const T *xw, *h0, *c0, *gain_c, *bias_c, *mask;
  T *h, *c, *gates;
};

/// m = LN(c; gain_c) + bias_c. Backward computes it again.
template <class T>
void normalize_cell(const T* c, const T* gain_c, const T* bias_c, T* m, T* moments, Index n) {
  simd::run(
      simd::LayerNormRow<T>{1, c, gain_c, bias_c, static_cast<T>(layer_norm_epsilon), m, moments},
      static_cast<std::size_t>(n));
}

/// From the row's products hw (4n), which are overwritten.
template <class T>
void lstm_forward_row(const LstmForwardData<T>& data, Index at, const T* c_prev, T* hw) {
  const Index n = data.norm.n;
  const auto size = static_cast<std::size_t>(n);
  T *gates = data.gates + at * 4 * n, *c = data.c + at * n, *h = data.h + at * n;
  if (data.norm) data.norm.forward(at, 0, 4, hw);
  simd::run(
      simd::LstmForwardRow<T>{data.xw + at * 4 * n, hw, c_prev, gates, c, data.norm ? nullptr : h},
      size);
  if (!data.norm) return;
  T *m = hw, moments[2];
  normalize_cell(c, data.gain_c, data.bias_c, m, moments, n);
  simd::run(simd::LstmOutputRow<T>{gates + 3 * n, m, h}, size);
}

template <class T>
void lstm_forward_tile(const Walk& walk, const LstmForwardData<T>& data, Rows rows) {
  const Index n = walk.hidden, b = walk.batch;
  Tensor scratch = Tensor::uninitialized({rows.count(), 4 * n}, dtype_of<T>);
  T* hw = scratch.mutable_data<T>();
  for (Index i = 0; i < walk.steps; ++i) {
    const Index t = walk.step(i);
    const T* h_prev = walk.previous<T>(data.h0, data.h, i);
    const T* c_prev = walk.previous<T>(data.c0, data.c, i);
    const Rows used = rows.used(data.mask, t, b);
    T* products = data.norm.products(t * b + rows.begin, hw);
    data.w_h.multiply(used.of(h_prev, n, n), used.within(rows).of(products, 4 * n, 4 * n));
    for (Index row = rows.begin; row < rows.end; ++row) {
      const Index at = t * b + row;
      if (data.mask && data.mask[at] == 0) {
        copy_row(h_prev + row * n, data.h + at * n, n);
        copy_row(c_prev + row * n, data.c + at * n, n);
        std::fill_n(data.gates + at * 4 * n, 4 * n, T(0));
        continue;
      }
      lstm_forward_row(data, at, c_prev + row * n, hw + (row - rows.begin) * 4 * n);
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
    LstmForward out{
        Tensor::uninitialized(states, in.xw.dtype()), Tensor::uninitialized(states, in.xw.dtype()),
        Tensor::uninitialized(in.xw.shape(), in.xw.dtype()), products_of(walk, in.gain_h, 4)};
    const LstmForwardData<T> data{
        {in.w_h, blocks_of<T>(in.w_h, 0, 4), walk},
        {4, walk.hidden, data_or_null<T>(in.gain_h), mutable_data_or_null<T>(out.products.hw),
         mutable_data_or_null<T>(out.products.moments)},
        in.xw.data<T>(),
        h0.data<T>(),
        c0.data<T>(),
        data_or_null<T>(in.gain_c),
        data_or_null<T>(in.bias_c),
        data_or_null<T>(in.mask),
        out.h.mutable_data<T>(),
        out.c.mutable_data<T>(),
        out.gates.mutable_data<T>()};
    for_tiles(walk.batch, [&](Rows rows) { lstm_forward_tile(walk, data, rows); });
    return out;
  });
}

namespace {

/// What a tile of a backward pass reads; fetched once, in the calling thread.
template <class T>
struct LstmBackwardData {
  StepMatrix<T> w_h;  // transposed
  ProductNorm<T, const T> norm;
  const T *c0, *gain_c, *bias_c, *mask, *c, *gates, *dh;
  T *dxw, *dhw, *dh0, *dc0;  // dh0 and dc0 carry ∂L/∂h and ∂L/∂c from step to step
  T* sums;                   // of each tile: gain_h (4H), gain_c (H), bias_c (H)
};

/// Row `at` of the sequence, `row` of the batch; m (n) is scratch.
template <class T>
void lstm_backward_row(const LstmBackwardData<T>& data, Index at, Index row, const T* c_prev, T* m,
                       T* sums) {
  const Index n = data.norm.n;
  const auto size = static_cast<std::size_t>(n);
  const T *gates = data.gates + at * 4 * n, *c = data.c + at * n;
  T *dh = data.dh0 + row * n, *dc = data.dc0 + row * n, *dgates = data.dxw + at * 4 * n;
  if (data.norm) {
    T moments[2];
    normalize_cell(c, data.gain_c, data.bias_c, m, moments, n);
    simd::run(simd::LstmOutputBackwardRow<T>{gates + 3 * n, m, dh, dgates + 3 * n, m}, size);
    simd::run(
        simd::LayerNormBackwardRow<T>{1, c, data.gain_c, moments, m, m, sums + 4 * n, sums + 5 * n},
        size);
    add_rows(m, dc, n);
  }
  simd::run(simd::LstmBackwardRow<T>{gates, c_prev, c, data.norm ? nullptr : dh, dc, dgates}, size);
  if (data.norm) data.norm.backward(at, 0, 4, dgates, data.dhw + at * 4 * n, sums, nullptr);
}

template <class T>
void lstm_backward_tile(const Walk& walk, const LstmBackwardData<T>& data, Rows rows) {
  const Index n = walk.hidden, b = walk.batch;
  Tensor scratch = Tensor::uninitialized({n}, dtype_of<T>);
  T *m = scratch.mutable_data<T>(), *sums = sums_of_tile(data.sums, walk, rows);
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
        std::fill_n(data.dhw + at * 4 * n, 4 * n, T(0));
        continue;
      }
      lstm_backward_row(data, at, row, c_prev + row * n, m, sums);
      std::fill_n(data.dh0 + row * n, n, T(0));  // a masked row carries its gradient over instead
    }
    // dh_{t-1} += dhw · W_hᵀ
    const Rows used = rows.used(data.mask, t, b);
    data.w_h.multiply(used.of(static_cast<const T*>(data.dhw + t * b * 4 * n), 4 * n, 4 * n),
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
    const DType dtype = in.xw.dtype();
    const Index n = walk.hidden;
    const Shape state{walk.batch, n};
    const Tensor c0 = or_zeros(in.c0, state, dtype);
    LstmBackward out;
    out.dxw = Tensor::uninitialized(in.xw.shape(), dtype);
    out.dhw = in.gain_h.defined() ? Tensor::uninitialized(in.xw.shape(), dtype) : out.dxw;
    out.dh0 = zeros(state, dtype);
    out.dc0 = dc_last.defined() ? dc_last.clone() : zeros(state, dtype);
    Tensor sums = tile_sums(walk, in.gain_h);
    const LstmBackwardData<T> data{
        {in.w_h, blocks_of<T>(in.w_h, 0, 4).transpose(), walk},
        {4, n, data_or_null<T>(in.gain_h), data_or_null<T>(forward.products.hw),
         data_or_null<T>(forward.products.moments)},
        c0.data<T>(),
        data_or_null<T>(in.gain_c),
        data_or_null<T>(in.bias_c),
        data_or_null<T>(in.mask),
        forward.c.data<T>(),
        forward.gates.data<T>(),
        data_or_null<T>(dh),
        out.dxw.mutable_data<T>(),
        out.dhw.mutable_data<T>(),
        out.dh0.mutable_data<T>(),
        out.dc0.mutable_data<T>(),
        mutable_data_or_null<T>(sums)};
    for_tiles(walk.batch, [&](Rows rows) { lstm_backward_tile(walk, data, rows); });
    if (sums.defined()) {
      const Tensor total = sum(sums, {0});
      out.dgain_h = total.slice(0, 4 * n);
      out.dgain_c = total.slice(4 * n, 5 * n), out.dbias_c = total.slice(5 * n, 6 * n);
    }
    return out;
  });
}

}  // namespace attune
