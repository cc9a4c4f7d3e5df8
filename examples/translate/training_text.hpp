// The text of a training run, as numbers.
#pragma once

#include <string>
#include <vector>

#include <attune/models/guided_alignment.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/models/text/pair_store.hpp>

#include "model.hpp"
#include "support/hash.hpp"
#include "train.hpp"

namespace attune::translate {

/// The pairs to train on, and the links between their tokens where attention is guided. Both may be
/// larger than memory.
class TrainingText {
 public:
  /// Reads the files; what was left out is printed. Throws an Error "FILE:LINE: ..." for links that
  /// are missing, too many, or between words which are not there, for a source that the score
  /// location has no places for, and for a target that no batch can take, and one when no token is
  /// known.
  TrainingText(const TrainOptions& options, const Codecs& codecs);

  std::size_t size() const { return pairs_.size(); }
  /// Another one, almost surely, when pairs or links have changed.
  std::string fingerprint() const { return hash_.text(); }

  /// Numbers of pairs.
  std::vector<std::vector<std::uint32_t>> batches(Index epoch);
  text::Batch batch(std::span<const std::uint32_t> chosen);
  /// Of a pair, with </s>.
  double target_words(std::uint32_t pair) { return pairs_.lengths()[pair].target + 1.0; }
  models::Guide guide(std::span<const std::uint32_t> chosen, const text::Batch& batch);

 private:
  /// Tokens of a side.
  struct Unknown {
    std::int64_t all = 0, unknown = 0;
    void count(const text::Sentence& sentence);
    /// Prints the share. Throws when there is nothing else.
    void report(const char* side, const std::string& vocabulary) const;
  };

  text::CorpusReport read(const Codecs& codecs);
  void add(const text::Pair& pair);
  void add(const text::Alignment& links);

  const TrainOptions& options_;
  text::PairStore pairs_;
  text::DiskArray<text::Link> links_;
  text::DiskArray<std::uint64_t> link_ends_;
  Hash hash_;
  Unknown source_, target_;
};

}  // namespace attune::translate
