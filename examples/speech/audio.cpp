#include "audio.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>

#include <fmt/format.h>
#include <sndfile.h>

#include <attune/models/frames/augment.hpp>
#include <attune/tensor/check.hpp>

namespace attune::speech {
namespace {

constexpr sf_count_t longest = sf_count_t{1} << 28;  // samples of all channels: hours

struct AudioFile {
  std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> file;
  SF_INFO info;
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
  if (!std::filesystem::is_regular_file(path))
    fail(path.string(), "it cannot be read as audio: a file was expected");
  static std::mutex mutex;  // libsndfile keeps the last error in one place
  const std::lock_guard lock(mutex);
  SF_INFO info{};
  AudioFile audio{{sf_open(path.c_str(), SFM_READ, &info), sf_close}, {}};
  if (!audio.file)
    fail(path.string(), fmt::format("it cannot be read as audio: {}", sf_strerror(nullptr)));
  const int format = info.format & SF_FORMAT_TYPEMASK;
  if (format != SF_FORMAT_WAV && format != SF_FORMAT_WAVEX && format != SF_FORMAT_FLAC &&
      format != SF_FORMAT_OGG) {
    fail(path.string(), "it cannot be read as audio: WAV, FLAC or Ogg was expected");
  }
  check_complete(audio.file.get(), path);
  if (info.frames <= 0) fail(path.string(), "it has no samples");
  if (info.frames == SF_COUNT_MAX) fail(path.string(), "it ends early");
  if (info.frames > longest / info.channels)
    fail(path.string(),
         fmt::format("{} samples of {} channels are too long", info.frames, info.channels));
  audio.info = info;
  return audio;
}

}  // namespace

Recording read_audio(const std::filesystem::path& path) {
  const auto [file, info] = open(path);
  constexpr sf_count_t block = 1 << 16;
  const auto channels = static_cast<std::size_t>(info.channels);
  std::vector<float> some(block * channels);
  Recording recording{.samples = {}, .rate = info.samplerate, .channels = info.channels};
  // Memory for what is there: a header may say anything.
  while (const sf_count_t read = sf_readf_float(file.get(), some.data(), block)) {
    for (sf_count_t i = 0; i < read; ++i) {
      const float* sample = &some[static_cast<std::size_t>(i) * channels];
      const float mean =
          std::accumulate(sample, sample + channels, 0.0f) / static_cast<float>(channels);
      if (!(std::abs(mean) < 1e6f)) {
        fail(path.string(),
             fmt::format("sample {} is {}: -1 to 1 was expected", recording.samples.size(), mean));
      }
      recording.samples.push_back(mean);
    }
  }
  if (std::ssize(recording.samples) != info.frames) {
    fail(path.string(),
         fmt::format("it ends after {} of {} samples", recording.samples.size(), info.frames));
  }
  return recording;
}

double seconds_of(const std::filesystem::path& path) {
  const SF_INFO info = open(path).info;
  return static_cast<double>(info.frames) / info.samplerate;
}

std::vector<float> at_rate(const Recording& recording, Index rate) {
  if (recording.rate == rate) return recording.samples;
  const double ratio = static_cast<double>(rate) / static_cast<double>(recording.rate);
  if (ratio > 64 || ratio * 64 < 1) {
    fail("audio", fmt::format("{} samples per second cannot be made of {}", rate, recording.rate));
  }
  if (ratio * static_cast<double>(recording.samples.size()) > static_cast<double>(longest))
    fail("audio", fmt::format("at {} samples per second it is too long", rate));
  return frames::resampled(recording.samples, ratio);
}

}  // namespace attune::speech
