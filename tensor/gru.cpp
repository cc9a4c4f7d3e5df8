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

/// How many of the gates r z n are products of h_{t-1}; the others are of r ⊙ h_{t-1}.
Index state_gates(GruForm form) { return form == GruForm::reset_after ? 3 : 2; }

}  // namespace

GruForward gru_forward(const GruInput& in) {
  const Walk walk = check_gru(in);
  const bool after = in.form == GruForm::reset_after;
  return visit_floating("gru", in.xw, [&](auto zero) {
    using T = decltype(zero);
    const DType dtype = in.xw.dtype();
    const Index n = walk.hidden, kept = after ? 4 : 3;
    const Shape states{walk.steps, walk.batch, n};
    const Tensor h0 = or_zeros(in.h0, {walk.batch, n}, dtype);
    const Tensor b_hn = or_zeros(in.b_hn, {n}, dtype);
    GruForward out{Tensor::uninitialized(states, dtype),
                   Tensor::uninitialized(states.with(2, kept * n), dtype),
                   after ? Tensor() : Tensor::uninitialized(states, dtype),
                   products_of(walk, in.gain_h, 3)};
    const ForwardPass<T> pass{.walk = walk,
                              .parts = parts_of<T>(in.w_h, state_gates(in.form), 3, walk),
                              .norm = norm_of<T>(in.gain_h, out.products, 3, n),
                              .mask = data_or_null<T>(in.mask),
                              .h0 = h0.data<T>(),
                              .c0 = nullptr,
                              .h = out.h.mutable_data<T>(),
                              .c = nullptr,
                              .rh = mutable_data_or_null<T>(out.rh),
                              .gates = out.gates.mutable_data<T>(),
                              .kept = kept};
    const T *all_xw = in.xw.data<T>(), *b = b_hn.data<T>();
    run_forward(pass, [&](std::size_t part, const Place<T>& p, T* hw) {
      const T* xw = all_xw + p.at * 3 * n;
      T *gates = pass.gates + p.at * kept * n, *h = pass.h + p.at * n;
      if (after) {
        simd::run(simd::GruForwardRow<T>{xw, hw, b, p.h_prev, gates, h}, n);
      } else if (part == 0) {
        simd::run(simd::GruResetRow<T>{xw, hw, p.h_prev, gates, pass.rh + p.at * n}, n);
      } else {
        simd::run(
            simd::GruUpdateRow<T>{xw + 2 * n, hw + 2 * n, gates + n, p.h_prev, gates + 2 * n, h},
            n);
      }
    });
    return out;
  });
}

GruBackward gru_backward(const GruInput& in, const GruForward& forward, const Tensor& dh) {
  const Walk walk = check_gru(in);
  const bool after = in.form == GruForm::reset_after;
  ShapeCheck check("gru");
  check("xw", in.xw.shape(), "T B 3H")("h", forward.h.shape(), "T B H");
  check("gates", forward.gates.shape(), after ? "T B 4H" : "T B 3H");
  if (dh.defined()) check("dh", dh.shape(), "T B H");
  return visit_floating("gru", in.xw, [&](auto zero) {
    using T = decltype(zero);
    const DType dtype = in.xw.dtype();
    const Index n = walk.hidden;
    const Shape state{walk.batch, n};
    const Tensor h0 = or_zeros(in.h0, state, dtype);
    GruBackward out;
    out.dxw = Tensor::uninitialized(in.xw.shape(), dtype);
    out.dhw = after || in.gain_h.defined() ? Tensor::uninitialized(in.xw.shape(), dtype) : out.dxw;
    out.dh0 = zeros(state, dtype);
    Tensor sums = tile_sums(walk, in.gain_h);
    const BackwardPass<T> pass{
        .walk = walk,
        .parts = parts_of<T>(in.w_h, state_gates(in.form), 3, walk, /*transposed=*/true),
        .mask = data_or_null<T>(in.mask),
        .dh = data_or_null<T>(dh),
        .h = {h0.data<T>(), forward.h.data<T>()},
        .c = {},
        .dxw = out.dxw.mutable_data<T>(),
        .dhw = out.dhw.mutable_data<T>(),
        .dh0 = out.dh0.mutable_data<T>(),
        .sums = mutable_data_or_null<T>(sums)};
    const auto norm = norm_of<T>(in.gain_h, forward.products, 3, n);
    const T* all_gates = forward.gates.data<T>();
    run_backward(pass, [&](std::size_t part, const Place<T>& p, const RowScratch<T>& scratch) {
      const T* gates = all_gates + p.at * (after ? 4 : 3) * n;
      T *dxw = pass.dxw + p.at * 3 * n, *dhw = pass.dhw + p.at * 3 * n;
      T *dh_prev = pass.dh0 + p.row * n, *dh_t = scratch.row, *dgain = scratch.sums;
      if (!after && part == 0) {
        simd::run(simd::GruResetBackwardRow<T>{gates, p.h_prev, scratch.products, dxw, dh_prev}, n);
        if (norm) norm.backward(p.at, 0, 2, dxw, dhw, dgain, nullptr);
        return;
      }
      copy_row<T>(dh_prev, dh_t, n);
      if (after) {
        simd::run(simd::GruBackwardRow<T>{gates, p.h_prev, dh_t, dxw, dhw, dh_prev}, n);
        if (norm) norm.backward(p.at, 0, 3, dhw, dhw, dgain, dgain + 3 * n);
      } else {
        simd::run(simd::GruUpdateBackwardRow<T>{gates + n, gates + 2 * n, p.h_prev, dh_t, dxw + n,
                                                dxw + 2 * n, dh_prev},
                  n);
        if (norm) norm.backward(p.at, 2, 3, dxw + 2 * n, dhw + 2 * n, dgain + 2 * n, nullptr);
      }
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
