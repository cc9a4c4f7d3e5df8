// Sequences of vectors with padding, and what makes shorter ones of them.
#pragma once

#include <attune/nn/linear.hpp>
#include <attune/tensor/arrange.hpp>

namespace attune::nn {

/// Columns of a batch, padded on the right.
struct Sequence {
  Var x;        // (T, B, D)
  Tensor mask;  // (T, B): 1 on steps, 0 on padding; undefined: all are steps
};

struct Conv1dOptions {
  Index width = 3;
  Index stride = 1;
  Index padding = 0;  // zeros before and after each sequence
  LinearOptions linear = {};
};

/// Convolution over time: y_t = b + Σ_k x_{t·stride - padding + k} W_k, for k = 0 .. width - 1.
/// Padding of the batch counts as zeros, and a sequence comes out with as many steps as it would
/// have alone: (steps + 2 padding - width) / stride + 1, rounded down.
class Conv1d {
 public:
  Conv1d(const Scope& scope, Index in, Index out, const Conv1dOptions& options = {});

  /// (T, B, in) -> (T', B, out). Throws when a sequence is shorter than a window.
  Sequence operator()(const Sequence& sequence) const;

 private:
  UnfoldOptions windows_;
  Linear linear_;  // (width · in, out): W_k one below the other
};

/// n steps after one another become one (the pyramid of Chan et al., 2016, section 3.1, with
/// n = 2): (T, B, D) -> (T / n, B, n · D), rounded up; what a last one lacks is zero.
Sequence join_steps(const Sequence& sequence, Index n);

}  // namespace attune::nn
