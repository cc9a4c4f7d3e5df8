#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/record.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/kernels/scores.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune {

namespace {

/// k_sb + coverage_sb w_c, or k without coverage.
Tensor covered(const Tensor& k, const Tensor& coverage, const Tensor& w_c) {
  if (!coverage.defined()) return k;
  ShapeCheck check("additive_scores");
  check("k", k, "S B A")("coverage", coverage, "S B")("w_c", w_c, "A");
  return k + coverage.reshape({check['S'], check['B'], 1}) * w_c;
}

}  // namespace

Var additive_scores(const Var& q, const Var& k, const Var& v, const Var& coverage, const Var& w_c) {
  if (coverage.defined() != w_c.defined()) return additive_scores(q, k, v);
  const Tensor keys = covered(k.value(), coverage.value(), w_c.value());
  return record("additive_scores", additive_scores_forward(q.value(), keys, v.value()))
      .joint({q, k, v, coverage, w_c},
             [q = q.value(), k = k.value(), v = v.value(), coverage = coverage.value(),
              w_c = w_c.value()](auto dy, const auto& dx) {
               const auto& [dq, dk, dv, dcoverage, dw_c] = dx;
               const bool in_place = dk && !coverage.defined();
               Tensor d_keys = in_place ? Tensor() : zeros(k.shape(), k.dtype());
               const AdditiveScoresBackward d = additive_scores_backward(
                   q, covered(k, coverage, w_c), v, dy[0], in_place ? dk->accumulator() : d_keys);
               if (dq) dq->add(d.dq);
               if (dv) dv->add(d.dv);
               if (dcoverage) dcoverage->add(sum(d_keys * w_c, {-1}));
               if (dw_c) dw_c->add(sum(d_keys * coverage.reshape({k.dim(0), k.dim(1), 1}), {0, 1}));
               if (dk && !in_place) dk->add(std::move(d_keys));
             });
}

Var dot_scores(const Var& q, const Var& k, Index heads) {
  return record("dot_scores", dot_scores_forward(q.value(), k.value(), heads))
      .wrt(q, [k = k.value()](const Tensor& de) { return weighted_sum_forward(de, k); })
      .wrt(k, [q = q.value()](const Tensor& de, GradientSlot& dk) {
        weighted_sum_backward_memory(de, q, dk.accumulator());
      });
}

Var weighted_sum(const Var& weights, const Var& memory) {
  return record("weighted_sum", weighted_sum_forward(weights.value(), memory.value()))
      .wrt(weights,
           [weights = weights.value(), memory = memory.value()](const Tensor& dc) {
             return weighted_sum_backward_weights(weights, memory, dc);
           })
      .wrt(memory, [weights = weights.value()](const Tensor& dc, GradientSlot& dmemory) {
        weighted_sum_backward_memory(weights, dc, dmemory.accumulator());
      });
}

Var attention(const Var& q, const Var& kv, const FusedAttentionOptions& options) {
  return attention(q, kv, options, AttentionWeights::no).y;
}

AttentionWithWeights attention(const Var& q, const Var& kv, const FusedAttentionOptions& options,
                               AttentionWeights which) {
  const AttentionForward forward = attention_forward(q.value(), kv.value(), options);
  const Tensor weights = attention_weights(q.value(), kv.value(), options, forward, which);
  Recording result = weights.defined() ? record("attention", {forward.y, weights})
                                       : record("attention", forward.y);
  result.joint({q, kv}, [=, q = q.value(), kv = kv.value()](auto dy, const auto& dx) {
    AttentionBackward d = attention_backward(q, kv, options, forward,
                                             dy[0].defined() ? dy[0] : zeros(q.shape(), q.dtype()),
                                             dy.size() > 1 ? dy[1] : Tensor());
    if (dx[0]) dx[0]->add(std::move(d.dq));
    if (dx[1]) dx[1]->add(std::move(d.dkv));
  });
  return {result.output(0), weights.defined() ? result.output(1) : Var()};
}

Var window(const Var& x, const Tensor& positions) {
  return record("window", window_forward(x.value(), positions))
      .wrt(x, [positions](const Tensor& dy, GradientSlot& dx) {
        window_backward(dy, positions, dx.accumulator());
      });
}

Var unwindow(const Var& x, const Tensor& positions, Index steps) {
  Tensor y = zeros(x.shape().with(0, steps), x.dtype());
  window_backward(x.value(), positions, y);
  return record("unwindow", y).wrt(x, [positions](const Tensor& dy) {
    return window_forward(dy, positions);
  });
}

Var unit_vectors(const Var& x) { return x / maximum(norm(x, -1, KeepAxes::yes), 1e-12); }

}  // namespace attune
