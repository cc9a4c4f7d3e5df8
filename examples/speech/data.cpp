#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include <fmt/format.h>

#include <attune/models/text/corpus.hpp>
#include <attune/tensor/check.hpp>

#include "speech.hpp"
#include "support/output.hpp"
#include "support/run_directory.hpp"

namespace attune::speech {

std::vector<Listed> read_list(const std::filesystem::path& tsv) {
  text::LineReader lines(tsv);
  std::vector<Listed> all;
  while (const auto line = lines.next()) {
    const std::size_t tab = line->find('\t');
    if (tab == line->npos || line->find('\t', tab + 1) != line->npos || tab == 0 ||
        tab + 1 == line->size()) {
      lines.fail("a file and its words were expected, with a TAB between them");
    }
    all.push_back({tsv.parent_path() / line->substr(0, tab), line->substr(tab + 1),
                   fmt::format("{}:{}", lines.name(), lines.number())});
  }
  if (all.empty()) lines.fail("there is no line");
  return all;
}

text::Sentence tokens_of(const text::Codec& codec, const std::string& transcript) {
  static const text::Codec digits = Digits::codec();
  const auto is_known = [&](const std::string& token) {
    return codec.vocabulary.id(token) != text::Vocabulary::unknown;
  };
  std::vector<std::string> tokens;
  for (std::string& token : codec.tokenizer.encode(transcript)) {
    std::vector<std::string> names;
    for (const char c : token)
      if (c >= '0' && c <= '9') names.push_back(digits.vocabulary.tokens()[c - '0']);
    const bool as_digits =
        !is_known(token) && names.size() == token.size() && std::ranges::all_of(names, is_known);
    if (!as_digits) names = {std::move(token)};
    std::ranges::move(names, std::back_inserter(tokens));
  }
  return codec.encode(tokens);
}

namespace {

std::int32_t token_of(Index digit) {
  return text::Vocabulary::unknown + 1 + static_cast<std::int32_t>(digit);
}

text::Sentence some_tokens_of(const text::Codec& codec, const Listed& listed) {
  text::Sentence tokens = tokens_of(codec, listed.transcript);
  if (tokens.empty()) fail(listed.where, "there are no words in the transcript");
  return tokens;
}

Index unknown_in(const text::Sentence& tokens) {
  return std::ranges::count(tokens, text::Vocabulary::unknown);
}

}  // namespace

Utterance read_utterance(const Listed& listed, const text::Codec& codec, Index rate) {
  Utterance utterance{.samples = {}, .tokens = some_tokens_of(codec, listed)};
  reading(listed.where, [&] {
    const Recording recording = read_audio(listed.file);
    utterance.samples = at_rate(recording, rate);
    utterance.converted = recording.rate != rate;
  });
  return utterance;
}

std::vector<Utterance> read_utterances(const std::filesystem::path& tsv, const text::Codec& codec,
                                       Index rate) {
  std::vector<Utterance> all;
  Index converted = 0, unknown = 0;
  for (const Listed& listed : read_list(tsv)) {
    all.push_back(read_utterance(listed, codec, rate));
    converted += all.back().converted;
    unknown += unknown_in(all.back().tokens);
  }
  if (converted > 0)
    complain("{}: {} of {} recordings were converted to {} samples per second\n", tsv.string(),
             converted, all.size(), rate);
  if (unknown > 0)
    complain("{}: {} tokens are not in the model's vocabulary: each counts as an error\n",
             tsv.string(), unknown);
  return all;
}

Input input(const std::string& from, std::span<const Utterance> utterances) {
  Input input{from, {}};
  for (const Utterance& one : utterances) input.fingerprint.add(one.tokens).add(one.samples);
  return input;
}

text::Vocabulary vocabulary_of(const std::filesystem::path& list,
                               const text::Tokenizer& tokenizer) {
  text::TokenCounts counts;
  for (const Listed& one : read_list(list))
    text::count_tokens(counts, tokenizer.encode(one.transcript));
  return text::make_vocabulary(counts);
}

Digits::Digits(const std::filesystem::path& directory, Index first, Index last, Index rate) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(directory, error);
  if (error) fail(directory.string(), fmt::format("it cannot be read: {}", error.message()));
  // In an order that is not the file system's.
  for (const std::filesystem::path& file : std::set(begin(entries), end(entries))) {
    char digit = 0;
    std::array<char, 64> speaker{};
    int number = 0, size = 0;
    const std::string name = file.filename().string();
    std::sscanf(name.c_str(), "%c_%63[^_]_%9d.wav%n", &digit, speaker.data(), &number, &size);
    const bool named = size > 0 && name.c_str()[size] == '\0' && digit >= '0' && digit <= '9';
    if (!named || number < first || number > last) continue;
    const Recording recording = read_audio(file);
    auto samples = reading(file, [&] { return at_rate(recording, rate); });
    speakers_[speaker.data()][digit - '0'].push_back(std::move(samples));
  }
  const std::string numbers = fmt::format("with a number from {} to {}", first, last);
  if (speakers_.empty())
    fail(directory.string(), fmt::format("there is no DIGIT_SPEAKER_NUMBER.wav {}", numbers));
  for (const auto& [speaker, recordings] : speakers_)
    for (Index digit = 0; digit < 10; ++digit)
      if (recordings[digit].empty())
        fail(directory.string(),
             fmt::format("{} has no recording of {} {}", speaker, digit, numbers));
}

