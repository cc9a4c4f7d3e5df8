// Changes to recordings that do not change what is said in them: more to learn from.
#pragma once

#include <span>
#include <vector>

#include <attune/tensor/random.hpp>

namespace attune::frames {

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
