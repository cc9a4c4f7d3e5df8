// Pairs of texts: reading, held-out pairs, tokenisation, storage as token ids.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <attune/models/loss.hpp>

#include "model.hpp"
#include "options.hpp"
#include "run.hpp"

namespace attune::pairs {

/// Reads normalized pairs. Shows progress if reading takes more than 3 seconds.
class PairReader {
 public:
  /// `what`: description of the work, shown with the progress.
  PairReader(const PairFiles& files, const std::string& what);

  std::optional<text::TextPair> next();
  /// The next pair that has words on both sides.
  std::optional<text::TextPair> next_with_words();
  /// Number of the line read last, from 1.
  std::int64_t number() const { return reader_.number(); }
  /// "FILE:LINE" of the side that was read last.
  std::string source_place() const;
  std::string target_place() const;

 private:
  std::istringstream text_;
  text::ParallelReader reader_;
  bool nfc_;
  double megabytes_ = 0, total_;
  Progress progress_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Result of a first pass over the training pairs. It depends on the files only.
struct Survey {
  std::int64_t pairs = 0;              // pairs with words on both sides
  std::vector<text::TextPair> sample;  // random sample of them
  std::set<std::uint64_t> held_out;    // hashes of held-out sources

  /// True for a held-out source. All pairs with the same source are held out together.
  bool holds_out(const std::string& source) const;
  /// True if the targets are sentences; false for words, names, dates, ...
  bool has_sentences() const;
};
/// Holds out at most `held_out` pairs, and at most a tenth. Throws if there are no pairs, or if
/// none can be held out.
Survey survey_of(const PairFiles& files, Index held_out);
/// Surveys the training files of `options`.
Survey survey_of(const TrainOptions& options);

/// True if make_codecs learns subwords.
bool learns_subwords(const TrainOptions& options, const Survey& survey);
/// Tokenizers and vocabularies, from the given files or learnt from the training pairs. Prints an
/// automatic choice and its reason.
Codecs make_codecs(const TrainOptions& options, const Survey& survey);

/// Pairs for evaluation: sources and reference targets.
struct TestPairs {
  std::string name;
  std::vector<std::string> lines;       // source texts
  std::vector<text::Sentence> sources;  // their token ids
  std::vector<text::Sentence> targets;  // token ids of the first reference
  std::vector<metrics::References> references;
  std::vector<std::int64_t> numbers;  // line numbers
  Index left_out = 0;                 // number of pairs that are too long

  std::size_t size() const { return lines.size(); }
  Fingerprint fingerprint() const;
};

/// Number of words of each side.
text::PairLengths words_of(const std::string& source, const std::string& target);
/// Throws if the source has more than `longest` tokens, or the target more than longest_of_pair.
void check_lengths(const text::Sentence& source, const text::Sentence& target,
                   const PairReader& reader, Index longest);
/// Throws if a target is empty, or if there are no pairs. Needs no model.
void check_pairs(const PairFiles& files);
/// The validation pairs: from --valid, or held out from the training pairs. Skips pairs that are
/// too long for training. Throws an Error "FILE:LINE: ..." for an empty target, and an Error if
/// there are no pairs.
TestPairs validation_pairs(const TrainOptions& options, const Survey& survey, const Codecs& codecs);
/// The pairs of the given files, otherwise the models' validation pairs. With Sides::optional, a
/// side may be empty.
enum class Sides { required, optional };
TestPairs pairs_for(const UseOptions& options, Models models, Sides sides = Sides::required);

/// The given files, with swapped columns if --swap is set now or was set in training.
PairFiles files_for(const Model& model, const UseOptions& options);

/// Throws if --out cannot be written, or is also an input: one of the models or of the data files.
void require_output(const UseOptions& options, std::vector<std::filesystem::path> models);

/// Lists in one contiguous buffer: 4 bytes per token and no allocation per list.
template <class T>
class Lists {
 public:
  void add(std::span<const T> list) {
    values_.insert(values_.end(), list.begin(), list.end());
    ends_.push_back(values_.size());
  }
  std::size_t size() const { return ends_.size(); }
  std::span<const T> values() const { return values_; }
  std::span<const T> operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::span(values_).subspan(begin, ends_[i] - begin);
  }

 private:
  std::vector<T> values_;
  std::vector<std::size_t> ends_;
};

/// The batches of text::epoch_batches. A batch of several pairs is split in halves while a side has
/// more than `most` tokens, with padding, as one long pair pads all others.
std::vector<std::vector<std::uint32_t>> padded_batches(std::span<const text::PairLengths> lengths,
                                                       const text::BatchOptions& options,
                                                       std::uint64_t seed, Index epoch,
                                                       std::size_t most);

/// The training pairs, and with --alignments the links between their tokens.
class TrainingPairs {
 public:
  /// Reads the files and prints the number of excluded pairs. Throws an Error "FILE:LINE: ..." for
  /// missing, surplus or out-of-range links, and an Error if a vocabulary contains no token of
  /// them.
  TrainingPairs(const TrainOptions& options, const Survey& survey, const Codecs& codecs);

  std::size_t size() const { return lengths_.size(); }
  /// Tokens of the longest target.
  Index longest_target() const { return longest_target_; }
  /// Content hash of pairs and links.
  const Fingerprint& fingerprint() const { return fingerprint_; }

  std::vector<std::vector<std::uint32_t>> batches(Index epoch) const;
  text::Batch batch(std::span<const std::uint32_t> chosen) const;
  /// Number of target tokens of a pair, including </s>.
  double target_tokens(std::uint32_t pair) const { return lengths_[pair].target + 1.0; }
  models::Guide guide(std::span<const std::uint32_t> chosen, const text::Batch& batch) const;
  models::Shortlist shortlist(const Codecs& codecs) const;

 private:
  text::CorpusReport read(const Survey& survey, const Codecs& codecs);
  text::Pair pair(std::size_t i) const {
    return {{sources_[i].begin(), sources_[i].end()}, {targets_[i].begin(), targets_[i].end()}};
  }

  const TrainOptions& options_;
  Lists<std::int32_t> sources_, targets_;
  std::vector<text::PairLengths> lengths_;
  Lists<text::Link> links_;
  Index longest_target_ = 0;
  static constexpr std::size_t named = 5;
  std::multimap<std::size_t, std::string, std::greater<>> longest_;  // lengths -> "FILE:LINE"
  std::size_t most_padded_ = 0;  // maximum tokens of one side of a batch, with padding
  Fingerprint fingerprint_;
};

}  // namespace attune::pairs
