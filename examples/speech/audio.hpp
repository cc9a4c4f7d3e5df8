// Sound: recordings from files, their features, and streams cut at pauses.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include <attune/tensor/shape.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune::speech {

/// Samples of one channel, full scale being 1.
struct Recording {
  std::vector<float> samples;
  Index rate = 0;      // samples per second
  Index channels = 1;  // of the file; several are averaged
};

/// Throws an Error "FILE: what is wrong" for a file that is no audio, has no samples, or ends early.
Recording read_audio(const std::filesystem::path& path);

/// Its length. Does not read the samples, otherwise throws as read_audio does.
double seconds_of(const std::filesystem::path& path);

/// The samples at that rate. Throws for rates that are more than 64 times apart.
std::vector<float> at_rate(const Recording& recording, Index rate);

struct LogMelOptions {
  Index rate = 8000;      // samples per second
  double window = 0.025;  // seconds
  double step = 0.010;    // seconds
  Index bands = 40;
  double lowest = 20;      // Hz; the highest is half of the rate
  double emphasis = 0.97;  // of high frequencies: x_i - emphasis x_{i-1}
};

/// The waveform, scaled so that the mean power of its loud frames (10 ms each, of at least the mean
/// power of all) is 0.01, whatever the distance of the microphone and the silence around the words.
/// A waveform of zeros stays as it is.
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

 private:
  LogMelOptions options_;
  Index window_, step_, size_ = 0;             // samples; size_ of the FFT
  std::vector<float> hann_;                    // (window)
  std::vector<std::vector<float>> triangles_;  // of each band: weights of the bins from first_ on
  std::vector<Index> first_;
};

/// A part of a stream.
struct Piece {
  std::vector<float> samples;
  Index begin = 0;  // samples of the stream before it
};

/// An utterance begins at most 50 ms before its first loud frame, of 10 ms. It ends when no frame
/// was loud for `pause` seconds, and keeps 50 ms after the last loud one; or after 30 s. A frame is
/// loud when its mean square is above 10^-6 of full scale (-60 dB) and above a thousandth of that
/// of the utterance's loudest frame (-30 dB).
class PauseCutter {
 public:
  /// With a pause of 0 the whole stream is one utterance, which flush() returns.
  PauseCutter(Index rate, double pause);

  /// The utterances that end within these samples.
  std::vector<Piece> add(std::span<const float> samples);
  /// The rest of the stream at its end; empty where nothing is said.
  Piece flush();

 private:
  void end_frame(std::vector<Piece>& ended);

  Index frame_, quiet_frames_, longest_;
  bool cuts_;
  std::vector<float>
      samples_;         // of the utterance, or those before the next one: frames, and a part
  double loudest_ = 0;  // power of a frame
  bool speaks_ = false;
  Index quiet_ = 0;  // frames since the last loud one
  Index seen_ = 0;   // samples of the stream before samples_
};

}  // namespace attune::speech
