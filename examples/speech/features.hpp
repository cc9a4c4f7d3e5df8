// What is heard of a recording: the logarithm of its power in bands of the mel scale.
#pragma once

#include <span>
#include <vector>

#include <attune/models/option_field.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune::speech {

struct LogMelOptions {
  Index rate = 8000;      // samples per second
  double window = 0.025;  // seconds
  double step = 0.010;    // seconds
  Index bands = 40;
  double lowest = 20;      // Hz; the highest is half of the rate
  double emphasis = 0.97;  // of high frequencies: x_i - emphasis x_{i-1}
};

/// All of it as text.
std::span<const models::OptionField<LogMelOptions>> log_mel_fields();

/// The waveform at the level at which the mean power of its loud frames is 0.01 (a frame is 10 ms,
/// and loud where it has at least the mean power of all): a model does not hear how far away the
/// microphone was, nor how long the silence around the words. All zeros stay so.
std::vector<float> levelled(std::span<const float> waveform, Index rate);

/// Frames of a waveform x_i - 0.97 x_{i-1} (`emphasis`), each under a Hann window, as power spectra
/// by FFT, summed in triangles whose corners are evenly spaced on the mel scale,
/// mel(f) = 2595 log10(1 + f / 700):
///     log(max(Σ_f triangle_b(f) |X(f)|², 1e-10))
class LogMel {
 public:
  /// Throws when a band is narrower than what the FFT tells apart.
  explicit LogMel(const LogMelOptions& options);

  /// (T, bands) f32, T = 1 + (samples - window) / step, rounded down; a waveform shorter than a
  /// window is one frame.
  Tensor operator()(std::span<const float> waveform) const;

  /// T of a waveform of so many samples.
  Index frames(Index samples) const;
  /// Seconds from frame to frame: those of the options, as a whole number of samples.
  double step() const { return static_cast<double>(step_) / static_cast<double>(options_.rate); }
  const LogMelOptions& options() const { return options_; }

 private:
  LogMelOptions options_;
  Index window_, step_, size_;                 // samples; of the FFT
  std::vector<float> hann_;                    // (window)
  std::vector<std::vector<float>> triangles_;  // of each band: weights of the bins from first_ on
  std::vector<Index> first_;
};

}  // namespace attune::speech
