#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <attune/models/frames/augment.hpp>
#include <attune/tensor/check.hpp>

namespace attune::frames {
namespace {

constexpr Index crossings = 16,
                resolution = 512;  // zeros on each side of the kernel; points between two

/// A sinc under a Hann window, at `resolution` points between its zeros, from its middle on.
const std::vector<double>& kernel_points() {
  static const std::vector<double> points = [] {
    std::vector<double> y{1};
    for (Index i = 1; i <= crossings * resolution; ++i) {
      const double x = std::numbers::pi * static_cast<double>(i) / resolution;
      y.push_back(std::sin(x) / x * (0.5 + 0.5 * std::cos(x / crossings)));
    }
    y.push_back(0);
    return y;
  }();
  return points;
}

/// The kernel `x` >= 0 zeros from its middle, between two points on a straight line.
double kernel(const std::vector<double>& points, double x) {
  const double at = std::min(x, static_cast<double>(crossings)) * resolution;
  const auto below = static_cast<std::size_t>(at);
  const double share = at - static_cast<double>(below);
  return points[below] + share * (points[below + 1] - points[below]);
}

}  // namespace

std::vector<float> resampled(std::span<const float> waveform, double ratio) {
  if (!(ratio >= 1.0 / 64 && ratio <= 64)) {
    fail("resampled", fmt::format("the ratio {} is not in 1/64 to 64", ratio));
  }
  if (ratio == 1) return {waveform.begin(), waveform.end()};
  const std::vector<double>& points = kernel_points();
  const double cutoff = std::min(1.0, ratio);  // of the old rate's band
  const double reach = crossings / cutoff;     // samples on each side
  const auto last = static_cast<double>(waveform.size()) - 1;
  std::vector<float> result(
      static_cast<std::size_t>(std::floor(static_cast<double>(waveform.size()) * ratio)));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double at = static_cast<double>(i) / ratio;
    const double first = std::max(0.0, std::ceil(at - reach)),
                 end = std::min(last, std::floor(at + reach));
    double sum = 0;
    for (double s = first; s <= end; ++s)
      sum += static_cast<double>(waveform[static_cast<std::size_t>(s)]) *
             kernel(points, std::abs(s - at) * cutoff);
    result[i] = static_cast<float>(sum * cutoff);
  }
  return result;
}

void add_noise(std::span<float> waveform, double decibels, Random& random) {
  double power = 0;
  for (const float sample : waveform)
    power += static_cast<double>(sample) * static_cast<double>(sample);
  power /= std::max<double>(1, static_cast<double>(waveform.size()));
  const double amplitude = std::sqrt(power * std::pow(10, -decibels / 10));
  for (float& sample : waveform) sample += static_cast<float>(amplitude * random.normal());
}

void spec_augment(Tensor& x, const SpecAugmentOptions& o, Random& random, float value) {
  ShapeCheck("spec_augment")("x", x.shape(), "T D");
  const Index steps = x.dim(0), features = x.dim(1);
  float* values = x.mutable_data<float>();
  // A stretch of up to `widest` of `n`: where it begins, and where it ends.
  const auto draw = [&](Index n, Index widest) {
    const Index width = random.below(std::min(n, widest) + 1);
    const Index begin = random.below(n - width + 1);
    return std::pair(begin, begin + width);
  };
  const auto most = static_cast<Index>(o.most_time * static_cast<double>(steps));
  for (Index mask = 0; mask < o.time_masks; ++mask) {
    const auto [begin, end] = draw(steps, std::min(o.longest_time, most));
    std::fill(values + begin * features, values + end * features, value);
  }
  for (Index mask = 0; mask < o.feature_masks; ++mask) {
    const auto [begin, end] = draw(features, o.widest_features);
    for (Index t = 0; t < steps; ++t)
      std::fill(values + t * features + begin, values + t * features + end, value);
  }
}

}  // namespace attune::frames
