#include "data.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include <attune/models/text/corpus.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/printable.hpp>

#include "audio.hpp"
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
    for (const char c : token) {
      if (c >= '0' && c <= '9')
        names.push_back(digits.vocabulary.tokens()[static_cast<std::size_t>(c - '0')]);
    }
    if (!is_known(token) && names.size() == token.size() && std::ranges::all_of(names, is_known)) {
      std::ranges::move(names, std::back_inserter(tokens));
    } else {
      tokens.push_back(std::move(token));
    }
  }
  return codec.encode(tokens);
}

text::Sentence tokens_of(const text::Codec& codec, const Listed& listed) {
  text::Sentence tokens = tokens_of(codec, listed.transcript);
  if (tokens.empty()) fail(listed.where, "there are no words in the transcript");
  return tokens;
}

std::vector<float> samples_of(const Listed& listed, Index rate) {
  return reading(listed.where, [&] { return at_rate(read_audio(listed.file), rate); });
}

std::vector<Utterance> read_utterances(const std::filesystem::path& tsv, const text::Codec& codec,
                                       Index rate) {
  std::vector<Utterance> all;
  std::size_t converted = 0, unknown = 0;
  for (const Listed& listed : read_list(tsv)) {
    const Recording recording = reading(listed.where, [&] { return read_audio(listed.file); });
    converted += recording.rate != rate;
    Utterance utterance{.samples = reading(listed.where, [&] { return at_rate(recording, rate); }),
                        .tokens = tokens_of(codec, listed),
                        .ends = {}};
    unknown +=
        static_cast<std::size_t>(std::ranges::count(utterance.tokens, text::Vocabulary::unknown));
    all.push_back(std::move(utterance));
  }
  if (converted > 0) {
    complain("{}: {} of {} recordings were converted to {} samples per second\n",
             printable(tsv.string()), converted, all.size(), rate);
  }
  if (unknown > 0) {
    complain("{}: {} tokens are not in the model's vocabulary: each counts as an error\n",
             printable(tsv.string()), unknown);
  }
  return all;
}

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

namespace {

class DigitStrings : public TrainingSet {
 public:
  DigitStrings(const std::filesystem::path& directory, Index longest, const SetOptions& options)
      : directory_(directory.string()),
        digits_(training_digits(directory, options.rate)),
        longest_(longest),
        batch_(options.batch),
        seed_(options.seed) {
    for (const Utterance& one : digits_.single())
      hash_.add(one.tokens), hash_.add(one.samples.size());
    const double shortest =
        static_cast<double>(digits_.shortest()) / static_cast<double>(options.rate);
    for (Index n = 1; options.annotations && n <= longest; ++n) {
      const Index count = options.annotations(static_cast<double>(n) * shortest);
      if (count >= 2 * n - 1) continue;  // all of them may be equal
      fail("--frame-step, --joined",
           fmt::format("{} digits of {:.2f} s each have {} annotations, and need {}", n, shortest,
                       count, 2 * n - 1));
    }
  }

  std::string description() const override {
    return fmt::format("{}: strings of 1 to {} digits of one speaker", printable(directory_),
                       longest_);
  }
  std::string fingerprint() const override { return hash_.text(); }
  Index begin_step(Index step) override {
    if (lengths_.empty() || group_ != step / batches_) start_group(step / batches_);
    now_ = order_[static_cast<std::size_t>(step % batches_)];
    return batch_;
  }
  Utterance draw(Index i, Random& random) const override {
    return digits_.draw(lengths_[static_cast<std::size_t>(now_ * batch_ + i)], random);
  }
  void each(const std::function<void(const std::vector<float>&)>& visit) const override {
    for (const Utterance& one : digits_.single()) visit(one.samples);
  }

 private:
  /// The lengths of some batches are drawn together and sorted: little of a batch is padding.
  void start_group(Index group) {
    group_ = group;
    Random random(seed_, fmt::format("lengths {}", group));
    lengths_.resize(static_cast<std::size_t>(batches_ * batch_));
    for (Index& length : lengths_) length = 1 + random.below(longest_);
    std::ranges::sort(lengths_);
    order_ = shuffled(batches_, random);
  }

