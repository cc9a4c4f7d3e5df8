// A model that reads text and writes text: options, how lines become numbers, and weights, in one
// file.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <attune/models/hypothesis.hpp>
#include <attune/models/option_field.hpp>
#include <attune/models/report/heatmap.hpp>
#include <attune/models/seq2seq.hpp>
#include <attune/models/text/codec.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/safetensors.hpp>

#include "support/checkpoint.hpp"

namespace attune {

/// What one side reads and what the other writes.
struct Codecs {
  text::Codec source, target;
};

/// What the models of several programs have in common: a program's own class adds the format of its
/// checkpoints.
class TextModel {
 public:
  /// With initial weights; the vocabularies' sizes in the options follow from the codecs.
  TextModel(const models::Seq2SeqOptions& options, Codecs codecs, std::uint64_t seed);
  /// From a checkpoint, whose codecs were read before.
  TextModel(const Safetensors& file, Codecs codecs);

  /// Adds weights, options, vocabularies and tokenizers to a file.
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
  TextModel(const models::Seq2SeqOptions& options, Codecs codecs,
            std::unique_ptr<nn::Parameters> parameters);

  models::Seq2SeqOptions options_;
  Codecs codecs_;
  std::unique_ptr<nn::Parameters> parameters_;
  std::unique_ptr<models::Seq2Seq> network_;
  Metadata metadata_;
  std::string checksum_;
};

/// The vocabularies and tokenizers of a checkpoint, and the entries that they stand in.
Codecs codecs_from(const Metadata& metadata);
inline const std::string codec_entries[] = {"source_tokenizer", "source_vocabulary",
                                            "target_tokenizer", "target_vocabulary"};
/// The vocabulary of one side: "source" or "target".
text::Vocabulary vocabulary_from(const Metadata& metadata, const std::string& side);

/// Throws when one of these entries of the checkpoint at `path` is not that of another, which the
/// message calls `first_name`.
void check_alike(std::span<const std::string> names, const Metadata& first,
                 const std::filesystem::path& path, const Metadata& other, const char* first_name);

/// The option --swap: which column of a TSV has the source.
template <class Options, class Member>
models::OptionField<Options> swap_field(Member columns) {
  return models::flag_field<Options>("swap", "the target stands first on a line of a TSV", columns,
                                     text::Columns::source_first, text::Columns::target_first);
}
/// The columns of a TSV: the target first where that is asked for, or was so in the model's
/// training.
text::Columns columns_for(const TextModel& model, text::Columns asked);

/// Where it looked (rows) for each target token among those of the source. A hypothesis has a
/// further step for </s>, which is left out. Without rows when the model has no attention.
report::Heatmap heatmap(std::vector<std::string> source, std::vector<std::string> target,
                        const models::Hypothesis& written);
/// The tokens of a hypothesis.
std::vector<std::string> tokens_of(const TextModel& model, const models::Hypothesis& written);
inline report::Heatmap heatmap(const TextModel& model, std::vector<std::string> source,
                               const models::Hypothesis& written) {
  return heatmap(std::move(source), tokens_of(model, written), written);
}

}  // namespace attune
