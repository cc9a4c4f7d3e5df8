// Steps of training that are not to be made, and training that diverges.
#pragma once

#include <string>

#include <attune/autograd/backward.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune::nn {

/// Looks at the loss and the gradients of every step:
///
///     Gradients gradients = backward(loss);
///     const auto [usable, message] = watch.observe(loss.item(), params, gradients);
///     if (!message.empty()) std::cerr << "step " << step << ": " << message << "\n";
///     if (usable) {
///       nn::clip_by_global_norm(gradients, 1.0);
///       adam.step(gradients);
///     }
///
/// A step whose loss or gradients are not finite is to be skipped; the training loop decides when
/// to give up (`skipped_in_a_row`). Training diverges when the loss of each of the last 50 steps is
/// more than twice that of the first step, which is about the loss of guessing; a few steps with a
/// large loss do not count.
class DivergenceWatch {
 public:
  static constexpr double factor = 2;
  static constexpr std::int64_t patience = 50;

  struct Step {
    bool usable;          // whether the optimiser may make it
    std::string message;  // why it is not usable, or, once, that training diverges; else empty
  };
  Step observe(double loss, const Parameters& parameters, Gradients& gradients);

  /// Steps that were not usable: all of them, and those since the last that was.
  std::int64_t skipped() const { return skipped_; }
  std::int64_t skipped_in_a_row() const { return in_a_row_; }

  /// Whether training diverges now.
  bool diverges() const { return above_ >= patience; }

  /// State to and from a checkpoint's metadata: "divergence.first_loss" and three counts, exact.
  void save(Metadata& metadata) const;
  /// Throws, before anything has changed, when one is missing or not a possible value.
  void load(const Metadata& metadata);

 private:
  double first_loss_ = 0;   // 0 until there is one
  std::int64_t above_ = 0;  // steps in a row whose loss was too large
  std::int64_t skipped_ = 0, in_a_row_ = 0;
};

}  // namespace attune::nn
