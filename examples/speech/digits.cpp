#include "digits.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>

#include "audio.hpp"
#include "support/checkpoint.hpp"

namespace attune::speech {
namespace {

/// What the name of a recording says.
struct Name {
  std::string speaker;
  std::size_t digit;
  Index number;
};

std::optional<Name> name_of(const std::filesystem::path& file) {
  const std::string stem = file.stem().string();
  const std::size_t first = stem.find('_'), last = stem.rfind('_');
  if (file.extension() != ".wav" || first != 1 || last <= first + 1) return {};
  if (stem[0] < '0' || stem[0] > '9') return {};
  Name name{.speaker = stem.substr(first + 1, last - first - 1),
            .digit = static_cast<std::size_t>(stem[0] - '0'),
            .number = 0};
  const char* const end = stem.data() + stem.size();
  const auto [rest, error] = std::from_chars(stem.data() + last + 1, end, name.number);
  if (error != std::errc() || rest != end) return {};
  return name;
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  if (error) fail(directory.string(), fmt::format("it cannot be read: {}", error.message()));
  std::vector<std::filesystem::path> files;
  for (const auto& entry : entries) files.push_back(entry.path());
  std::ranges::sort(files);  // whatever order the file system has them in
  return files;
}

std::int32_t token_of(std::size_t digit) {
  return text::Vocabulary::unknown + 1 + static_cast<std::int32_t>(digit);
}

}  // namespace

Digits::Digits(const std::filesystem::path& directory, Index first, Index last, Index rate) {
  std::map<std::string, std::size_t> places;
  for (const std::filesystem::path& file : files_of(directory)) {
    const std::optional<Name> name = name_of(file);
    if (!name || name->number < first || name->number > last) continue;
    const auto [at, is_new] = places.try_emplace(name->speaker, speakers_.size());
    if (is_new) speakers_.emplace_back();
    const Recording recording = read_audio(file);
    speakers_[at->second][name->digit].push_back(
        reading(file, [&] { return at_rate(recording, rate); }));
  }
  const std::string numbers = fmt::format("with a number from {} to {}", first, last);
  if (speakers_.empty())
    fail(directory.string(), fmt::format("there is no DIGIT_SPEAKER_NUMBER.wav {}", numbers));
  for (const auto& [speaker, place] : places) {
    for (std::size_t digit = 0; digit < 10; ++digit) {
      if (!speakers_[place][digit].empty()) continue;
      fail(directory.string(),
           fmt::format("{} has no recording of {} {}", speaker, digit, numbers));
    }
  }
}

Utterance Digits::draw(Index digits, Random& random) const {
  Utterance utterance;
  const auto one_of = [&](const auto& all) -> const auto& {
    return all[static_cast<std::size_t>(random.below(std::ssize(all)))];
  };
  const auto& speaker = one_of(speakers_);
  for (Index i = 0; i < digits; ++i) {
    const auto digit = static_cast<std::size_t>(random.below(10));
    const std::vector<float>& samples = one_of(speaker[digit]);
    utterance.samples.insert(utterance.samples.end(), samples.begin(), samples.end());
    utterance.tokens.push_back(token_of(digit));
    utterance.ends.push_back(utterance.samples.size());
  }
  return utterance;
}

std::size_t Digits::shortest() const {
  std::size_t least = static_cast<std::size_t>(-1);
  for (const auto& speaker : speakers_) {
    for (const auto& recordings : speaker) {
      for (const auto& samples : recordings) least = std::min(least, samples.size());
    }
  }
  return least;
}

std::vector<Utterance> Digits::single() const {
  std::vector<Utterance> all;
  for (const auto& speaker : speakers_) {
    for (std::size_t digit = 0; digit < 10; ++digit) {
      for (const auto& samples : speaker[digit])
        all.push_back({samples, {token_of(digit)}, {samples.size()}});
    }
  }
  return all;
}

text::Codec Digits::codec() {
  const std::array<std::string, 10> words = {"zero", "one", "two",   "three", "four",
                                             "five", "six", "seven", "eight", "nine"};
  return {text::Words{}, text::Vocabulary(words)};
}

std::vector<Utterance> strings(const Digits& digits, Index shortest, Index longest, Index count,
                               std::uint64_t seed) {
  Random random(seed, "strings");
  std::vector<Utterance> all;
  for (Index length = shortest; length <= longest; ++length) {
    for (Index i = 0; i < count; ++i) all.push_back(digits.draw(length, random));
  }
  return all;
}

Digits validation_digits(const std::filesystem::path& directory, Index rate) {
  return {directory, 5, 9, rate};
}

Digits training_digits(const std::filesystem::path& directory, Index rate) {
  return {directory, 10, 1'000'000, rate};
}

}  // namespace attune::speech
