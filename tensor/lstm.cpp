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
    fail("lstm", "gain_h, gain_c and bias_c must all be given, or none of them");
  }
  if (check['T'] == 0) fail("lstm", "the sequence has no steps");
  return {check['T'], check['B'], check['H'], in.direction};
}

/// m = LN(c; gain_c) + bias_c. Backward computes it again.
template <class T>
void normalize_cell(const T* c, const T* gain_c, const T* bias_c, T* m, T* moments, Index n) {
  simd::run(
      simd::LayerNormRow<T>{1, c, gain_c, bias_c, static_cast<T>(layer_norm_epsilon), m, moments},
      n);
}

}  // namespace

LstmForward lstm_forward(const LstmInput& in) {
  const Walk walk = check_lstm(in);
  return visit_floating("lstm", in.xw, [&](auto zero) {
    using T = decltype(zero);
    const DType dtype = in.xw.dtype();
    const Index n = walk.hidden;
    const Shape states{walk.steps, walk.batch, n}, state{walk.batch, n};
    const Tensor h0 = or_zeros(in.h0, state, dtype), c0 = or_zeros(in.c0, state, dtype);
    LstmForward out{Tensor::uninitialized(states, dtype), Tensor::uninitialized(states, dtype),
                    Tensor::uninitialized(in.xw.shape(), dtype), products_of(walk, in.gain_h, 4)};
    const ForwardPass<T> pass{.walk = walk,
                              .parts = parts_of<T>(in.w_h, 4, 4, walk),
                              .norm = norm_of<T>(in.gain_h, out.products, 4, n),
                              .mask = data_or_null<T>(in.mask),
                              .h0 = h0.data<T>(),
                              .c0 = c0.data<T>(),
                              .h = out.h.mutable_data<T>(),
                              .c = out.c.mutable_data<T>(),
                              .rh = nullptr,
                              .gates = out.gates.mutable_data<T>(),
                              .kept = 4};
    const T *xw = in.xw.data<T>(), *gain_c = data_or_null<T>(in.gain_c),
            *bias_c = data_or_null<T>(in.bias_c);
    run_forward(pass, [&](std::size_t, const Place<T>& p, T* hw) {
      T *gates = pass.gates + p.at * 4 * n, *c = pass.c + p.at * n, *h = pass.h + p.at * n;
      simd::run(simd::LstmForwardRow<T>{xw + p.at * 4 * n, hw, p.c_prev, gates, c,
                                        pass.norm ? nullptr : h},
                n);
      if (!pass.norm) return;
      T *m = hw, moments[2];
      normalize_cell(c, gain_c, bias_c, m, moments, n);
      simd::run(simd::LstmOutputRow<T>{gates + 3 * n, m, h}, n);
    });
    return out;
  });
}

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
    const BackwardPass<T> pass{.walk = walk,
                               .parts = parts_of<T>(in.w_h, 4, 4, walk, /*transposed=*/true),
                               .mask = data_or_null<T>(in.mask),
                               .dh = data_or_null<T>(dh),
                               .h = {},
                               .c = {c0.data<T>(), forward.c.data<T>()},
                               .dxw = out.dxw.mutable_data<T>(),
                               .dhw = out.dhw.mutable_data<T>(),
                               .dh0 = out.dh0.mutable_data<T>(),
                               .sums = mutable_data_or_null<T>(sums)};
    const auto norm = norm_of<T>(in.gain_h, forward.products, 4, n);
    const T *gain_c = data_or_null<T>(in.gain_c), *bias_c = data_or_null<T>(in.bias_c),
            *all_gates = forward.gates.data<T>();
    T* dc0 = out.dc0.mutable_data<T>();  // carries ∂L/∂c from step to step
    run_backward(pass, [&](std::size_t, const Place<T>& p, const RowScratch<T>& scratch) {
      const T *gates = all_gates + p.at * 4 * n, *c = pass.c.all + p.at * n;
      T *dh_row = pass.dh0 + p.row * n, *dc = dc0 + p.row * n, *dgates = pass.dxw + p.at * 4 * n;
      if (norm) {
        T *m = scratch.row, moments[2];
        normalize_cell(c, gain_c, bias_c, m, moments, n);
        simd::run(simd::LstmOutputBackwardRow<T>{gates + 3 * n, m, dh_row, dgates + 3 * n, m}, n);
        simd::run(simd::LayerNormBackwardRow<T>{1, c, gain_c, moments, m, m, scratch.sums + 4 * n,
                                                scratch.sums + 5 * n},
                  n);
        add_rows(m, dc, n);
      }
      simd::run(simd::LstmBackwardRow<T>{gates, p.c_prev, c, norm ? nullptr : dh_row, dc, dgates},
                n);
      if (norm) norm.backward(p.at, 0, 4, dgates, pass.dhw + p.at * 4 * n, scratch.sums, nullptr);
      std::fill_n(dh_row, n, T(0));  // a masked row carries its gradient over instead
    });
    if (sums.defined()) {
      const Tensor total = sum(sums, {0});
      out.dgain_h = total.slice(0, 4 * n);
      out.dgain_c = total.slice(4 * n, 5 * n), out.dbias_c = total.slice(5 * n, 6 * n);
    }
    return out;
  });
}

}  // namespace attune
