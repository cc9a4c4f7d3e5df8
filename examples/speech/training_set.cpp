#include "training_set.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/printable.hpp>

#include "audio.hpp"
#include "support/checkpoint.hpp"
#include "support/hash.hpp"

namespace attune::speech {
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