  static constexpr Index batches_ = 16;  // of a group
  std::string directory_;
  Digits digits_;
  Index longest_, batch_;
  std::uint64_t seed_;
  Hash hash_;
  Index group_ = 0;
  std::vector<Index> lengths_;        // of the group's strings
  std::vector<std::uint32_t> order_;  // of its batches
  Index now_ = 0;                     // the batch of this step
};

/// Annotations that CTC needs for them.
Index needed(const text::Sentence& tokens) {
  Index count = std::ssize(tokens);
  for (std::size_t i = 1; i < tokens.size(); ++i) count += tokens[i] == tokens[i - 1];
  return count;
}

class ListedRecordings : public TrainingSet {
 public:
  ListedRecordings(const std::filesystem::path& list, const text::Codec& codec,
                   const SetOptions& options)
      : options_(options), list_(list.string()), listed_(read_list(list)) {
    for (const Listed& one : listed_) {
      const double seconds = reading(one.where, [&] { return seconds_of(one.file); });
      tokens_.push_back(tokens_of(codec, one));
      const text::Sentence& tokens = tokens_.back();
      if (std::ranges::count(tokens, text::Vocabulary::unknown) > 0)
        fail(one.where, "a word is spelt like <pad>, <s>, </s> or <unk>");
      if (options.annotations && options.annotations(seconds) < needed(tokens)) {
        fail(one.where,
             fmt::format("{:.2f} s are too short for {} tokens", seconds, tokens.size()));
      }
      seconds_ += seconds;
      // Batches are of similar length in time, whatever is said.
      lengths_.push_back({.source = static_cast<std::uint32_t>(tokens.size()),
                          .target = static_cast<std::uint32_t>(std::lround(100 * seconds))});
      hash_.add(tokens), hash_.add(lengths_.back().target);
    }
  }

  std::string description() const override {
    return fmt::format("{}: {} recordings, {:.1f} minutes", printable(list_), listed_.size(),
                       seconds_ / 60);
  }

  std::string fingerprint() const override { return hash_.text(); }

  Index begin_step(Index step) override {
    if (batches_.empty()) start_epoch(0);
    const Index count = std::ssize(batches_);  // the same in every epoch
    if (epoch_ != step / count) start_epoch(step / count);
    now_ = batches_[static_cast<std::size_t>(step % count)];
    return std::ssize(now_);
  }

  Utterance draw(Index i, Random& /*random*/) const override {
    const std::size_t number = now_[static_cast<std::size_t>(i)];
    return {.samples = samples_of(listed_[number], options_.rate),
            .tokens = tokens_[number],
            .ends = {}};
  }

  void each(const std::function<void(const std::vector<float>&)>& visit) const override {
    for (const Listed& one : listed_) visit(samples_of(one, options_.rate));
  }

 private:
  void start_epoch(Index epoch) {
    epoch_ = epoch;
    batches_ = text::epoch_batches(lengths_, {.sentences = options_.batch}, options_.seed, epoch);
  }

  SetOptions options_;
  std::string list_;
  std::vector<Listed> listed_;
  std::vector<text::Sentence> tokens_;
  std::vector<text::PairLengths> lengths_;
  double seconds_ = 0;
  Hash hash_;
  Index epoch_ = 0;
  std::vector<std::vector<std::uint32_t>> batches_;  // of this epoch
  std::vector<std::uint32_t> now_;                   // of this step
};

}  // namespace

std::unique_ptr<TrainingSet> digit_strings(const std::filesystem::path& directory, Index longest,
                                           const SetOptions& options) {
  return std::make_unique<DigitStrings>(directory, longest, options);
}

std::unique_ptr<TrainingSet> listed_recordings(const std::filesystem::path& list,
                                               const text::Codec& codec,
                                               const SetOptions& options) {
  return std::make_unique<ListedRecordings>(list, codec, options);
}

text::Vocabulary vocabulary_of(const std::filesystem::path& list,
                               const text::Tokenizer& tokenizer) {
  text::TokenCounts counts;
  for (const Listed& one : read_list(list))
    text::count_tokens(counts, tokenizer.encode(one.transcript));
  return text::make_vocabulary(counts);
}

}  // namespace attune::speech
