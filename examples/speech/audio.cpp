#include "audio.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numbers>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <kiss_fftr.h>
#include <sndfile.h>

#include <attune/tensor/check.hpp>

#include "support/frames.hpp"

namespace attune::speech {

namespace {

constexpr sf_count_t longest = sf_count_t{1} << 28;  // samples of all channels: hours
constexpr Index around = 5;  // frames of quiet that are kept before and after what is said

struct AudioFile {
  std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> file;
  SF_INFO info = {};
};

/// libsndfile takes a WAV file that was cut short for a shorter one, and says so in its log alone,
/// of which it keeps the first lines: "RIFF : 7130 (should be 1992)", where some programs count
/// wrongly by a few bytes, and "data : 7094 (should be 1956)". Those that write into a pipe do not
/// know the size, and say that it is 2 GiB or more.
void check_complete(SNDFILE* file, const std::filesystem::path& path) {
  std::array<char, 1 << 14> log{};
  sf_command(file, SFC_GET_LOG_INFO, log.data(), static_cast<int>(log.size()) - 1);
  for (const auto& [line, format] : {std::pair{"\ndata : ", "\ndata : %lld (should be %lld)"},
                                     {"\nRIFF : ", "\nRIFF : %lld (should be %lld)"}}) {
    const char* const at = std::strstr(log.data(), line);
    long long said = 0, is = 0;
    if (!at || std::sscanf(at, format, &said, &is) != 2) continue;
    if (is + 8 < said && said < 1LL << 31)
      fail(path.string(), fmt::format("it ends after {} of {} bytes", is, said));
  }
}

AudioFile open(const std::filesystem::path& path) {
  const auto no_audio = [&](const std::string& reason) {
    fail(path.string(), "it cannot be read as audio: " + reason);
  };
  if (!std::filesystem::is_regular_file(path)) no_audio("a file was expected");
  static std::mutex mutex;  // libsndfile keeps the last error in one place
  const std::lock_guard lock(mutex);
  SF_INFO info{};
  AudioFile audio{{sf_open(path.c_str(), SFM_READ, &info), sf_close}};
  if (!audio.file) no_audio(sf_strerror(nullptr));
  constexpr std::array formats = {SF_FORMAT_WAV, SF_FORMAT_WAVEX, SF_FORMAT_FLAC, SF_FORMAT_OGG};
  if (std::ranges::count(formats, info.format & SF_FORMAT_TYPEMASK) == 0)
    no_audio("WAV, FLAC or Ogg was expected");
  check_complete(audio.file.get(), path);
  if (info.frames <= 0) fail(path.string(), "it has no samples");
  if (info.frames == SF_COUNT_MAX) fail(path.string(), "it ends early");
  if (info.frames > longest / info.channels)
    fail(path.string(),
         fmt::format("{} samples of {} channels are too long", info.frames, info.channels));
  audio.info = info;
  return audio;
}

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

Recording read_audio(const std::filesystem::path& path) {
  const auto [file, info] = open(path);
  constexpr sf_count_t block = 1 << 16;
  std::vector<float> some(block * info.channels);
  Recording recording{.samples = {}, .rate = info.samplerate, .channels = info.channels};
  // Memory for what is there: a header may say anything.
  while (const sf_count_t read = sf_readf_float(file.get(), some.data(), block)) {
    for (sf_count_t i = 0; i < read; ++i) {
      const float* sample = &some[i * info.channels];
      const float mean =
          std::accumulate(sample, sample + info.channels, 0.0f) / static_cast<float>(info.channels);
      if (!(std::abs(mean) < 1e6f))
        fail(path.string(),
             fmt::format("sample {} is {}: -1 to 1 was expected", recording.samples.size(), mean));
      recording.samples.push_back(mean);
    }
  }
  if (std::ssize(recording.samples) != info.frames)
    fail(path.string(),
         fmt::format("it ends after {} of {} samples", recording.samples.size(), info.frames));
  return recording;
}

double seconds_of(const std::filesystem::path& path) {
  const SF_INFO info = open(path).info;
  return static_cast<double>(info.frames) / info.samplerate;
}

std::vector<float> at_rate(const Recording& recording, Index rate) {
  if (recording.rate == rate) return recording.samples;
  const double ratio = static_cast<double>(rate) / static_cast<double>(recording.rate);
  if (ratio > 64 || ratio * 64 < 1)
    fail("audio", fmt::format("{} samples per second cannot be made of {}", rate, recording.rate));
  if (ratio * recording.samples.size() > longest)
    fail("audio", fmt::format("at {} samples per second it is too long", rate));
  return frames::resampled(recording.samples, ratio);
}

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

LogMel::LogMel(const LogMelOptions& o)
    : options_(o), window_(std::lround(o.window * o.rate)), step_(std::lround(o.step * o.rate)) {
  if (window_ < 2 || step_ < 1 || o.bands < 1 || o.lowest < 0 || o.lowest >= o.rate / 2)
    fail("LogMel",
         fmt::format(
             "{} samples per second give no window of {} s, step of {} s and bands from {} Hz",
             o.rate, o.window, o.step, o.lowest));
  size_ = static_cast<Index>(std::bit_ceil(static_cast<std::size_t>(window_)));
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
    if (triangle.empty())
      fail("LogMel", fmt::format("{} bands are too many: band {} is narrower than {} Hz", o.bands,
                                 band, of_bin));
  }
}

Index LogMel::frames(Index samples) const {
  return samples < window_ ? 1 : 1 + (samples - window_) / step_;
}

Tensor LogMel::operator()(std::span<const float> waveform) const {
  const Index samples = std::ssize(waveform), frames = this->frames(samples);
  Tensor features = Tensor::uninitialized({frames, options_.bands});
  float* to = features.mutable_data<float>();
  // It has room for one transform at a time: each call, and so each thread, has its own.
  const std::unique_ptr<kiss_fftr_state, void (*)(void*)> fft(
      kiss_fftr_alloc(static_cast<int>(size_), 0, nullptr, nullptr), std::free);
  std::vector<float> frame(size_);
  std::vector<kiss_fft_cpx> spectrum(size_ / 2 + 1);
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
        const kiss_fft_cpx& x = spectrum[first_[band] + i];
        power += static_cast<double>(triangles_[band][i]) * (x.r * x.r + x.i * x.i);
      }
      *to++ = static_cast<float>(std::log(std::max(power, 1e-10)));
    }
  }
  return features;
}

