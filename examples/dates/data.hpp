// What a dates model is trained and validated on: generated dates, or files.
#pragma once

#include <optional>

#include "generator.hpp"
#include "model.hpp"
#include "tsv.hpp"

namespace attune::dates {

/// Where the examples come from.
struct DataOptions {
  std::string locales = "en";
  std::string train_file, valid_file;                   // empty: generated
  text::Columns columns = text::Columns::source_first;  // of the files
  Index held_out = 2000;  // dates (generated) or at most so many rows (of a training file)
  std::uint64_t seed = 1;

  bool operator==(const DataOptions&) const = default;
};

/// Training examples by number. They depend on the options and the number alone, not on earlier
/// calls, so that a run can be resumed from its step number.
class Data {
 public:
  explicit Data(const DataOptions& options);

  /// The examples of one step. Those of 16 steps are sorted by length and cut into 16 batches,
  /// taken in random order, so that a batch has little padding.
  std::span<const text::Pair> batch(const Model& model, long step, Index batch_size);

  std::span<const Row> validation() const { return validation_; }
  /// Of the rows of files. A checkpoint keeps it as "pairs".
  std::string fingerprint() const;
  /// Code points of sources and of targets, for vocabularies.
  std::vector<std::string> source_alphabet() const;
  std::vector<std::string> target_alphabet() const;
  /// "generated dates in en; 2000 held-out dates for validation"
  std::string description() const;

 private:
  Row row(std::int64_t number);
  void load_chunk(const Model& model, long chunk, Index batch_size);

  DataOptions options_;
  std::optional<Generator> generator_;
  std::vector<Row> train_, validation_;
  std::vector<std::uint32_t> permutation_;  // of train_, in epoch_
  std::int64_t epoch_ = -1;
  std::vector<text::Pair> chunk_;
  std::vector<std::uint32_t> chunk_order_;  // which batch of the chunk each step gets
  long loaded_chunk_ = -1;
};

/// Throws where a checkpoint's training had other pairs. Older checkpoints do not say.
void check_pairs(const Metadata& metadata, const Data& data);

}  // namespace attune::dates
