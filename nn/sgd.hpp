// Stochastic gradient descent.
#pragma once

#include <attune/autograd/backward.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune::nn {

struct SgdOptions {
  double rate;              // α
  double momentum = 0;      // μ
  bool nesterov = false;    // needs momentum
  double weight_decay = 0;  // λ
  /// Whether `step` throws, with nothing changed, where a gradient is NaN or infinite. It costs one
  /// reading of the gradients, and nothing after clip_by_global_norm.
  bool check_gradients = true;
};

/// Stochastic gradient descent, with momentum as in PyTorch (Sutskever et al., 2013):
///     d = g + λ w,   v = μ v + d,
///     w -= α v,   or Nesterov's   w -= α (d + μ v)
/// from v = 0; without momentum w -= α d. The rate stands outside of v: changing it does not change
/// what is remembered. λ w is the gradient of an L2 term of the loss, λ/2 ‖w‖². A parameter that
/// the loss did not depend on is left alone, its v too.
class Sgd {
 public:
  /// The parameters must outlive the optimiser; all of them must exist already. Throws on an option
  /// out of range.
  Sgd(Parameters& parameters, const SgdOptions& options);

  /// Throws, before anything has changed, where the gradient of a parameter is NaN or infinite:
  /// `check_gradients`.
  void step(const Gradients& gradients);

  /// Steps made so far, and the learning rate from the next one on.
  std::int64_t steps() const { return steps_; }
  void set_rate(double rate);

  /// Step count and, with momentum, every v, to and from a checkpoint ("sgd.steps", "sgd.v.PATH").
  void save(Safetensors& file) const;
  /// Throws, before anything has changed, when some are missing or have another shape or dtype, or
  /// when the step count is not a whole number from 0 on. Without momentum the v of a file are
  /// ignored.
  void load(const Safetensors& file);

 private:
  void require_all_parameters() const;

  const Parameters& parameters_;
  SgdOptions options_;
  std::vector<Tensor> velocities_;  // undefined without momentum
  std::int64_t steps_ = 0;
};

}  // namespace attune::nn
