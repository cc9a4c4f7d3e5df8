// What the fused operations mean: the same functions, one small operation at a time. Tests compare
// the fused ones with these, values and gradients; read these first.
#pragma once

#include <attune/autograd/attention.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/recurrent.hpp>

namespace attune::reference {

RecurrentResult recurrent(const Var& xw, const Var& w_h, const Recurrence& options = {});
Var additive_scores(const Var& q, const Var& k, const Var& v);
Var covered_additive_scores(const Var& q, const Var& k, const Var& v, const Var& coverage,
                            const Var& w_c);
Var weighted_sum(const Var& weights, const Var& memory);
Var softmax(const Var& x, int axis, const Tensor& mask = {});
Var log_softmax(const Var& x, int axis);
Var layer_norm(const Var& x, const Var& gain, const Var& bias, double epsilon = 1e-5);
Var sparsemax(const Var& x, int axis = -1, const Tensor& mask = {});
Var cross_entropy(const Var& logits, const Tensor& targets, const Tensor& mask = {},
                  const CrossEntropyOptions& options = {});

}  // namespace attune::reference
