// Gradient clipping, non-finite gradients and divergence.
#pragma once

#include <string>

#include <attune/nn/parameters.hpp>

namespace attune::nn {

/// Scales all gradients by largest / ‖g‖₂ if their global norm ‖g‖₂ exceeds `largest` (Pascanu et
/// al., 2013). Returns the norm before scaling. `gradients` caches its norm after
/// scaling for the optimiser's check of non-finite gradients. Throws unless largest > 0 and all
/// elements are finite.
double clip_by_global_norm(Gradients& gradients, double largest);

/// Describes the first parameter with a non-finite gradient: "the gradient of 'decoder.W_h'
/// (64, 256), element (3, 17) is nan". Empty if all gradients are finite.
std::string non_finite_gradient(const Parameters& parameters, const Gradients& gradients);

/// Detects steps to skip, and divergence:
///
///     Gradients gradients = backward(loss);
///     const auto [usable, message] = monitor.observe(loss.item(), params, gradients);
///     if (!message.empty()) std::cerr << "step " << step << ": " << message << "\n";
///     if (usable) {
///       nn::clip_by_global_norm(gradients, 1.0);
///       adam.step(gradients);
///     }
///
/// Skip a step if its loss or a gradient is non-finite. The training loop decides when to stop, for
/// example by `skipped_in_a_row`. Training diverges if the loss of each of the last 50 steps
/// exceeds twice that of the first step, which is about the loss of a uniform prediction. This needs
/// a positive first loss: divergence of a log-density is not detected.
class DivergenceMonitor {
 public:
  static constexpr double factor = 2;
  static constexpr std::int64_t patience = 50;

  struct Step {
    bool usable;          // false if the loss or a gradient is non-finite
    std::string message;  // why it is not usable, or, once, that training diverges; else empty
  };
  Step observe(double loss, const Parameters& parameters, Gradients& gradients);

  /// Number of steps that were not usable: in total, and since the last usable step.
  std::int64_t skipped() const { return skipped_; }
  std::int64_t skipped_in_a_row() const { return in_a_row_; }

  /// Whether the loss of each of the last `patience` steps was too large.
  bool diverges() const { return above_ >= patience; }

  /// Adds the exact state to checkpoint metadata, with keys such as "divergence.first_loss".
  void save(Safetensors& file) const;
  /// Restores the state. Throws, and changes nothing, if an entry is missing or out of range.
  void load(const Safetensors& file);

 private:
  double first_loss_ = 0;   // 0 before the first usable step
  std::int64_t above_ = 0;  // consecutive steps with too large a loss
  std::int64_t skipped_ = 0, in_a_row_ = 0;
};

}  // namespace attune::nn
