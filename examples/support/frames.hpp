// Sequences of real numbers, as in recordings and tables: batches, scaling and augmentation.
#pragma once

#include <span>
#include <vector>

#include <attune/nn/layers.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/random.hpp>

namespace attune::frames {

/// Sequences (T, D) of f32 or f64, side by side: x (T, B, D) with zeros after their ends, and the
/// mask. Throws when there is none, or where they differ in D or dtype.
nn::Sequence make_batch(std::span<const Tensor> sequences);

// ---- Features of mean 0 and variance 1

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

// ---- Changes to recordings that keep what is said in them: more to learn from

/// The waveform in `ratio` times as many samples, band-limited (a sinc under a Hann window of 16
/// zero crossings to each side): another sampling rate, or another speed, at which the pitch
/// changes too. Throws unless 1/64 <= ratio <= 64.
std::vector<float> resampled(std::span<const float> waveform, double ratio);

/// Adds white noise of a power that is `decibels` less than the waveform's.
void add_noise(std::span<float> waveform, double decibels, Random& random);

/// How much of a sequence of features is hidden (Park et al., 2019, SpecAugment, sections 2, 3).
struct SpecAugmentOptions {
  Index time_masks = 2, longest_time = 20;       // steps: m_T and T of the paper
  Index feature_masks = 2, widest_features = 8;  // features: m_F and F
  double most_time = 0.3;  // p: no mask is longer than this share of the steps
};

/// Sets stretches of steps, and bands of features, to `value`, in place: x (T, D) f32.
void spec_augment(Tensor& x, const SpecAugmentOptions& options, Random& random, float value = 0);

}  // namespace attune::frames
