// The optimiser Adam.
#pragma once

#include <attune/autograd/backward.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune::nn {

struct AdamOptions {
  double rate = 1e-3;  // α
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

/// Adam (Kingma and Ba, 2015, algorithm 1):
///     m = β₁ m + (1 - β₁) g,   v = β₂ v + (1 - β₂) g²,
///     w -= α · (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + ε)
/// where t counts the optimiser's steps, for all parameters alike. A parameter that the loss did
/// not depend on is left alone, its moments too.
class Adam {
 public:
  /// The parameters must outlive the optimiser; all of them must exist already. Throws on an option
  /// out of range.
  explicit Adam(Parameters& parameters, const AdamOptions& options = {});

  void step(const Gradients& gradients);

  /// Steps made so far, and the learning rate from the next one on.
  std::int64_t steps() const { return steps_; }
  void set_rate(double rate);

  /// Moments and step count, to and from a checkpoint ("adam.m.PATH", "adam.v.PATH", "adam.steps").
  void save(Safetensors& file) const;
  /// Throws, before anything has changed, when some are missing, or of another shape or dtype, or
  /// the count is not one.
  void load(const Safetensors& file);

 private:
  void require_all_parameters() const;

  struct Moments {
    Tensor m, v;
  };

  const Parameters& parameters_;
  AdamOptions options_;
  std::vector<Moments> moments_;
  std::int64_t steps_ = 0;
};

}  // namespace attune::nn
