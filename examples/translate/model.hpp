// A translation model: options, what text becomes tokens and numbers, and weights, in one file.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <attune/models/hypothesis.hpp>
#include <attune/models/report/heatmap.hpp>
#include <attune/models/seq2seq.hpp>
#include <attune/models/text/codec.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/safetensors.hpp>

#include "support/checkpoint.hpp"

namespace attune::translate {

/// What a checkpoint of this program says that it is.
inline constexpr const char* checkpoint_format = "attune translate 1";

/// What one side reads and what the other writes.
struct Codecs {
  text::Codec source, target;
};

class Model {
 public:
  /// With initial weights; the vocabularies' sizes in the options follow from the codecs.
  Model(const models::Seq2SeqOptions& options, Codecs codecs, std::uint64_t seed);

  /// Reads a checkpoint written by `save`. Throws an Error that begins with the path.
  static Model load(const std::filesystem::path& path);

  /// Adds weights, options, tokenizers and vocabularies to a file.
  void save(Safetensors& file) const;

  const models::Seq2Seq& network() const { return *network_; }
  nn::Parameters& parameters() { return *parameters_; }
  const nn::Parameters& parameters() const { return *parameters_; }
  const Codecs& codecs() const { return codecs_; }
  const text::Codec& source() const { return codecs_.source; }
  const text::Codec& target() const { return codecs_.target; }
  /// All metadata of the checkpoint it was loaded from, and its checksum: empty where it has none.
  const Metadata& metadata() const { return metadata_; }
  const std::string& checksum() const { return checksum_; }

 private:
  Model(const models::Seq2SeqOptions& options, Codecs codecs,
        std::unique_ptr<nn::Parameters> parameters);

  models::Seq2SeqOptions options_;
  Codecs codecs_;
  std::unique_ptr<nn::Parameters> parameters_;
  std::unique_ptr<models::Seq2Seq> network_;
  Metadata metadata_;
  std::string checksum_;
};

/// The tokenizers and vocabularies of a checkpoint, and the entries that they stand in.
Codecs codecs_from(const Metadata& metadata);
inline const std::string codec_entries[] = {"source_tokenizer", "source_vocabulary",
                                            "target_tokenizer", "target_vocabulary"};

/// Throws when one of these entries of the checkpoint at `path` is not that of another, which the
/// message calls `first_name`.
void check_alike(std::span<const std::string> names, const Metadata& first,
                 const std::filesystem::path& path, const Metadata& other, const char* first_name);

/// Where it looked (rows) for each target token among those of the source. A hypothesis has a
/// further step for </s>, which is left out.
report::Heatmap heatmap(std::vector<std::string> source, std::vector<std::string> target,
                        const models::Hypothesis& written);
/// The tokens of a hypothesis.
std::vector<std::string> tokens_of(const Model& model, const models::Hypothesis& written);

}  // namespace attune::translate
