// Definitions of the fused operations: their equations, and the same functions composed of small
// operations. Tests compare values and gradients of the fused operations with these.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/recurrent.hpp>

namespace attune::reference {

/// Π_i x_i along an axis, which is kept with extent 1. The constants |x_i| are multiplied by
/// themselves: a product of some x_i may not be finite where the product of all is.
inline Var prod(const Var& x, int axis) {
  const Tensor size = abs(x.value());
  const Tensor constants = where((size > 0) * isfinite(size), size, 1.0);
  const Var signs = x / constants;
  Var y = prod_forward(constants, axis);
  for (Index i = 0; i < x.dim(axis); ++i) y = y * slice(signs, axis, i, i + 1);
  return y;
}

/// y_i = y_{i-1} x_i along an axis
inline Var cumprod(const Var& x, Integer axis) {
  std::vector<Var> y;
  for (Index i = 0; i < x.dim(axis); ++i) {
    const Var x_i = slice(x, axis, i, i + 1);
    y.push_back(i == 0 ? x_i : y.back() * x_i);
  }
  return y.empty() ? x : concat(y, axis);
}

/// The k-th block of n columns.
inline Var block(const Var& x, Index k, Index n) { return slice(x, -1, k * n, (k + 1) * n); }

inline Var or_zeros(const Var& x, const Shape& shape, DType dtype) {
  return x.defined() ? x : zeros(shape, dtype);
}

/// `updated` where the mask of step t is 1, `old` where it is 0.
inline Var masked(const Mask& mask, Index t, const Var& updated, const Var& old) {
  if (!mask.defined()) return updated;
  return where(mask[t].reshape({-1, 1}), updated, old);
}

/// The product of v and the k-th block of W_h (of one gate).
inline Var product(const Var& v, const Var& w_h, Index k) {
  return matmul(v, block(w_h, k, w_h.dim(0)));
}

/// LSTM (Hochreiter and Schmidhuber, 1997; forget gate: Gers et al., 2000):
///     i f g o = [σ σ tanh σ](xw_t + h_{t-1} W_h)
///     c_t = f ⊙ c_{t-1} + i ⊙ g,   h_t = o ⊙ tanh(c_t)
/// GRU (Cho et al., 2014), where z keeps the old state, as in cuDNN. Bahdanau et al. (2014)
/// exchange z and 1 - z, which gives the same function with the parameters of z negated:
///     r z = σ(xw_t + h_{t-1} W_h),   h_t = (1 - z) ⊙ n + z ⊙ h_{t-1},
///     gru:               n = tanh(xw_t + r ⊙ (h_{t-1} W_n + b_hn))
///     gru_reset_before:  n = tanh(xw_t + (r ⊙ h_{t-1}) W_n)
inline RecurrentResult recurrent(const Var& xw, const Var& w_h, const Recurrence& options = {}) {
  const Index steps = xw.dim(0), n = w_h.dim(0);
  const bool lstm = options.cell == Cell::lstm;
  Var h = or_zeros(options.h0, {xw.dim(1), n}, xw.dtype());
  Var c = lstm ? or_zeros(options.c0, {xw.dim(1), n}, xw.dtype()) : Var();
  const Var b_hn = or_zeros(options.b_hn, {n}, xw.dtype());
  std::vector<Var> states(static_cast<std::size_t>(steps));
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
    states[static_cast<std::size_t>(t)] = h;
  }
  return {stack(states), c};
}

/// Repeats each head of x (B, G, n, A) for heads / G heads of the queries: (B, heads, n, A)
inline Var repeat_heads(const Var& x, Index heads) {
  return x.dim(1) == heads ? x : repeat(x, heads / x.dim(1), 1);
}

/// Scaled dot-product attention of T queries to S keys in each of K heads of A = D / K elements
/// (Vaswani et al., 2017, equation 1 and section 3.2.2):
///     y_k = softmax(q_k k_kᵀ / √A + bias_k) v_k
/// With G heads of the keys and values, each is used by K / G heads of the queries (Ainslie et al.,
/// 2023).
inline Var attention(const Var& q, const Var& kv, const FusedAttentionOptions& o = {},
                     const Var& bias = {}) {
  const Index T = q.dim(0), S = kv.dim(0), B = q.dim(1);
  const attune::detail::Heads heads("attention", o, q.dim(2));
  Var weights = permute(attention_weights(q, kv, o, AttentionWeights::per_head, bias),
                        {3, 1, 0, 2});  // (B, K, T, S)
  if (o.dropout > 0) {
    std::vector<double> factors(static_cast<std::size_t>(weights.value().size()));
    Random(o.random).dropout(o.dropout, std::span(factors));
    weights = weights * Tensor::of<double>(weights.shape(), factors).to(q.dtype());
  }
  const Var values = reshape(slice(kv, -1, heads.g * heads.a), {S, B, heads.g, heads.a_v});
  const Var read = batched_matmul(weights, repeat_heads(permute(values, {1, 2, 0, 3}), o.heads));
  return reshape(permute(read, {2, 0, 1, 3}), {T, B, heads.k * heads.a_v});
}

