// The scope guard under which a model is trained, and layers without recurrence: dropout, affine,
// embedding, layer normalisation, convolution.
#pragma once

#include <cstddef>

#include <attune/autograd/ops.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/random.hpp>

namespace attune::nn {

/// While one lives, layers in this thread are in training mode: dropout is active and draws from
/// `random`, which must outlive the guard.
class Training : attune::detail::ScopedValue<Random*> {
 public:
  [[nodiscard]] explicit Training(Random& random);
  /// The opposite: layers are in evaluation mode, whatever the enclosing guards.
  [[nodiscard]] explicit Training(std::nullptr_t);
  /// The generator of the innermost guard, or null outside of training.
  static Random* random();
};

/// Returns x, for a layer that acts in training only. If a gradient flows through it, a warning on
/// standard error says, once in a process, that the loss was computed outside of training and that
/// `what` had no effect.
Var outside_of_training(const Var& x, const char* what);

/// In training, y = x ⊙ m / (1 - rate), where each element of m is 0 with probability `rate` and 1
/// otherwise (Srivastava et al., 2014).
/// Outside of training y = x; backward of such a loss prints a warning, once in a process.
class Dropout {
 public:
  /// Throws unless 0 <= rate < 1.
  explicit Dropout(double rate);

  /// (...) -> (...)
  Var operator()(const Var& x) const;

 private:
  double rate_;
};

struct LinearOptions {
  bool bias = true;
  Init weight_init = init::glorot();
  Init bias_init = init::zeros();
};

/// y = x W + b: what papers with column vectors write W x + b.
class Linear {
 public:
  Linear(const Scope& scope, Index in, Index out, const LinearOptions& options = {})
      : W_(scope.add("W", {in, out}, options.weight_init)), path_(scope.path()) {
    if (options.bias) b_ = scope.add("b", {out}, options.bias_init);
  }

  /// (..., in) -> (..., out)
  Var operator()(const Var& x) const {
    const InLayer layer(path_);
    return AffineLogits{x, affine()};
  }

  /// What it computes, for losses that are fused with it.
  Affine affine() const { return {W_, b_}; }

 private:
  Var W_;  // (in, out)
  Var b_;  // (out), undefined without bias
  std::string path_;
};

/// A row of a table for each word.
class Embedding {
 public:
  /// Throws when the vocabulary has no word.
  Embedding(const Scope& scope, Index vocabulary, Index size, const Init& init = init::normal(0.1));

  /// ids i32 (...) -> (..., size)
  Var operator()(const Tensor& ids) const {
    const InLayer layer(path_);
    return gather(E_, ids);
  }

  const Var& table() const { return E_; }

 private:
  Var E_;  // (V, size)
  std::string path_;
};

/// Layer normalisation of each row of n elements: reference::layer_norm (autograd/reference.hpp).
class LayerNorm {
 public:
  LayerNorm(const Scope& scope, Index n, double epsilon = layer_norm_epsilon)
      : gain_(scope.add("gain", {n}, init::constant(1))),
        bias_(scope.add("bias", {n}, init::zeros())),
        epsilon_(epsilon),
        path_(scope.path()) {}

  /// (..., n) -> (..., n)
  Var operator()(const Var& x) const {
    const InLayer layer(path_);
    return layer_norm(x, gain_, bias_, epsilon_);
  }

 private:
  Var gain_;  // (n), ones at first
  Var bias_;  // (n), zeros at first
  double epsilon_;
  std::string path_;
};

/// Columns of a batch, padded on the right.
struct Sequence {
  Var x;      // (T, B, D)
  Mask mask;  // (T, B): 1 on steps, 0 on padding; undefined: all are steps
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
