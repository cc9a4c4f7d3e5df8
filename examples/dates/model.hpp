// The dates model: options, vocabularies and weights, together in one file.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <attune/models/report/heatmap.hpp>
#include <attune/models/search.hpp>
#include <attune/models/seq2seq.hpp>
#include <attune/models/text/vocabulary.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/safetensors.hpp>

#include "support/checkpoint.hpp"

namespace attune::dates {

/// What a checkpoint of this program says that it is.
inline constexpr const char* checkpoint_format = "attune dates 1";

/// What the network is made of: a published model by name, and what was changed of it.
struct ModelOptions {
  std::string name;
  models::Seq2SeqOptions network;
};

/// A preset of models/presets.hpp in sizes that suit dates. Throws on another name.
ModelOptions model_options(std::string_view preset);

/// As the metadata of a checkpoint: "hidden" -> "64".
Metadata to_map(const ModelOptions& options);
/// Throws when an entry is missing or not understood.
ModelOptions model_options_from(const Metadata& metadata);

/// Characters in, characters out.
class Model {
 public:
  Model(const ModelOptions& options, text::Vocabulary source, text::Vocabulary target,
        std::uint64_t seed);

  /// Reads a checkpoint written by `save`. Throws an Error that begins with the path.
  static Model load(const std::filesystem::path& path);

  /// Adds weights, options and vocabularies to a file.
  void save(Safetensors& file) const;

  /// Throws when the text is not UTF-8. Characters never seen become <unk>.
  text::Sentence encode_source(std::string_view text) const;
  text::Pair encode(std::string_view source, std::string_view target) const;
  std::string decode(std::span<const std::int32_t> words) const;

  /// The best hypothesis for each source.
  std::vector<models::Hypothesis> predict(std::span<const text::Sentence> sources,
                                          Index beam) const;

  /// Where it looked: characters written down the side, those of the source along the top. Without
  /// rows when the model has no attention.
  report::Heatmap heatmap(std::vector<std::string> source, const models::Hypothesis& written) const;

  const models::Seq2Seq& network() const { return *network_; }
  nn::Parameters& parameters() { return *parameters_; }
  const nn::Parameters& parameters() const { return *parameters_; }
  const ModelOptions& options() const { return options_; }
  const text::Vocabulary& source_vocabulary() const { return source_; }
  const text::Vocabulary& target_vocabulary() const { return target_; }
  /// All metadata of the checkpoint it was loaded from.
  const Metadata& metadata() const { return metadata_; }

 private:
  Model(const ModelOptions& options, text::Vocabulary source, text::Vocabulary target,
        std::unique_ptr<nn::Parameters> parameters);

  ModelOptions options_;
  text::Vocabulary source_, target_;
  std::unique_ptr<nn::Parameters> parameters_;
  std::unique_ptr<models::Seq2Seq> network_;
  Metadata metadata_;
};

}  // namespace attune::dates
