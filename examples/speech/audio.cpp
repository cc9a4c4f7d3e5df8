#include "audio.hpp"

#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <sndfile.h>

#include <attune/models/frames/augment.hpp>
#include <attune/tensor/check.hpp>

namespace attune::speech {
namespace {

struct AudioFile {
  std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> file;
  SF_INFO info;
};

/// libsndfile takes a file that was cut short for a shorter one, and says so in its log alone:
/// "data : 7094 (should be 1956)". Programs that write into a pipe do not know the size, and say
/// that it is 2 GiB or more.
void check_complete(SNDFILE* file, const std::filesystem::path& path) {
  std::array<char, 1 << 14> log{};
  sf_command(file, SFC_GET_LOG_INFO, log.data(), static_cast<int>(log.size()) - 1);
  const std::string_view text = log.data();
  constexpr std::string_view mark = "\ndata : ";
  const std::size_t at = text.find(mark);
  if (at == text.npos) return;
  const std::string_view line = text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  const std::size_t should = line.find("(should be ");
  if (should == line.npos) return;
  const long long said = std::atoll(&line[mark.size() - 1]), is = std::atoll(&line[should + 11]);
  if (is < said && said < 1LL << 31)
    fail(path.string(), fmt::format("it ends after {} of {} bytes of samples", is, said));
}

AudioFile open(const std::filesystem::path& path) {
  constexpr sf_count_t longest = sf_count_t{1} << 30;  // samples of all channels: hours
  SF_INFO info{};
  AudioFile audio{{sf_open(path.c_str(), SFM_READ, &info), sf_close}, {}};
  if (!audio.file)
    fail(path.string(), fmt::format("it cannot be read as audio: {}", sf_strerror(nullptr)));
  check_complete(audio.file.get(), path);
  if (info.frames <= 0) fail(path.string(), "it has no samples");
  if (info.frames > longest / info.channels) fail(path.string(), "it is too long");
  audio.info = info;
  return audio;
}

}  // namespace

Recording read_audio(const std::filesystem::path& path) {
  const auto [file, info] = open(path);
  const auto channels = static_cast<std::size_t>(info.channels);
  std::vector<float> all(static_cast<std::size_t>(info.frames) * channels);
  const sf_count_t read = sf_readf_float(file.get(), all.data(), info.frames);
  if (read != info.frames)
    fail(path.string(), fmt::format("it ends after {} of {} samples", read, info.frames));
  Recording recording{.samples = {}, .rate = info.samplerate, .channels = info.channels};
  recording.samples.reserve(static_cast<std::size_t>(info.frames));
  for (std::size_t i = 0; i < all.size(); i += channels) {
    float sum = 0;
    for (std::size_t c = 0; c < channels; ++c) sum += all[i + c];
    recording.samples.push_back(sum / static_cast<float>(channels));
  }
  return recording;
}

double seconds_of(const std::filesystem::path& path) {
  const SF_INFO info = open(path).info;
  return static_cast<double>(info.frames) / info.samplerate;
}

std::vector<float> at_rate(const Recording& recording, Index rate) {
  if (recording.rate == rate) return recording.samples;
  return frames::resampled(recording.samples,
                           static_cast<double>(rate) / static_cast<double>(recording.rate));
}

}  // namespace attune::speech
