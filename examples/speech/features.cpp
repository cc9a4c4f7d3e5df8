#include "features.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <numbers>

#include <fmt/format.h>
#include <kiss_fftr.h>

#include <attune/tensor/check.hpp>

namespace attune::speech {
namespace {

double mel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

/// The mean power of the frames whose power is at least `least`.
double mean_power(std::span<const double> frames, double least) {
  double sum = 0;
  Index count = 0;
  for (const double power : frames) {
    if (power >= least) sum += power, ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

}  // namespace

std::vector<float> levelled(std::span<const float> waveform, Index rate) {
  constexpr double level = 0.01;
  const auto frame = static_cast<std::size_t>(std::max<Index>(1, rate / 100));
  std::vector<double> powers((waveform.size() + frame - 1) / frame);
  for (std::size_t i = 0; i < waveform.size(); ++i)
    powers[i / frame] +=
        static_cast<double>(waveform[i]) * waveform[i] / static_cast<double>(frame);
  const double loud = mean_power(powers, mean_power(powers, 0));
  std::vector<float> scaled(waveform.begin(), waveform.end());
  if (loud == 0) return scaled;
  const auto factor = static_cast<float>(std::sqrt(level / loud));
  for (float& x : scaled) x *= factor;
  return scaled;
}

std::span<const models::OptionField<LogMelOptions>> log_mel_fields() {
  using Options = LogMelOptions;
  using models::number_field;
  static const std::vector<models::OptionField<Options>> fields = {
      number_field<Options>("sampling-rate",
                            "samples per second; recordings of another rate are converted",
                            &Options::rate, 1000, 192000),
      number_field<Options>("frame", "seconds of a frame", &Options::window, 0.001, 1),
      number_field<Options>("frame-step", "seconds from frame to frame", &Options::step, 0.001, 1),
      number_field<Options>("bands", "bands of the mel scale", &Options::bands, 1, 512),
      number_field<Options>("lowest", "lowest frequency in Hz", &Options::lowest, 0, 96000),
      number_field<Options>("emphasis", "of high frequencies: x_i - emphasis x_{i-1}",
                            &Options::emphasis, 0, 1)};
  return fields;
}

LogMel::LogMel(const LogMelOptions& o)
    : options_(o),
      window_(std::lround(o.window * o.rate)),
      step_(std::lround(o.step * o.rate)),
      size_(1) {
  if (window_ < 2 || step_ < 1 || o.bands < 1 || o.lowest < 0 || o.lowest >= o.rate / 2) {
    fail("LogMel",
         fmt::format(
             "{} samples per second give no window of {} s, step of {} s and bands from {} Hz",
             o.rate, o.window, o.step, o.lowest));
  }
  while (size_ < window_) size_ *= 2;
  for (Index i = 0; i < window_; ++i)
    hann_.push_back(
        static_cast<float>(0.5 - 0.5 * std::cos(2 * std::numbers::pi * i / (window_ - 1))));
  const double low = mel(o.lowest), high = mel(o.rate / 2.0),
               of_bin = static_cast<double>(o.rate) / size_;
  const auto corner = [&](Index i) {
    return hertz(low + (high - low) * i / (o.bands + 1)) / of_bin;
  };
  for (Index band = 0; band < o.bands; ++band) {
    const double left = corner(band), middle = corner(band + 1), right = corner(band + 2);
    first_.push_back(static_cast<Index>(std::floor(left)) + 1);
    std::vector<float>& triangle = triangles_.emplace_back();
    for (Index bin = first_.back(); bin < right && bin <= size_ / 2; ++bin) {
      const double at = static_cast<double>(bin);
      triangle.push_back(static_cast<float>(at <= middle ? (at - left) / (middle - left)
                                                         : (right - at) / (right - middle)));
    }
    if (triangle.empty()) {
      fail("LogMel", fmt::format("{} bands are too many: band {} is narrower than {} Hz", o.bands,
                                 band, of_bin));
    }
  }
}

Index LogMel::frames(Index samples) const {
  return samples < window_ ? 1 : 1 + (samples - window_) / step_;
}

Tensor LogMel::operator()(std::span<const float> waveform) const {
  const auto samples = std::ssize(waveform);
  const Index frames = this->frames(samples);
  Tensor features = Tensor::uninitialized({frames, options_.bands});
  float* to = features.mutable_data<float>();
  // It has room for one transform at a time: each call, and so each thread, has its own.
  const std::unique_ptr<kiss_fftr_state, void (*)(void*)> fft(
      kiss_fftr_alloc(static_cast<int>(size_), 0, nullptr, nullptr), std::free);
  std::vector<float> frame(static_cast<std::size_t>(size_));
  std::vector<kiss_fft_cpx> spectrum(static_cast<std::size_t>(size_ / 2 + 1));
  for (Index t = 0; t < frames; ++t) {
    std::ranges::fill(frame, 0.0f);
    for (Index i = 0; i < std::min(window_, samples - t * step_); ++i) {
      const Index at = t * step_ + i;
      const double before = at == 0 ? 0 : waveform[at - 1];
      frame[i] = static_cast<float>(waveform[at] - options_.emphasis * before) * hann_[i];
    }
    kiss_fftr(fft.get(), frame.data(), spectrum.data());
    for (Index band = 0; band < options_.bands; ++band) {
      double power = 0;
      for (std::size_t i = 0; i < triangles_[band].size(); ++i) {
        const kiss_fft_cpx& x = spectrum[static_cast<std::size_t>(first_[band]) + i];
        power += static_cast<double>(triangles_[band][i]) * (x.r * x.r + x.i * x.i);
      }
      *to++ = static_cast<float>(std::log(std::max(power, 1e-10)));
    }
  }
  return features;
}

}  // namespace attune::speech
