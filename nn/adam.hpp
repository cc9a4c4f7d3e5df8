// The optimisers Adam and AdamW.
#pragma once

#include <functional>

#include <attune/autograd/backward.hpp>
#include <attune/nn/checkpoint.hpp>

namespace attune::nn {

struct AdamOptions {
  double rate = 1e-3;  // α
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  // λ: AdamW where it is not 0
  /// Which parameters decay, asked once for each when the optimiser is made. Empty, the default:
  /// all of them, as in the paper and in PyTorch. Often biases should not: `matrices_only`.
  std::function<bool(const NamedVariable&)> decays = {};
  /// Whether `step` throws, with nothing changed, where a gradient is NaN or infinite. It costs one
  /// reading of the gradients, and nothing after clip_by_global_norm.
  bool check_gradients = true;
};

/// For AdamOptions::decays: parameters of two axes or more, so neither biases nor v_a.
inline bool matrices_only(const NamedVariable& parameter) { return parameter.variable.rank() >= 2; }

/// Adam (Kingma and Ba, 2015, algorithm 1):
///     m = β₁ m + (1 - β₁) g,   v = β₂ v + (1 - β₂) g²,
///     w -= α · (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + ε)
/// where t counts the optimiser's steps, for all parameters alike. A parameter that the loss did
/// not depend on is left alone, its moments too.
///
/// With weight_decay λ it is AdamW (Loshchilov and Hutter, 2019, algorithm 2): before that step,
///     w *= 1 - α λ
/// in the same pass over memory. The decay goes with the rate, but not into the moments, where the
/// gradient of an L2 term of the loss would go.
class Adam {
 public:
  /// The parameters must outlive the optimiser; all of them must exist already. Throws on an option
  /// out of range.
  explicit Adam(Parameters& parameters, const AdamOptions& options = {});

  /// Throws, before anything has changed, where the gradient of a parameter, or its square, is NaN
  /// or infinite (an infinite v would hold the weight for ever): `check_gradients`.
  void step(const Gradients& gradients);

  /// Steps made so far, and the learning rate from the next one on.
  std::int64_t steps() const { return steps_; }
  void set_rate(double rate);

  /// Moments and step count, to and from a checkpoint ("adam.m.PATH", "adam.v.PATH", "adam.steps").
  void save(Safetensors& file) const;
  /// Throws, before anything has changed, when some are missing or have another shape or dtype, or
  /// when the step count is not a whole number from 0 on.
  void load(const Safetensors& file);

 private:
  void require_all_parameters() const;
  void require_finite(const Gradients& gradients) const;

  NamedTensors moments() const;

  const Parameters& parameters_;
  AdamOptions options_;
  // Of each parameter:
  std::vector<Tensor> m_, v_;
  std::vector<double> weight_decay_;  // λ, or 0 where it does not decay
  std::int64_t steps_ = 0;
};

}  // namespace attune::nn
