// A stream of samples, cut where it is quiet.
#pragma once

#include <span>
#include <vector>

#include <attune/tensor/dtype.hpp>

namespace attune::speech {

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
  /// With a pause of 0 all is one utterance, which flush() returns.
  PauseCutter(Index rate, double pause);

  /// What ended with these samples.
  std::vector<Piece> add(std::span<const float> samples);
  /// What is left at the end; empty when it is quiet.
  Piece flush();

 private:
  void add_frame(std::vector<Piece>& ended);

  Index frame_, quiet_frames_, longest_;
  bool cuts_;
  std::vector<float> samples_;  // of the utterance, or those before the next one
  std::vector<float> part_;     // of a frame
  double loudest_ = 0;          // power of a frame
  bool speaks_ = false;
  Index quiet_ = 0;  // frames since the last loud one
  Index seen_ = 0;   // samples of the stream before samples_
};

}  // namespace attune::speech
