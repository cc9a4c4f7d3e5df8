// Recordings that tests make.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tools.hpp"

namespace attune::speech::test {

struct WavOptions {
  int rate = 8000, channels = 1, bits = 16;
};

/// A file of PCM samples, those of all channels in turn, in -1 to 1.
inline std::string wav(std::span<const float> samples, const WavOptions& o = {}) {
  const auto number = [](std::uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i & 0xFF);
    return text;
  };
  const auto of = [](int value) { return static_cast<std::uint32_t>(value); };
  std::string data;
  for (const float x : samples) {
    data += o.bits == 8 ? number(of(static_cast<int>(std::lround(x * 127)) + 128), 1)
                        : number(of(static_cast<int>(std::lround(x * 32767))), 2);
  }
  const int bytes = o.channels * o.bits / 8;
  return "RIFF" + number(static_cast<std::uint32_t>(36 + data.size()), 4) + "WAVEfmt " +
         number(16, 4) + number(1, 2) + number(of(o.channels), 2) + number(of(o.rate), 4) +
         number(of(o.rate * bytes), 4) + number(of(bytes), 2) + number(of(o.bits), 2) + "data" +
         number(static_cast<std::uint32_t>(data.size()), 4) + data;
}

inline std::vector<float> tone(double hertz, double seconds, double volume = 0.5, int rate = 8000) {
  std::vector<float> samples(static_cast<std::size_t>(std::lround(seconds * rate)));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double t = static_cast<double>(i) / rate;
    const double noise = 0.01 * std::sin(1e4 * std::sin(hertz * static_cast<double>(i)));
    samples[i] = static_cast<float>(volume * std::sin(2 * std::numbers::pi * hertz * t) + noise);
  }
  return samples;
}

/// Every digit by two speakers, in the naming of the Free Spoken Digit Dataset, numbers 8 to 11:
/// each digit is a tone of its own, of which the second speaker's is higher and one sample longer.
inline void write_digits(const std::string& directory) {
  std::filesystem::create_directories(directory);
  for (int digit = 0; digit < 10; ++digit) {
    for (int number = 8; number < 12; ++number) {
      for (const auto& [speaker, pitch] : {std::pair{"ann", 1.0}, {"bob", 1.05}}) {
        const double hertz = pitch * 300 * std::pow(1.25, digit);
        attune::test::write(fmt::format("{}/{}_{}_{}.wav", directory, digit, speaker, number),
                            wav(tone(hertz, 0.13 + 0.01 * number + (pitch > 1 ? 1 / 8000.0 : 0))));
      }
    }
  }
}

}  // namespace attune::speech::test