PauseCutter::PauseCutter(Index rate, double pause)
    : frame_(std::max<Index>(1, rate / 100)),
      quiet_frames_(std::max<Index>(1, std::lround(100 * pause))),
      longest_(30 * rate),
      cuts_(pause > 0) {}

std::vector<Piece> PauseCutter::add(std::span<const float> samples) {
  std::vector<Piece> ended;
  for (const float sample : samples) {
    samples_.push_back(sample);
    if (cuts_ && std::ssize(samples_) % frame_ == 0) end_frame(ended);
  }
  return ended;
}

void PauseCutter::end_frame(std::vector<Piece>& ended) {
  constexpr double floor = 1e-6, below_loudest = 1e-3;
  double power = 0;
  for (const float x : std::span(samples_).last(frame_))
    power += static_cast<double>(x) * x / static_cast<double>(frame_);
  if (power > floor && power > below_loudest * loudest_) {
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
  Piece piece{std::exchange(samples_, {}), seen_};
  seen_ += std::ssize(piece.samples);
  if (cuts_ && !speaks_) piece.samples.clear();
  if (quiet_ > around) piece.samples.resize(piece.samples.size() - (quiet_ - around) * frame_);
  speaks_ = false, loudest_ = 0, quiet_ = 0;
  return piece;
}

}  // namespace attune::speech
