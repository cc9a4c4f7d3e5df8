#include <algorithm>
#include <cmath>
#include <vector>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/ctc.hpp>
#include <attune/tensor/kernels/normalize.hpp>
#include <attune/tensor/kernels/simd/functions.hpp>
#include <attune/tensor/loops.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune {

double log_add(double a, double b, double c) {
  const double m = std::max({a, b, c});
  if (m == log_zero) return a + b + c;  // NaN if any is: std::max may skip it
  return m + std::log(std::exp(a - m) + std::exp(b - m) + std::exp(c - m));
}

namespace {

/// A sentence's labels with blanks before, between and after them, as a row of states (paper: l').
struct LabelStates {
  Index frames = 0;
  std::vector<std::int32_t> label;
  std::vector<char> skips;  // true if a path may skip the blank before this state

  Index size() const { return std::ssize(label); }
};

LabelStates label_states(const CtcInput& input, Index b, Index frames, Index labels) {
  LabelStates s{.frames = frames, .label = {input.blank}, .skips = {0}};
  require_i32("ctc", "labels", input.labels);
  const auto* column = input.labels.data<std::int32_t>() + b;
  Index repeated = 0;
  for (Index u = 0; u < labels; ++u) {
    const std::int32_t label = column[u * input.labels.dim(1)];
    if (label < 0 || label >= input.logits.dim(2) || label == input.blank)
      fail("ctc", "label {} of sentence {} is {}, but must be in 0 to {} and not the blank {}", u,
           b, label, input.logits.dim(2) - 1, input.blank);
    const bool equal = u > 0 && label == s.label[s.label.size() - 2];
    repeated += equal;
    s.label.insert(s.label.end(), {label, input.blank});
    s.skips.insert(s.skips.end(), {static_cast<char>(u > 0 && !equal), 0});
  }
  if (frames < labels + repeated)
    fail("ctc", "sentence {} has {} frames, but its {} labels need {}", b, frames, labels,
         labels + repeated);
  return s;
}

/// (frames, states): the log-probability of the label of each state at each frame.
using Lattice = std::vector<double>;

/// y_i = log_add of terms 3i, 3i + 1 and 3i + 2, which are overwritten.
void log_add_all(std::vector<double>& terms, std::vector<double>& y) {
  const Index n = std::ssize(y);
  for (Index i = 0; i < n; ++i) {
    double* const of = &terms[3 * i];
    const double m = std::max({of[0], of[1], of[2]}), shift = m == log_zero ? 0 : m;
    y[i] = m == log_zero ? of[0] + of[1] + of[2] : m;  // NaN if any is: std::max may skip it
    for (int k = 0; k < 3; ++k) of[k] -= shift;
  }
  simd::exp(terms.data(), terms.data(), 3 * n);
  for (Index i = 0; i < n; ++i) terms[i] = terms[3 * i] + terms[3 * i + 1] + terms[3 * i + 2];
  simd::log(terms.data(), terms.data(), n);
  for (Index i = 0; i < n; ++i) y[i] += terms[i];
}

/// log α of the paper: of all paths to a state, including the state's label at that frame.
Lattice forward_variables(const LabelStates& s, const Lattice& y) {
  const Index n = s.size();
  Lattice alpha(y.size(), log_zero);
  alpha[0] = y[0];
  if (n > 1) alpha[1] = y[1];
  std::vector<double> terms(3 * n), sums(n);
  for (Index t = 1; t < s.frames; ++t) {
    const double* before = &alpha[(t - 1) * n];
    for (Index i = 0; i < n; ++i) {
      terms[3 * i] = before[i];
      terms[3 * i + 1] = i >= 1 ? before[i - 1] : log_zero;
      terms[3 * i + 2] = s.skips[i] ? before[i - 2] : log_zero;
    }
    log_add_all(terms, sums);
    for (Index i = 0; i < n; ++i) alpha[t * n + i] = y[t * n + i] + sums[i];
  }
  return alpha;
}

/// Calls f(t, i, γ) with the probability γ = α β / p of state i at frame t, given the labels. p is
/// the probability of all paths, β that of all continuations from the state, without its label.
template <class F>
void for_posteriors(const LabelStates& s, const Lattice& y, const Lattice& alpha, double total,
                    F f) {
  const Index n = s.size();
  std::vector<double> beta(n, log_zero), after(n), posterior(n), terms(3 * n);
  for (Index i = std::max<Index>(0, n - 2); i < n; ++i) beta[i] = 0;
  for (Index t = s.frames - 1; t >= 0; --t) {
    for (Index i = 0; i < n; ++i) {
      posterior[i] = alpha[t * n + i] + beta[i] - total;
      after[i] = beta[i] + y[t * n + i];
    }
    simd::exp(posterior.data(), posterior.data(), n);
    for (Index i = 0; i < n; ++i) {
      f(t, i, posterior[i]);
      terms[3 * i] = after[i];
      terms[3 * i + 1] = i + 1 < n ? after[i + 1] : log_zero;
      terms[3 * i + 2] = i + 2 < n && s.skips[i + 2] ? after[i + 2] : log_zero;
    }
    log_add_all(terms, beta);
  }
}

}  // namespace

Ctc ctc(const CtcInput& input, bool with_gradient) {
  ShapeCheck("ctc")("logits", input.logits, "T B V")("mask", input.mask, "T B")(
      "labels", input.labels, "U B")("labels_mask", input.labels_mask, "U B");
  const Index batch = input.logits.dim(1), v = input.logits.dim(2);
  if (input.blank < 0 || input.blank >= v)
    fail("ctc", "the blank {} is not in 0 to {}", input.blank, v - 1);
  const auto frames = lengths_of(input.mask), labels = lengths_of(input.labels_mask);
  const Tensor log_p = log_softmax(input.logits, -1);
  Ctc result{.loss = zeros({batch}, input.logits.dtype()), .dlogits = {}};
  if (with_gradient) result.dlogits = softmax(input.logits, -1);
  const auto of_sentence = [&]<class T>(Index b, const T* of_labels, T* loss) {
    const auto at = [=](Index t) { return t * batch + b; };
    const LabelStates s = label_states(input, b, frames[b], labels[b]);
    T* d = detail::elements_or_null<T>(result.dlogits);
    const auto no_gradient_from = [&](Index first) {
      for (Index t = first; d && t < input.logits.dim(0); ++t) std::fill_n(d + at(t) * v, v, T(0));
    };
    no_gradient_from(s.frames);
    if (s.frames == 0) return;
    Lattice y;
    y.reserve(s.frames * s.size());
    for (Index t = 0; t < s.frames; ++t)
      for (auto label : s.label) y.push_back(of_labels[at(t) * v + label]);
    const Lattice alpha = forward_variables(s, y);
    // All paths end in the last label or in the blank after it.
    std::vector<double> last{alpha.back(), s.size() > 1 ? alpha.end()[-2] : log_zero, log_zero},
        of_all(1);
    log_add_all(last, of_all);
    const double total = of_all[0];
    loss[b] = static_cast<T>(-total);
    if (total == log_zero) no_gradient_from(0);
    if (!d || total == log_zero) return;
    for_posteriors(s, y, alpha, total, [&](Index t, Index i, double gamma) {
      d[at(t) * v + s.label[i]] -= static_cast<T>(gamma);
    });
  };
  parallel_rows("ctc", std::tie(log_p, result.loss), batch, 1, of_sentence);
  return result;
}

}  // namespace attune
