#include "pauses.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace attune::speech {

namespace {

constexpr Index around = 5;  // frames of quiet that are kept before and after what is said

}  // namespace

PauseCutter::PauseCutter(Index rate, double pause)
    : frame_(std::max<Index>(1, rate / 100)),
      quiet_frames_(std::max<Index>(1, std::lround(100 * pause))),
      longest_(30 * rate),
      cuts_(pause > 0) {}

std::vector<Piece> PauseCutter::add(std::span<const float> samples) {
  std::vector<Piece> ended;
  if (!cuts_) {
    samples_.insert(samples_.end(), samples.begin(), samples.end());
    return ended;
  }
  for (const float sample : samples) {
    part_.push_back(sample);
    if (std::ssize(part_) == frame_) add_frame(ended);
  }
  return ended;
}

void PauseCutter::add_frame(std::vector<Piece>& ended) {
  constexpr double floor = 1e-6, below_loudest = 1e-3;
  double power = 0;
  for (const float x : part_) power += static_cast<double>(x) * x / static_cast<double>(frame_);
  const bool loud = power > floor && power > below_loudest * loudest_;
  samples_.insert(samples_.end(), part_.begin(), part_.end());
  part_.clear();
  if (loud) {
    speaks_ = true, quiet_ = 0;
    loudest_ = std::max(loudest_, power);
  } else if (!speaks_ && std::ssize(samples_) > around * frame_) {
    seen_ += std::ssize(samples_) - around * frame_;
    samples_.erase(samples_.begin(), samples_.end() - around * frame_);
  } else if (speaks_) {
    ++quiet_;
  }
  if (speaks_ && (quiet_ == quiet_frames_ || std::ssize(samples_) >= longest_))
    ended.push_back(flush());
}

Piece PauseCutter::flush() {
  samples_.insert(samples_.end(), part_.begin(), part_.end());
  part_.clear();
  Piece piece{std::exchange(samples_, {}), seen_};
  seen_ += std::ssize(piece.samples);
  if (cuts_ && !speaks_) piece.samples.clear();
  if (quiet_ > around) {
    piece.samples.resize(piece.samples.size() -
                         static_cast<std::size_t>((quiet_ - around) * frame_));
  }
  speaks_ = false, loudest_ = 0, quiet_ = 0;
  return piece;
}

}  // namespace attune::speech
