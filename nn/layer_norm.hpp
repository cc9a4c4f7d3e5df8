// Layer normalisation.
#pragma once

#include <attune/nn/parameters.hpp>

namespace attune::nn {

struct LayerNormOptions {
  double epsilon = 1e-5;
};

/// y = gain ⊙ (x - μ) / √(σ² + ε) + bias  (Ba, Kiros and Hinton, 2016, without the recurrence of
/// its equation 4), where μ and σ² are mean and variance of each row of n elements.
class LayerNorm {
 public:
  LayerNorm(const Scope& scope, Index n, const LayerNormOptions& options = {});

  /// (..., n) -> (..., n)
  Var operator()(const Var& x) const;

 private:
  Var gain_;  // (n), ones at first
  Var bias_;  // (n), zeros at first
  double epsilon_;
  std::string path_;
};

}  // namespace attune::nn
