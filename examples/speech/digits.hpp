// The recordings of the Free Spoken Digit Dataset, and strings made of them.
#pragma once

#include <array>
#include <filesystem>
#include <span>

#include <attune/models/text/codec.hpp>
#include <attune/tensor/random.hpp>

#include "utterance.hpp"

namespace attune::speech {

/// {digit}_{speaker}_{number}.wav, of several speakers.
class Digits {
 public:
  /// Those whose numbers are first to last, at that rate. Throws when there is none, or when a
  /// speaker lacks a digit.
  Digits(const std::filesystem::path& directory, Index first, Index last, Index rate);

  /// So many digits of one speaker, each one after the other.
  Utterance draw(Index digits, Random& random) const;
  /// Samples of the shortest recording.
  std::size_t shortest() const;
  /// Every recording by itself.
  std::vector<Utterance> single() const;

  /// "zero" to "nine"
  static text::Codec codec();

 private:
  // Of each speaker and digit.
  std::vector<std::array<std::vector<std::vector<float>>, 10>> speakers_;
};

/// So many strings of each length, of the same lengths and digits for a seed.
std::vector<Utterance> strings(const Digits& digits, Index shortest, Index longest, Index count,
                               std::uint64_t seed);

/// The recordings that a model is chosen by: 5 to 9. Those from 10 on are trained on.
Digits validation_digits(const std::filesystem::path& directory, Index rate);
Digits training_digits(const std::filesystem::path& directory, Index rate);

}  // namespace attune::speech
