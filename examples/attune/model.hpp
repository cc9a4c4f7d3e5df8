// A model of pairs and its checkpoint.
//
// A checkpoint is the file of models/model_file.hpp, with further entries:
//
//     longest-target     optional: tokens of the longest target in training
//     metric             optional: exact, bleu or loss, by which the best weights were chosen
//     train, swap, ...   optional: the other options of the training, see options.hpp
//     training_data, validation_data   optional: their fingerprints, see run.hpp
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <attune/models/any_model.hpp>
#include <attune/models/heatmap.hpp>
#include <attune/models/model_file.hpp>
#include <attune/models/search.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune::pairs {

using models::Codecs;

struct Model : models::LoadedModel<> {
  /// With initial weights. `longest` is the number of tokens of the longest target to train on.
  static Model initial(const models::AnyModelOptions& options, Codecs codecs, Index longest,
                       std::uint64_t seed);
  /// Reads a checkpoint. Throws an Error that begins with the path.
  static Model load(const std::filesystem::path& path);

  /// Adds weights, and the metadata that loading needs.
  void save(Safetensors& file) const;

  bool attends() const { return models::model_kind(model.options().name).attends; }
  const text::Codec& source() const { return codecs.source; }
  const text::Codec& target() const { return codecs.target; }

  /// The most tokens to write: about twice those of the longest target in training.
  Index most_tokens() const {
    return longest == 0 ? 100 : longest + std::min(longest, Index{50}) + 5;
  }
  /// Whether characters of what it reads are composed.
  bool nfc() const { return entry("nfc") == "yes"; }
  /// Whether BLEU measures it: it was chosen by that, or by the loss of sentences.
  bool of_sentences() const;

  /// An entry of the checkpoint that the model was loaded from; empty if it is missing.
  std::string entry(const std::string& name) const;

  Index longest = 0;  // tokens of the longest target in training; 0: unknown
};

/// The entries of a checkpoint that say how text is read and written.
inline const std::string codec_entries[] = {"source_tokenizer", "source_vocabulary",
                                            "target_tokenizer", "target_vocabulary"};
/// Throws where one of these entries of the checkpoint at `path` is not that of another, which the
/// message calls `first_name`.
void check_alike(std::span<const std::string> names, const Metadata& first,
                 const std::filesystem::path& path, const Metadata& other, const char* first_name);

/// One model, or an ensemble.
using Models = std::span<const Model>;

inline constexpr const char* best_file = "best.safetensors";
/// That of a directory or, where it has none, those of the directories in it.
std::vector<std::filesystem::path> models_in(const std::filesystem::path& directory);
/// The files that paths stand for: models_in a directory. Without paths, those of the training in a
/// default directory that ended last; throws where there is none, and says how to train one.
std::vector<std::filesystem::path> model_files(std::span<const std::filesystem::path> paths);
/// Those of such files. Throws where they do not read and write the same tokens.
std::vector<Model> load_models(std::span<const std::filesystem::path> files);
/// The same where all workers take part: their files must be equal.
std::vector<Model> load_equal_models(std::span<const std::filesystem::path> files);
/// What searches, samples and forces: the model or the ensemble. It can be interrupted at every
/// word, and then throws Interrupted.
models::AnyModel network_of(Models models);

/// The line without blanks at its ends, and single ones between words, with its characters composed
/// where `nfc`: text is read as it was in training.
std::string normalized(std::string_view line, bool nfc);

/// How text is cut: "characters", "words between blanks", "subwords", ...
std::string kind_of(const text::Tokenizer& tokenizer);
/// "characters, 58 kinds"
std::string kinds_of(const text::Codec& codec);

/// Tokens that a vocabulary lacks, in one warning for all: the text may be in another language than
/// the model's.
class UnknownTokens {
 public:
  void add(const text::Codec& codec, std::span<const std::string> tokens);
  /// `side`: source or target.
  void warn(const std::string& name, const char* side) const;

 private:
  std::size_t all_ = 0, unknown_ = 0;
  std::set<std::string> kinds_;
};

/// The most tokens of a source alone, whose memory grows with its length, and of each side of a
/// pair, where the memory of attention grows with the product of both lengths.
inline constexpr Index longest_source = 100'000, longest_of_pair = 5'000;
/// `most`, or as many tokens of a source as all the models' scores have places for.
Index longest_read(const models::AnyModelOptions& options, Index most);
Index longest_read(Models models, Index most);
/// What is read of a line, normalized. Throws an Error that begins with its place where it
/// is no source.
std::string source_of(const std::string& line, const Model& model, Index longest,
                      const std::string& place);
/// Throw an Error "FILE:LINE: ..." for a side of more tokens than `longest`, or longest_of_pair.
void check_length(Index tokens, const std::string& place, Index longest);

/// The tokens of a hypothesis.
std::vector<std::string> tokens_of(const Model& model, const models::Hypothesis& written);
/// What it attended to (columns) for each token (rows); a hypothesis has a further step for </s>,
/// which is left out. Without rows where the source is empty or the model has no attention.
report::Heatmap heatmap(std::vector<std::string> source, std::vector<std::string> target,
                        const models::Hypothesis& written);

}  // namespace attune::pairs
