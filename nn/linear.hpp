// The affine layer.
#pragma once

#include <attune/autograd/ops.hpp>
#include <attune/nn/parameters.hpp>

namespace attune::nn {

struct LinearOptions {
  bool bias = true;
  Init weight_init = init::glorot();
  Init bias_init = init::zeros();
};

/// y = x W + b: what papers with column vectors write W x + b.
class Linear {
 public:
  Linear(const Scope& scope, Index in, Index out, const LinearOptions& options = {});

  /// (..., in) -> (..., out)
  Var operator()(const Var& x) const;

  /// What it computes, for losses that are fused with it.
  Affine affine() const { return {W_, b_}; }

 private:
  Var W_;  // (in, out)
  Var b_;  // (out), undefined without bias
  std::string path_;
};

}  // namespace attune::nn
