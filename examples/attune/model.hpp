// A sequence-to-sequence model and its checkpoint.
//
// The checkpoint format is that of models/model_file.hpp, with these additional entries:
//
//     longest-target     optional: tokens of the longest target in training
//     metric             optional: exact, bleu or loss, which selected the best weights
//     train, swap, ...   optional: the other options of the training, see options.hpp
//     training_data, validation_data   optional: their fingerprints, see run.hpp
#pragma once

#include <filesystem>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <attune/models/by_name.hpp>
#include <attune/models/model_file.hpp>
#include <attune/models/search.hpp>
#include <attune/models/text/heatmap.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune::pairs {

using models::Codecs;

struct Model : models::LoadedModel<> {
  /// With initial weights. `longest` is the length in tokens of the longest training target.
  static Model initial(const models::ModelOptions& options, Codecs codecs, Index longest,
                       std::uint64_t seed);
  /// Reads a checkpoint. Errors begin with the path.
  static Model load(const std::filesystem::path& path);

  /// Adds the weights, and the metadata that `load` needs.
  void save(Safetensors& file) const;

  bool attends() const { return models::model_kind(model.options().name).attends; }
  const text::Codec& source() const { return codecs.source; }
  const text::Codec& target() const { return codecs.target; }

  /// Maximum length of a prediction in tokens: about twice that of the longest training target.
  Index most_tokens() const {
    return longest == 0 ? 100 : longest + std::min(longest, Index{50}) + 5;
  }
  /// True if text is normalised to Unicode's NFC before it is tokenised.
  bool nfc() const { return entry("nfc") == "yes"; }
  /// True if it was trained on sentences, or selected by BLEU: BLEU evaluates it.
  bool of_sentences() const;

  /// A metadata entry of the loaded checkpoint; empty if it is missing.
  std::string entry(const std::string& name) const;

  Index longest = 0;  // tokens of the longest target in training; 0: unknown
};

/// The entries of a checkpoint that define tokenisation and vocabularies.
inline const std::string codec_entries[] = {"source_tokenizer", "source_vocabulary",
                                            "target_tokenizer", "target_vocabulary"};
/// Throws if an entry in `names` of the checkpoint at `path` (`other`) differs from that of
/// `first`, which the message calls `first_name`.
void check_alike(std::span<const std::string> names, const Model& first,
                 const std::filesystem::path& path, const Model& other, const char* first_name);

/// One model, or the models of an ensemble.
using Models = std::span<const Model>;

/// DIRECTORY/best.safetensors or, if it does not exist, that of each subdirectory, sorted.
std::vector<std::filesystem::path> models_in(const std::filesystem::path& directory);
/// Replaces each directory in `paths` by its models_in. Without paths, returns the most recent
/// model in the default directories. Throws if there is none.
std::vector<std::filesystem::path> model_files(std::span<const std::filesystem::path> paths);
/// The same for a command that takes one model. Throws if there are several.
std::filesystem::path model_file(std::span<const std::filesystem::path> paths);
/// Loads models. Throws if their tokenisation or vocabularies differ.
std::vector<Model> load_models(std::span<const std::filesystem::path> files);
/// The same, called by all workers. Throws if their files differ.
std::vector<Model> load_equal_models(std::span<const std::filesystem::path> files);
/// The model or the ensemble, for search, sampling and forced scoring.
models::Model network_of(Models models);

/// The line with single blanks between words and none at its ends; in NFC if `nfc`.
std::string normalized(std::string_view line, bool nfc);

/// The tokenisation: "characters", "words between blanks", "subwords", ...
std::string kind_of(const text::Tokenizer& tokenizer);
/// "characters, 58 kinds"
std::string kinds_of(const text::Codec& codec);

/// Counts out-of-vocabulary tokens, for a single warning.
class UnknownTokens {
 public:
  void add(const text::Codec& codec, std::span<const std::string> tokens);
  /// Throws if no token of the data is in the vocabulary, which was read from this file unless it
  /// is empty. `side`: source or target.
  void require_known(const std::string& data, const char* side,
                     const std::string& vocabulary) const;
  void warn(const std::string& name, const char* side) const;

 private:
  std::size_t all_ = 0, unknown_ = 0;
  std::set<std::string> kinds_;
};

/// Maximum tokens of a source alone (memory grows with its length), and of each side of a pair
/// (memory of attention grows with the product of both lengths).
inline constexpr Index longest_source = 100'000, longest_of_pair = 5'000;
/// Maximum source length: `most`, or less if the models' score functions support fewer positions.
Index longest_read(const models::ModelOptions& options, Index most);
Index longest_read(Models models, Index most);
/// The normalized line. Throws an Error "PLACE: ..." if it has a TAB, more tokens than `longest`,
/// or is not UTF-8.
std::string source_of(const std::string& line, const Model& model, Index longest,
                      const std::string& place);
/// Throws an Error "PLACE: ..." if `tokens` exceeds `longest`.
void check_length(Index tokens, const std::string& place, Index longest);

/// The tokens of a hypothesis.
std::vector<std::string> tokens_of(const Model& model, const models::Hypothesis& written);
/// Attention weights: rows are target tokens, columns source tokens. Omits the step of </s>. Empty
/// if a side is empty or the model has no attention.
report::Heatmap heatmap(std::vector<std::string> source, std::vector<std::string> target,
                        const models::Hypothesis& written);
/// Its weights, a list per row.
std::vector<std::vector<double>> rows_of(const report::Heatmap& map);

}  // namespace attune::pairs