/// e_sb = v · tanh(q_b + k_sb)  (Bahdanau, Cho and Bengio, 2014, appendix A.1.2), and with coverage
/// e_sb = v · tanh(q_b + k_sb + coverage_sb w_c)  (See, Liu and Manning, 2017, equation 11)
inline Var additive_scores(const Var& q, const Var& k, const Var& v, const Var& coverage = {},
                           const Var& w_c = {}) {
  if (!coverage.defined()) return sum(v * tanh(q + k), {-1});
  return sum(v * tanh(q + (k + reshape(coverage, {k.dim(0), k.dim(1), 1}) * w_c)), {-1});
}

/// e_ksb = q_bk · k_sbk, where each of K heads has its own A / K elements; one head: e (S, B)
inline Var dot_scores(const Var& q, const Var& k, Integer heads = 1) {
  if (heads == 1) return sum(q * k, {-1});
  std::vector<Var> scores;
  for (Index i = 0, n = q.dim(1) / heads; i < heads; ++i)
    scores.push_back(sum(block(q, i, n) * block(k, i, n), {-1}));
  return stack(scores);
}

/// c_b = Σ_s α_sb h_sb  (Bahdanau et al., 2014, equation 5); with weights (K, S, B), each of K
/// heads sums its own D / K elements.
inline Var weighted_sum(const Var& weights, const Var& memory) {
  if (weights.rank() == 2)
    return sum(reshape(weights, weights.shape().inserted(2, 1)) * memory, {0});
  std::vector<Var> contexts;
  for (Index i = 0, n = memory.dim(2) / weights.dim(0); i < weights.dim(0); ++i)
    contexts.push_back(reference::weighted_sum(weights[i], block(memory, i, n)));
  return concat(contexts, -1);
}

/// y_i = e^{x_i} / Σ_j e^{x_j}, over the positions whose mask is 1
inline Var softmax(const Var& x, Integer axis, const Mask& mask = {}) {
  const Mask used = mask.defined() ? mask : Mask(scalar(1, x.dtype()));
  const Var seen = where(used, x, -std::numeric_limits<double>::infinity());
  return where(used, exp(x - log_sum_exp(seen, {axis}, KeepAxes::yes)), 0.0);
}

/// y_i = x_i - log Σ_j e^{x_j}
inline Var log_softmax(const Var& x, Integer axis) {
  return x - log_sum_exp(x, {axis}, KeepAxes::yes);
}

/// x - μ, computed twice: the second pass removes the rounding error of a large mean.
template <Value X>
X centred(const X& x, const Axes& axes) {
  const X differences = x - mean(x, axes, KeepAxes::yes);
  return differences - mean(differences, axes, KeepAxes::yes);
}

/// y = gain ⊙ (x - μ) / √(σ² + ε) + bias, with the mean μ and the variance σ² (divided by N) of
/// each row  (Ba, Kiros and Hinton, 2016, without the recurrence of its equation 4). x - μ and
/// √(σ² + ε) are divided by a constant c, so squares are finite.
inline Var layer_norm(const Var& x, const Var& gain, const Var& bias, double epsilon = 1e-5) {
  const Var differences = centred(x, {-1});
  const Tensor c = maximum(max(abs(differences.value()), {-1}, KeepAxes::yes), 1.0);
  const Var scaled = differences / c;
  const Var variance = mean(square(scaled), {-1}, KeepAxes::yes);
  return gain * (scaled / sqrt(variance + epsilon / c / c)) + bias;
}

/// y = argmin_p ‖p - x‖ over the simplex {p ≥ 0, Σ p = 1}  (Martins and Astudillo, 2016):
/// y_i = max(x_i - τ, 0), where τ makes the sum 1. x_i is in the support if
/// Σ_j max(x_j - x_i, 0) < 1; there y = x - τ, and Σ y = 1 gives τ.
inline Var sparsemax(const Var& x, Integer axis = -1, const Mask& mask = {}) {
  axis = x.shape().axis(axis);
  const Tensor used = broadcast_to(mask.defined() ? Tensor(mask) : scalar(1, x.dtype()), x.shape());
  const Tensor x_j = x.value().reshape(x.shape().inserted(axis + 1, 1));
  const Tensor x_i = x.value().reshape(x.shape().inserted(axis, 1));
  const Tensor above = maximum(x_j - x_i, 0);
  const Tensor total = sum(above * used.reshape(x_j.shape()), {axis});
  const Tensor support = used * (total < 1);
  const Tensor count = maximum(sum(support, {axis}, KeepAxes::yes), 1);
  const Var threshold = (sum(support * x, {axis}, KeepAxes::yes) - 1.0) / count;
  return support * (x - threshold);
}

