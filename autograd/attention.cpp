#include <attune/autograd/attention.hpp>
#include <attune/autograd/record.hpp>
#include <attune/tensor/attention.hpp>

namespace attune {

Var additive_scores(const Var& q, const Var& k, const Var& v) {
  return record("additive_scores", additive_scores_forward(q.value(), k.value(), v.value()))
      .joint({q, k, v}, [q = q.value(), k = k.value(), v = v.value()](auto dy, auto dx) {
        Tensor unused = dx[1] ? Tensor() : zeros(k.shape(), k.dtype());
        Tensor& dk = dx[1] ? dx[1]->accumulator() : unused;
        const AdditiveScoresBackward d = additive_scores_backward(q, k, v, dy[0], dk);
        if (dx[0]) dx[0]->add(d.dq);
        if (dx[2]) dx[2]->add(d.dv);
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

}  // namespace attune
