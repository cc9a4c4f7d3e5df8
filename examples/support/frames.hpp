// Sequences of real numbers: features of mean 0 and variance 1.
#pragma once

#include <vector>

#include <attune/nn/parameters.hpp>

namespace attune::frames {

/// Mean and standard deviation of each feature in the training data: (D) each, f32 or f64. To be
/// kept in the model's checkpoint.
struct Scaling {
  Tensor mean, deviation;
};

/// (..., D) -> (..., D): (x - mean) / deviation, and the opposite.
Tensor scaled(const Tensor& x, const Scaling& scaling);
Tensor unscaled(const Tensor& x, const Scaling& scaling);

/// Throws unless all means are finite, and all deviations positive and finite.
void check(const Scaling& scaling);

/// "scaling.mean" and "scaling.deviation", sharing elements with the scaling: for save_tensors and
/// load_tensors.
nn::NamedTensors scaling_tensors(const Scaling& scaling);

/// Adds up features without keeping them (Welford, 1962).
class Moments {
 public:
  /// x (..., D). Throws when D is not that of before.
  void add(const Tensor& x);
  /// Throws when nothing was added. A feature that never changed has the deviation 0.
  Scaling scaling(DType dtype = DType::f32) const;

 private:
  double count_ = 0;
  std::vector<double> mean_, squares_;  // squares of the distances from the mean
};

}  // namespace attune::frames