/// -Σ_v q_v log softmax(logits)_v. Without label smoothing q is 1 at the target and 0
/// elsewhere. With label smoothing ε (Szegedy et al., 2016, section 7), q is 1 - ε at the
/// target, plus ε/V at every v:
///     loss = (1 - ε) (-log p_target) + ε mean_v(-log p_v)
///          = log Σ_v e^{x_v} - (1 - ε) x_target - ε/V Σ_v x_v
/// V and the sums of the ε terms leave out the columns of options.unsmoothed.
inline Var cross_entropy(const Var& logits, const Tensor& targets, const Tensor& mask = {},
                         const CrossEntropyOptions& options = {}) {
  const Tensor onehot = one_hot(targets, logits.dim(-1), logits.dtype());
  Tensor shares = ones({logits.dim(-1)}, logits.dtype());
  for (const std::int32_t column : options.unsmoothed) {
    Tensor share = shares[column];
    fill(share, 0);
  }
  const double share = options.smoothing / std::max(1.0, sum(shares).item());
  const Tensor smoothed = (1 - options.smoothing) * onehot + shares * share;
  const Var losses = -sum(smoothed * reference::log_softmax(logits, -1), {-1});
  const Tensor used =
      mask.defined() ? mask.to(logits.dtype()) : ones(targets.shape(), logits.dtype());
  const Var total = sum(where(used != 0, losses, 0.0) * used);
  return options.reduction == Reduction::sum ? total : total / sum(used).item();
}

/// Connectionist temporal classification, Σ_b -log p(labels_b)  (Graves et al., 2006, section 4.1):
/// l' are the labels with a blank before, between and after them, and
///     α_t(s) = y_t(l'_s) (α_{t-1}(s) + α_{t-1}(s - 1) + α_{t-1}(s - 2)),
/// where the last term requires that l'_s is neither the blank nor l'_{s-2}. With logarithms, from
/// which the largest of each step is subtracted; the sum of these constants is in f64.
inline Var ctc_loss(const Var& logits, const Mask& mask, const Tensor& labels,
                    const Mask& labels_mask, std::int32_t blank = 0) {
  constexpr double never = -1e30;  // log 0, but finite
  const Index B = logits.dim(1), U = labels.dim(0), L = 2 * U + 1;
  const DType dtype = logits.dtype();
  const Tensor blanks = full({B, 1}, blank, DType::i32);
  std::vector<Tensor> columns = {blanks};  // of l'
  const Tensor used = where(labels_mask, labels, blank);
  for (Index u = 0; u < U; ++u)
    columns.insert(columns.end(), {transpose(used.slice(u, u + 1), 0, 1), blanks});
  const Tensor symbols = concat(columns, 1);
  const Tensor s = arange(L, dtype);
  const auto from = [&](const Var& a, Index n) {  // α_{t-1}(s - n)
    return slice(pad(a, 1, n, 0, never), 1, 0, L);
  };
  const Tensor skips =
      (symbols != blank) * (slice(pad(symbols, 1, 2, 0, blank), 1, 0, L) != symbols);
  const Tensor ends = 2.0 * sum(labels_mask.to(dtype), 0).reshape({B, 1});  // the last blank
  const Var none = full({B, L}, never, dtype);
  Var alpha = where(s == 0, 0.0, none);
  const Var y = log_softmax(logits);
  Tensor subtracted = zeros({B, 1}, DType::f64);
  for (Index t = 0; t < logits.dim(0); ++t) {
    const Var before = t == 0 ? none : where(skips, from(alpha, 2), never);
    const Var paths = log_sum_exp(stack({alpha, from(alpha, 1), before}), 0);
    alpha = where(mask[t].reshape({B, 1}), paths + take_along_axis(y[t], symbols, 1), alpha);
    const Tensor largest = max(alpha.value(), 1, KeepAxes::yes);
    alpha = alpha - largest;
    subtracted = subtracted + largest.to(DType::f64);
  }
  const Var log_p = log_sum_exp(where((s == ends) + (s == ends - 1), alpha, never), 1);
  return -sum(log_p + subtracted.to(dtype).reshape({B}));
}

}  // namespace attune::reference
