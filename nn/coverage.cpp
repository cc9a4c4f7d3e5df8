#include <attune/autograd/ops.hpp>
#include <attune/nn/coverage.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {
namespace {

/// (S, B), checked against the coverage's shape.
Var seen_beside(const Var& weights, const Var& coverage) {
  const Var seen = mean_of_heads(weights);
  ShapeCheck check("coverage");
  check("weights", seen.shape(), "S B");
  if (coverage.defined()) check("coverage", coverage.shape(), "S B");
  return seen;
}

}  // namespace

Var mean_of_heads(const Var& weights) { return weights.rank() == 3 ? mean(weights, {0}) : weights; }

Var add_coverage(const Var& coverage, const Var& weights) {
  const Var seen = seen_beside(weights, coverage);
  return coverage.defined() ? coverage + seen : seen;
}

Var coverage_loss(const Var& weights, const Var& coverage) {
  const Var now = seen_beside(weights, coverage);
  if (!coverage.defined()) return zeros({now.dim(1)}, now.dtype());
  return sum(minimum(now, coverage), {0});
}

}  // namespace attune::nn
