#include <fmt/format.h>

#include <attune/autograd/normalize.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/cell_norm.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {

const char* name_of(CellNorm norm) { return norm == CellNorm::none ? "none" : "layer"; }

CellNorm cell_norm_of(std::string_view name) {
  for (CellNorm norm : {CellNorm::none, CellNorm::layer}) {
    if (name == name_of(norm)) return norm;
  }
  fail("cell_norm", fmt::format("'{}' is not none or layer", name));
}

namespace detail {

Var normalize_blocks(const Var& x, const Var& gain, Index hidden) {
  if (!gain.defined()) return x;
  const Shape blocks = x.shape().with(-1, gain.size() / hidden).inserted(x.rank(), hidden);
  const Var normalized =
      layer_norm(reshape(x, blocks), ones({hidden}, x.dtype()), zeros({hidden}, x.dtype()));
  return reshape(normalized, x.shape()) * gain;
}

RecurrentOutput run_steps(const char* cell, const Var& xw, const Var& w_h,
                          const RunOptions& options, const CellStep& step) {
  const auto& [mask, initial, direction] = options;
  ShapeCheck check(cell);
  check("w_h", w_h.shape(), "H G")("xw", xw.shape(), "T B G");
  if (initial.h.defined()) check("h0", initial.h.shape(), "B H");
  if (initial.c.defined()) check("c0", initial.c.shape(), "B H");
  if (mask.defined()) check("mask", mask.shape(), "T B");
  const Index steps = check['T'], batch = check['B'];
  if (steps == 0) fail(cell, "the sequence has no steps");

  const Tensor zero = zeros({batch, check['H']}, xw.dtype());
  RecurrentState state{initial.h.defined() ? initial.h : zero,
                       initial.c.defined() ? initial.c : zero};
  std::vector<Var> h(static_cast<std::size_t>(steps));
  for (Index i = 0; i < steps; ++i) {
    const Index t = direction == Direction::forward ? i : steps - 1 - i;
    RecurrentState next = step(xw[t], state);
    if (mask.defined()) {
      const Tensor words = mask[t].reshape({batch, 1});
      next.h = where(words, next.h, state.h);
      if (next.c.defined()) next.c = where(words, next.c, state.c);
    }
    h[static_cast<std::size_t>(t)] = next.h;
    state = std::move(next);
  }
  return {stack(h), state};
}

}  // namespace detail
}  // namespace attune::nn