Utterance Digits::draw(Index digits, Random& random) const {
  Utterance utterance;
  const auto& speaker = std::next(speakers_.begin(), random.below(std::ssize(speakers_)))->second;
  for (Index i = 0; i < digits; ++i) {
    const Index digit = random.below(10);
    const auto& recordings = speaker[digit];
    const std::vector<float>& samples = recordings[random.below(std::ssize(recordings))];
    utterance.samples.insert(utterance.samples.end(), samples.begin(), samples.end());
    utterance.tokens.push_back(token_of(digit));
    utterance.ends.push_back(utterance.samples.size());
  }
  return utterance;
}

std::vector<Utterance> Digits::single() const {
  std::vector<Utterance> all;
  for (const auto& [name, speaker] : speakers_)
    for (Index digit = 0; digit < 10; ++digit)
      for (const auto& samples : speaker[digit])
        all.push_back({samples, {token_of(digit)}, {samples.size()}});
  return all;
}

text::Codec Digits::codec() {
  const text::Words words;
  return {words, text::Vocabulary(text::Tokenizer(words).encode(
                     "zero one two three four five six seven eight nine"))};
}

std::vector<Utterance> Digits::strings(Index shortest, Index longest, Index count,
                                       std::uint64_t seed) const {
  Random random(seed, "strings");
  std::vector<Utterance> all;
  for (Index length = shortest; length <= longest; ++length) {
    for (Index i = 0; i < count; ++i) all.push_back(draw(length, random));
  }
  return all;
}

namespace {

/// The fewest annotations that a recording of so many seconds has: where it is made fastest.
Index fewest_annotations(const TrainOptions& o, double seconds) {
  const double samples = seconds * (1 - o.speed) * o.features.rate;
  return 1 + (LogMel(o.features).frames(static_cast<Index>(samples)) - 1) / o.frames_joined();
}

/// CTC needs an annotation for each token, and one between two that are equal.
Index needed(const text::Sentence& tokens) {
  Index count = std::ssize(tokens);
  for (std::size_t i = 1; i < tokens.size(); ++i) count += tokens[i] == tokens[i - 1];
  return count;
}

}  // namespace

TrainingSet digit_strings(const TrainOptions& o) {
  const auto digits = std::make_shared<const Digits>(o.digits, 10, 1'000'000, o.features.rate);
  TrainingSet set{.description = fmt::format("{}: strings of 1 to {} digits of one speaker",
                                             o.digits, o.longest)};
  double shortest = 1e9;  // seconds of a recording
  const LogMel features(o.features);
  frames::Moments moments;
  const std::vector<Utterance> single = digits->single();
  set.input = input(o.digits, single);
  for (const Utterance& one : single) {
    moments.add(features(levelled(one.samples, o.features.rate)));
    shortest = std::min(shortest, one.samples.size() / static_cast<double>(o.features.rate));
  }
  for (Index n = 1; o.ctc > 0 && n <= o.longest; ++n) {
    const Index count = fewest_annotations(o, n * shortest);
    if (count < 2 * n - 1)  // all of them may be equal
      fail("--frame-step, --joined",
           fmt::format("{} digits of {:.2f} s each have {} annotations, and need {}", n, shortest,
                       count, 2 * n - 1));
  }
  // The lengths of some batches are drawn together and sorted: little of a batch is padding.
  set.batches = [longest = o.longest, size = o.batch, seed = o.seed](Index epoch) {
    constexpr Index count = 16;
    Random random(seed, fmt::format("lengths {}", epoch));
    std::vector<std::uint32_t> lengths(count * size);
    for (auto& length : lengths) length = static_cast<std::uint32_t>(1 + random.below(longest));
    std::ranges::sort(lengths);
    Epochs::Batches batches;
    for (const std::uint32_t number : shuffled(count, random)) {
      const auto begin = lengths.begin() + number * size;
      batches.emplace_back(begin, begin + size);
    }
    return batches;
  };
  set.draw = std::bind_front(&Digits::draw, digits);
  set.scaling = moments.scaling();
  return set;
}

TrainingSet listed_recordings(const TrainOptions& o, const text::Codec& codec) {
  const auto list = std::make_shared<const std::vector<Listed>>(read_list(o.list));
  TrainingSet set;
  std::vector<text::PairLengths> lengths;  // batches are of similar length in time
  double all_seconds = 0;
  for (const Listed& one : *list) {
    const double seconds = reading(one.where, [&] { return seconds_of(one.file); });
    const text::Sentence tokens = some_tokens_of(codec, one);
    if (unknown_in(tokens) > 0) fail(one.where, "a word is spelt like <pad>, <s>, </s> or <unk>");
    if (o.ctc > 0 && fewest_annotations(o, seconds) < needed(tokens))
      fail(one.where, fmt::format("{:.2f} s are too short for {} tokens", seconds, tokens.size()));
    all_seconds += seconds;
    lengths.push_back({.source = static_cast<std::uint32_t>(tokens.size()),
                       .target = static_cast<std::uint32_t>(std::lround(100 * seconds))});
  }
  set.description =
      fmt::format("{}: {} recordings, {:.1f} minutes", o.list, list->size(), all_seconds / 60);
  set.batches = [lengths, size = o.batch, seed = o.seed](Index epoch) {
    return text::epoch_batches(lengths, {.sentences = size}, seed, epoch);
  };
  const LogMel features(o.features);
  frames::Moments moments;
  set.input.from = o.list;
  for (const Listed& one : *list) {
    const Utterance read = read_utterance(one, codec, o.features.rate);
    set.input.fingerprint.add(one.transcript).add(read.samples);
    moments.add(features(levelled(read.samples, o.features.rate)));
  }
  set.scaling = moments.scaling();
  set.draw = [list, codec, rate = o.features.rate](std::uint32_t number, Random&) {
    return read_utterance((*list)[number], codec, rate);
  };
  return set;
}

}  // namespace attune::speech
