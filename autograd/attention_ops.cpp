#include <algorithm>
#include <cmath>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/record.hpp>
#include <attune/tensor/elementwise.hpp>
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

Var dot_scores(const Var& q, const Var& k, Integer heads) {
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
  const AttentionForward forward = attention_forward(q.value(), kv.value(), options);
  return record("attention", forward.y)
      .joint({q, kv}, [=, q = q.value(), kv = kv.value()](auto dy, const auto& dx) {
        AttentionBackward d = attention_backward(q, kv, options, forward, dy[0]);
        if (dx[0]) dx[0]->add(std::move(d.dq));
        if (dx[1]) dx[1]->add(std::move(d.dkv));
      });
}

Var attention_weights(const Var& q, const Var& kv, const FusedAttentionOptions& o,
                      AttentionWeights weights) {
  if (weights == AttentionWeights::no) return {};
  ShapeCheck check("attention_weights");
  check("q", q, "T B D")("kv", kv, "S B 2D");
  const Index T = check['T'], S = check['S'], B = check['B'], D = check['D'], A = D / o.heads;
  const auto heads_of = [&](const Var& x) {  // (n, B, D) -> (B, K, n, A)
    return permute(reshape(x, {x.dim(0), B, o.heads, A}), {1, 2, 0, 3});
  };
  Tensor seen = ones({B, 1, T, S}, q.dtype());
  const auto remove = [&](const Tensor& used, Index queries, Index keys) {
    seen = seen * permute(used.to(q.dtype()), {1, 0}).reshape({B, 1, queries, keys});
  };
  if (o.mask.defined()) remove(o.mask, 1, S);
  if (o.key_rows.defined()) remove(o.key_rows >= 0, 1, S);
  if (o.query_rows.defined()) remove(o.query_rows >= 0, T, 1);
  if (o.causal) {
    const Tensor last = arange(T, q.dtype()) + static_cast<double>(S - T);
    seen = seen * less_equal(arange(S, q.dtype()), last.reshape({T, 1}));
  }
  const Var queries = heads_of(q), keys = heads_of(slice(kv, -1, 0, D));
  constexpr Index block = 64;  // bounds the memory
  std::vector<Var> all;
  for (Index begin = 0; begin == 0 || begin < T; begin += block) {
    const Index end = std::min(T, begin + block);
    const Var scores = batched_matmul(slice(queries, 2, begin, end), keys, {.b = true});
    const Var w = softmax(scores / std::sqrt(static_cast<double>(A)), -1,
                          Mask::unchecked(slice(seen, 2, begin, end)));
    all.push_back(weights == AttentionWeights::mean ? permute(mean(w, {1}), {1, 2, 0})
                                                    : permute(w, {2, 1, 3, 0}));
  }
  return concat(all, 0);
}

Var window(const Var& x, const Tensor& positions) {
  return record("window", window_forward(x.value(), positions))
      .wrt(x, [positions](const Tensor& dy, GradientSlot& dx) {
        window_backward(dy, positions, dx.accumulator());
      });
}

Var unwindow(const Var& x, const Tensor& positions, Integer steps) {
  Tensor y = zeros(x.shape().with(0, steps), x.dtype());
  window_backward(x.value(), positions, y);
  return record("unwindow", y).wrt(x, [positions](const Tensor& dy) {
    return window_forward(dy, positions);
  });
}

Var unit_vectors(const Var& x) { return x / maximum(norm(x, -1, KeepAxes::yes), 1e-12); }

}  // namespace attune
