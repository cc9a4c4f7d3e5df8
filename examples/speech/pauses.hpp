// A stream of samples, cut where it is quiet.
#pragma once

#include <span>
#include <vector>

#include <attune/tensor/dtype.hpp>

namespace attune::speech {

/// Utterances go from 50 ms before the first frame of 10 ms that is loud to 50 ms after the last one,
/// once none has been for so many seconds; what is longer than 30 s is cut there. A frame is loud with a power of 10^-6 of full
/// scale (-60 dB), and of a thousandth of that of the loudest frame of the utterance (-30 dB).
class PauseCutter {
 public:
  /// With a pause of 0 all is one utterance, which flush() returns.
  PauseCutter(Index rate, double pause);

  /// What ended with these samples.
  std::vector<std::vector<float>> add(std::span<const float> samples);
  /// What is left at the end; empty when it is quiet.
  std::vector<float> flush();

 private:
  void add_frame(std::vector<std::vector<float>>& ended);

  Index frame_, quiet_frames_, longest_;
  bool cuts_;
  std::vector<float> samples_;  // of the utterance, or those before the next one
  std::vector<float> part_;     // of a frame
  double loudest_ = 0;          // power of a frame
  bool speaks_ = false;
  Index quiet_ = 0;  // frames since the last loud one
};

}  // namespace attune::speech
