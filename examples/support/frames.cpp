#include "support/frames.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>

namespace attune::frames {

nn::Sequence make_batch(std::span<const Tensor> sequences) {
  if (sequences.empty()) fail("make_batch", "there is no sequence");
  ShapeCheck check("make_batch");
  std::vector<Index> lengths;
  for (const Tensor& sequence : sequences) {
    require_same_dtype("make_batch", sequences[0], sequence);
    lengths.push_back(sequence.dim(0));
    check("a sequence", sequence.shape().without(0), "D");
  }
  const Index batch = std::ssize(sequences), d = check['D'];
  const Tensor mask = mask_of(lengths, sequences[0].dtype());
  Tensor x = zeros({mask.dim(0), batch, d}, mask.dtype());
  visit_floating("make_batch", x, [&](auto zero) {
    using T = decltype(zero);
    T* to = x.mutable_data<T>();
    for (Index b = 0; b < batch; ++b) {
      const T* from = sequences[static_cast<std::size_t>(b)].data<T>();
      for (Index t = 0; t < lengths[static_cast<std::size_t>(b)]; ++t)
        std::copy_n(from + t * d, d, to + (t * batch + b) * d);
    }
  });
  return {x, mask};
}

Tensor scaled(const Tensor& x, const Scaling& scaling) {
  return (x - scaling.mean.to(x.dtype())) / scaling.deviation.to(x.dtype());
}

Tensor unscaled(const Tensor& x, const Scaling& scaling) {
  return x * scaling.deviation.to(x.dtype()) + scaling.mean.to(x.dtype());
}

void check(const Scaling& scaling) {
  const std::vector<double> mean = scaling.mean.to_vector<double>(),
                            deviation = scaling.deviation.to_vector<double>();
  for (std::size_t i = 0; i < mean.size(); ++i) {
    if (std::isfinite(mean[i]) && std::isfinite(deviation[i]) && deviation[i] > 0) continue;
    fail("scaling", fmt::format("feature {} has the mean {} and the deviation {}: numbers were "
                                "expected, and a positive deviation",
                                i, mean[i], deviation[i]));
  }
}

nn::NamedTensors scaling_tensors(const Scaling& scaling) {
  return {{"scaling.mean", scaling.mean}, {"scaling.deviation", scaling.deviation}};
}

void Moments::add(const Tensor& x) {
  const auto d = static_cast<std::size_t>(x.dim(-1));
  if (count_ == 0) mean_.assign(d, 0), squares_.assign(d, 0);
  if (d != mean_.size()) {
    fail("Moments",
         fmt::format("{} has not the {} features of before", to_string(x.shape()), mean_.size()));
  }
  const std::vector<double> values = x.to_vector<double>();
  for (std::size_t row = 0; row < values.size(); row += d) {
    ++count_;
    for (std::size_t i = 0; i < d; ++i) {
      const double distance = values[row + i] - mean_[i];
      mean_[i] += distance / count_;
      squares_[i] += distance * (values[row + i] - mean_[i]);
    }
  }
}

Scaling Moments::scaling(DType dtype) const {
  if (count_ == 0) fail("Moments", "there is nothing to scale by");
  std::vector<double> deviation;
  for (const double squares : squares_) deviation.push_back(std::sqrt(squares / count_));
  const auto tensor = [&](std::span<const double> values) {
    return Tensor::of({std::ssize(values)}, values).to(dtype);
  };
  return {tensor(mean_), tensor(deviation)};
}

namespace {

constexpr Index crossings = 16;    // zeros on each side of the kernel
constexpr Index resolution = 512;  // points between two of them

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
