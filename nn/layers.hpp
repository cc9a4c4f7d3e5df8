// The scope guard that enables training mode, and layers without recurrence: dropout, linear,
// embedding, layer normalisation, convolution.
#pragma once

#include <cstddef>

#include <attune/autograd/loss.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/random.hpp>

namespace attune::nn {

/// Scope guard: enables training mode for the layers in this thread, and in the tiles of its
/// parallel_for, until its destruction. Dropout is active and draws from `random`, which must outlive
/// the guard, and which only one thread may use at a time.
class Training : attune::detail::ScopedValue<Random*> {
 public:
  [[nodiscard]] explicit Training(Random& random) : Training(&random) {}
  /// Training(nullptr) disables training mode, also inside another guard.
  [[nodiscard]] explicit Training(std::nullptr_t) : Training(static_cast<Random*>(nullptr)) {}
  /// The generator of the innermost guard; null outside of training mode.
  static Random* random() { return attune::detail::thread_state.training_random; }

 private:
  explicit Training(Random* random)
      : ScopedValue(attune::detail::thread_state.training_random, random) {}
};

/// Returns x, for a layer that has an effect in training mode only. If a gradient is propagated
/// through the result, prints a warning to standard error, once per process: the loss was computed
/// outside of nn::Training, and `what` had no effect.
Var outside_of_training(const Var& x, const char* what);

/// Throws unless 0 <= rate < 1.
void require_dropout_rate(double rate);

/// A dropout rate, or the default `otherwise` if it is -1.
inline double rate_or(double rate, double otherwise) { return rate == -1 ? otherwise : rate; }

/// In training mode, y = x ⊙ m / (1 - rate), where each element of m is 0 with probability `rate`
/// and 1 otherwise (Srivastava et al., 2014). Outside of training mode y = x, and a gradient
/// through y prints a warning, see outside_of_training.
class Dropout {
 public:
  /// Throws unless 0 <= rate < 1.
  explicit Dropout(double rate) : rate_(rate) { require_dropout_rate(rate); }

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

/// y = x W + b, for row vectors x. Papers with column vectors write it as W x + b.
class Linear {
 public:
  Linear(const Scope& scope, Integer in, Integer out, const LinearOptions& options = {})
      : W_(scope.add("W", {in, out}, options.weight_init)), path_(scope.path()) {
    if (options.bias) b_ = scope.add("b", {out}, options.bias_init);
  }

  /// (..., in) -> (..., out)
  Var operator()(const Var& x) const {
    const InLayer layer(path_);
    return add_matmul(b_, x, W_);
  }

  /// W and b, for losses that are fused with the matrix product.
  Affine affine() const { return {W_, b_}; }

 private:
  Var W_;  // (in, out)
  Var b_;  // (out), undefined without bias
  std::string path_;
};

/// A lookup table with one row (size) per token id.
class Embedding {
 public:
  /// Throws unless vocabulary >= 1.
  Embedding(const Scope& scope, Integer vocabulary, Integer size,
            const Init& init = init::normal(0.1));

  /// ids i32 (...) -> (..., size). Throws on an id outside of 0 .. vocabulary - 1.
  Var operator()(const Tensor& ids) const {
    const InLayer layer(path_);
    return gather(E_, ids);
  }

  Var table() const { return E_; }

 private:
  Var E_;  // (V, size)
  std::string path_;
};

/// Layer normalisation of each row of n elements (Ba et al., 2016), see reference::layer_norm:
///     y = gain ⊙ (x - mean(x)) / √(variance(x) + ε) + bias
class LayerNorm {
 public:
  LayerNorm(const Scope& scope, Integer n, double epsilon = layer_norm_epsilon)
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
  Var gain_;  // (n), initially 1
  Var bias_;  // (n), initially 0
  double epsilon_;
  std::string path_;
};

/// A batch of sequences, padded at the end.
struct Sequence {
  Var x;      // (T, B, D)
  Mask mask;  // (T, B): 1 on steps, 0 on padding; undefined means no padding
};

struct Conv1dOptions {
  Index width = 3;
  Index stride = 1;
  Index padding = 0;  // number of zero steps before and after each sequence
  LinearOptions linear = {};
};

/// Convolution over time: y_t = b + Σ_k x_{t·stride - padding + k} W_k, for k = 0 .. width - 1. A
/// sequence of n steps has (n + 2 padding - width) / stride + 1 output steps, rounded down,
/// independent of the other sequences: steps that are padding of the batch count as zeros.
class Conv1d {
 public:
  /// Throws unless width >= 1, stride >= 1 and padding >= 0.
  Conv1d(const Scope& scope, Integer in, Integer out, const Conv1dOptions& options = {});

  /// (T, B, in) -> (T', B, out). Throws if a sequence with its zero steps is shorter than `width`.
  Sequence operator()(const Sequence& sequence) const;

 private:
  UnfoldOptions windows_;
  Linear linear_;  // (width · in, out): the W_k, concatenated along the rows
  std::string path_;
};

/// Concatenates each n consecutive steps into one, as the pyramidal encoder of Chan et al. (2016,
/// section 3.1) does with n = 2: (T, B, D) -> (⌈T / n⌉, B, n · D). Missing steps at the end are
/// zeros. Throws unless n >= 1.
Sequence join_steps(const Sequence& sequence, Integer n);

}  // namespace attune::nn
