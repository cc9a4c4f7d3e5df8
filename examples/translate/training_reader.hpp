// The files of a training text, read with progress.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include <attune/models/text/corpus.hpp>

#include "support/progress.hpp"
#include "train.hpp"

namespace attune::translate {

/// The pairs to train on. Going through them shows how far it is when it takes more than some
/// seconds.
class TrainingReader {
 public:
  /// `what` says what is done with them.
  TrainingReader(const TrainOptions& options, const std::string& what);

  std::optional<text::TextPair> next();
  /// Of the line read last, from 1.
  std::int64_t number() const { return reader_.number(); }
  /// Throws an Error about the pair that was read last.
  [[noreturn]] void fail(std::string_view message) const;

 private:
  using Clock = std::chrono::steady_clock;
  void show();

  text::ParallelReader reader_;
  bool tsv_;
  double megabytes_ = 0, total_;  // of the source, or of both in a TSV
  Progress progress_;
  Clock::time_point start_ = Clock::now(), line_ = start_;
};

}  // namespace attune::translate
