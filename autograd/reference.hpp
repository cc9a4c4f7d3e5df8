// What the fused operations mean: the same functions, one small operation at a time. Tests compare
// the fused ones with these, values and gradients; read these first.
#pragma once

#include <cmath>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/recurrent.hpp>

namespace attune::reference {

/// k-th block of n columns.
inline Var block(const Var& x, Index k, Index n) { return slice(x, -1, k * n, (k + 1) * n); }

inline Var or_zeros(const Var& x, const Shape& shape, DType dtype) {
  return x.defined() ? x : zeros(shape, dtype);
}

/// new where the mask of step t is 1, old where it is 0.
inline Var masked(const Mask& mask, Index t, const Var& updated, const Var& old) {
  if (!mask.defined()) return updated;
  const Tensor m = mask[t].reshape({-1, 1});
  return m * updated + (1.0 - m) * old;
}

/// v times the k-th of W_h's blocks.
inline Var product(const Var& v, const Var& w_h, Index k) {
  return matmul(v, block(w_h, k, w_h.dim(0)));
}

inline RecurrentResult recurrent(const Var& xw, const Var& w_h, const Recurrence& options = {}) {
  const Index steps = xw.dim(0), n = w_h.dim(0);
  const bool lstm = options.cell == Cell::lstm;
  Var h = or_zeros(options.h0, {xw.dim(1), n}, xw.dtype());
  Var c = lstm ? or_zeros(options.c0, {xw.dim(1), n}, xw.dtype()) : Var();
  const Var b_hn = or_zeros(options.b_hn, {n}, xw.dtype());
  std::vector<Var> states(steps);
  for (Index step = 0; step < steps; ++step) {
    const Index t = options.direction == Direction::forward ? step : steps - 1 - step;
    const auto x = [&](Index k) { return block(xw[t], k, n); };
    const auto gate = [&](Index k) { return x(k) + product(h, w_h, k); };
    Var h_next;
    if (lstm) {
      const Var i = sigmoid(gate(0)), f = sigmoid(gate(1)), g = tanh(gate(2)), o = sigmoid(gate(3));
      const Var c_next = f * c + i * g;
      h_next = o * tanh(c_next);
      c = masked(options.mask, t, c_next, c);
    } else {
      const Var r = sigmoid(gate(0)), z = sigmoid(gate(1));
      const Var candidate = tanh(x(2) + (options.cell == Cell::gru ? r * (product(h, w_h, 2) + b_hn)
                                                                   : product(r * h, w_h, 2)));
      h_next = (1 - z) * candidate + z * h;
    }
    h = masked(options.mask, t, h_next, h);
    states[t] = h;
  }
  return {stack(states), c};
}

/// The fused attention, with the weights (B, heads, T, S) before dropout.
struct Attended {
  Var y, weights;
};
inline Attended attention(const Var& q, const Var& kv, const FusedAttentionOptions& o = {}) {
  const Index T = q.dim(0), S = kv.dim(0), B = q.dim(1), D = q.dim(2);
  const auto heads_of = [&](const Var& x) {  // (n, B, D) -> (B, heads, n, A)
    return permute(reshape(x, {x.dim(0), B, o.heads, D / o.heads}), {1, 2, 0, 3});
  };
  Tensor seen = ones({B, 1, T, S}, q.dtype());
  if (o.mask.defined()) {
    seen = seen * permute(o.mask.to(q.dtype()), {1, 0}).reshape({B, 1, 1, S});
  }
  if (o.causal) {
    const Tensor last = arange(T, q.dtype()) + static_cast<double>(S - T);
    seen = seen * less_equal(arange(S, q.dtype()), last.reshape({T, 1}));
  }
  const std::vector<Var> k_v = split(kv, {D, D}, -1);
  const Var scores = batched_matmul(heads_of(q), heads_of(k_v[0]), {.b = true});
  const Var weights = softmax(scores / std::sqrt(static_cast<double>(D / o.heads)), -1,
                              Mask::unchecked(broadcast_to(seen, scores.shape())));
  Var kept = weights;
  if (o.dropout > 0) {
    std::vector<double> factors(static_cast<std::size_t>(weights.value().size()));
    Random(o.random).dropout(o.dropout, std::span(factors));
    kept = weights * Tensor::of<double>(weights.shape(), factors).to(q.dtype());
  }
  const Var read = permute(batched_matmul(kept, heads_of(k_v[1])), {2, 0, 1, 3});
  return {reshape(read, {T, B, D}), weights};
}

inline Var additive_scores(const Var& q, const Var& k, const Var& v, const Var& coverage = {},
                           const Var& w_c = {}) {
  if (!coverage.defined()) return sum(v * tanh(q + k), {-1});
  return sum(v * tanh(q + (k + reshape(coverage, {k.dim(0), k.dim(1), 1}) * w_c)), {-1});
}

inline Var weighted_sum(const Var& weights, const Var& memory) {
  return sum(reshape(weights, weights.shape().inserted(2, 1)) * memory, {0});
}

inline Var softmax(const Var& x, int axis, const Mask& mask = {}) {
  const Var e = mask.defined() ? exp(x) * mask : exp(x);
  return e / sum(e, {axis}, KeepAxes::yes);
}

inline Var log_softmax(const Var& x, int axis) {
  return x - log(sum(exp(x), {axis}, KeepAxes::yes));
}

inline Var layer_norm(const Var& x, const Var& gain, const Var& bias, double epsilon = 1e-5) {
  const Var centred = x - mean(x, {-1}, KeepAxes::yes);
  const Var variance = mean(square(centred), {-1}, KeepAxes::yes);
  return gain * (centred / sqrt(variance + epsilon)) + bias;
}

/// x_i is in the support where Σ_j max(x_j - x_i, 0) < 1; there y = x - τ, and Σ y = 1 gives τ.
inline Var sparsemax(const Var& x, int axis = -1, const Mask& mask = {}) {
  axis = x.shape().axis(axis);
  const Tensor used = broadcast_to(mask.defined() ? Tensor(mask) : scalar(1, x.dtype()), x.shape());
  const Tensor x_j = x.value().reshape(x.shape().inserted(axis + 1, 1));
  const Tensor x_i = x.value().reshape(x.shape().inserted(axis, 1));
  const Tensor above = maximum(x_j - x_i, scalar(0, x.dtype()));
  const Tensor total = sum(above * used.reshape(x_j.shape()), {axis});
  const Tensor support = used * map(total, [](auto t) { return static_cast<decltype(t)>(t < 1); });
  const Tensor count = maximum(sum(support, {axis}, KeepAxes::yes), scalar(1, x.dtype()));
  const Var threshold = (sum(support * x, {axis}, KeepAxes::yes) - 1.0) / count;
  return support * (x - threshold);
}

inline Var cross_entropy(const Var& logits, const Tensor& targets, const Tensor& mask = {},
                         const CrossEntropyOptions& options = {}) {
  const Tensor columns = targets.reshape(targets.shape().inserted(-1, 1));
  const Tensor onehot = equal(columns, arange(logits.dim(-1))).to(logits.dtype());
  const Tensor smoothed =
      (1 - options.smoothing) * onehot + options.smoothing / static_cast<double>(logits.dim(-1));
  const Var losses = -sum(smoothed * reference::log_softmax(logits, -1), {-1});
  const Tensor used = mask.defined() ? mask : ones(targets.shape(), logits.dtype());
  const Var total = sum(losses * used);
  return options.reduction == Reduction::sum ? total : total / sum(used).item();
}

}  // namespace attune::reference
