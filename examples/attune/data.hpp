// Pairs of text: how they are read, held out, cut into tokens, and kept as numbers.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <attune/models/metrics.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/models/unroll.hpp>

#include "model.hpp"
#include "options.hpp"
#include "run.hpp"

namespace attune::pairs {

/// Reads pairs, with single blanks. Shows how far it is when that takes more than some seconds.
class PairReader {
 public:
  /// `what` says what is done with them.
  PairReader(const PairFiles& files, const std::string& what);

  std::optional<text::TextPair> next();
  /// The next pair that has words on both sides.
  std::optional<text::TextPair> next_with_words();
  /// Of the line read last, from 1.
  std::int64_t number() const { return reader_.number(); }
  /// "FILE:LINE" of the side that was read last.
  std::string source_place() const;
  std::string target_place() const;

 private:
  text::ParallelReader reader_;
  bool nfc_;
  double megabytes_ = 0, total_;
  Progress progress_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// What a first look at the training pairs finds. It depends on the files alone.
struct Survey {
  std::int64_t pairs = 0;              // with words on both sides
  std::vector<text::TextPair> sample;  // some of these, at random
  std::set<std::uint64_t> held_out;    // hashes of the sources that are

  /// Pairs with the same source stay together: a source that was trained on is no test.
  bool holds_out(const std::string& source) const;
  /// Whether both sides are sentences, or the target is; otherwise they are words, names, dates, ...
  bool has_sentences() const;
};
/// Where some are to be held out, at most `held_out` and at most a tenth. Throws where there is no
/// pair, or none that can be held out.
Survey survey_of(const PairFiles& files, Index held_out);
/// Of the training that has these options.
Survey survey_of(const TrainOptions& options);

/// Tokenizers and vocabularies: from the files that are given for them, otherwise learnt from the
/// training pairs. Says what was chosen, and why.
Codecs make_codecs(const TrainOptions& options, const Survey& survey);

/// Pairs that a model's predictions are compared with.
struct TestPairs {
  std::string name;
  std::vector<std::string> lines;       // of the source
  std::vector<text::Sentence> sources;  // the same as numbers
  std::vector<text::Sentence> targets;  // of the first reference
  std::vector<metrics::References> references;
  std::vector<std::int64_t> numbers;  // of lines
  Index left_out = 0;                 // of the files: too long

  std::size_t size() const { return lines.size(); }
  Fingerprint fingerprint() const;
  /// Those that have tokens on both sides.
  std::vector<text::Pair> pairs() const;
  std::vector<std::int64_t> source_lengths() const;  // in words
};

/// A pair as numbers. Throws where a side is too long.
text::Pair numbered(const text::TextPair& lines, const PairReader& reader, const Codecs& codecs,
                    Index longest);
/// Throws for such files what can be said without a model.
void check_pairs(const PairFiles& files);
/// Those to choose the best weights by: of files, or held out of the training pairs. What would be
/// too long to train on is left out. Throws an Error "FILE:LINE: ..." for a target without words, and
/// one when there is no pair.
TestPairs validation_pairs(const TrainOptions& options, const Survey& survey, const Codecs& codecs);
/// Those of the files that were given; otherwise those that the models were chosen by. Sides may be
/// empty where these are `optional`.
enum class Sides { required, optional };
TestPairs pairs_for(const UseOptions& options, Models models, Sides sides = Sides::required);

/// The pairs that were given, with the columns swapped where that is asked for, or was so in training.
PairFiles files_for(const Model& model, const UseOptions& options);

/// Throws where a file to write cannot be written, or is read, too.
void require_outputs(const UseOptions& options, const std::vector<std::filesystem::path>& models,
                     std::initializer_list<std::filesystem::path> outputs);

/// Lists of values, one after another in memory: 4 bytes for a token, not an allocation for a list.
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

/// The pairs to train on, and the links between their tokens where attention is guided.
class TrainingPairs {
 public:
  /// Reads the files; says what was excluded. Throws an Error "FILE:LINE: ..." for links that are
  /// missing, too many, or between words which are not there, and one when no token is known.
  TrainingPairs(const TrainOptions& options, const Survey& survey, const Codecs& codecs);

  std::size_t size() const { return lengths_.size(); }
  /// Tokens of the longest target.
  Index longest_target() const { return longest_target_; }
  /// Of pairs and links.
  const Fingerprint& fingerprint() const { return fingerprint_; }

  /// Those of text::epoch_batches, in halves where padding makes one large.
  std::vector<std::vector<std::uint32_t>> batches(Index epoch) const;
  text::Batch batch(std::span<const std::uint32_t> chosen) const;
  /// Of a pair, with </s>.
  double target_tokens(std::uint32_t pair) const { return lengths_[pair].target + 1.0; }
  models::Guide guide(std::span<const std::uint32_t> chosen, const text::Batch& batch) const;

 private:
  /// Prints the share of a side's unknown tokens. Throws when there are no others.
  void report_unknown(const Lists<std::int32_t>& side, const char* name,
                      const std::string& vocabulary) const;
  text::CorpusReport read(const Survey& survey, const Codecs& codecs);
  void add(const text::Pair& pair);
  void add(const text::Alignment& links);

  const TrainOptions& options_;
  Lists<std::int32_t> sources_, targets_;
  std::vector<text::PairLengths> lengths_;
  Lists<text::Link> links_;
  Index longest_target_ = 0;
  static constexpr std::size_t named = 5;
  std::multimap<std::size_t, std::string, std::greater<>> longest_;  // of all pairs, with places
  std::size_t most_padded_ = 0;                                      // tokens of a side of a batch
  Fingerprint fingerprint_;
};

}  // namespace attune::pairs
