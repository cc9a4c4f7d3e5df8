// Recordings, from files that libsndfile reads: WAV, FLAC, Ogg and others.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include <attune/tensor/dtype.hpp>

namespace attune::speech {

/// Samples of one channel, full scale being 1.
struct Recording {
  std::vector<float> samples;
  Index rate = 0;      // samples per second
  Index channels = 1;  // of the file; several are averaged
};

/// Throws an Error "FILE: what is wrong" for what is no audio, has no samples, or ends before it
/// should.
Recording read_audio(const std::filesystem::path& path);

/// Its length, without reading the samples. Throws as read_audio does, but for what only the
/// samples show.
double seconds_of(const std::filesystem::path& path);

/// The samples at that rate. Throws for rates that are more than 64 times apart.
std::vector<float> at_rate(const Recording& recording, Index rate);

}  // namespace attune::speech
