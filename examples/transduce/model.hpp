// A model of pairs.
#pragma once

#include "support/model_options.hpp"
#include "support/text_model.hpp"

namespace attune::transduce {

/// What a checkpoint of this program says that it is.
inline constexpr const char* checkpoint_format = "attune transduce 1";

/// A preset of models/presets.hpp in sizes that suit some thousand pairs of words. Throws on
/// another name.
ModelOptions model_options(std::string_view preset);

class Model : public TextModel {
 public:
  /// `longest` is the number of tokens of the longest target to train on.
  Model(const ModelOptions& options, Codecs codecs, Index longest, std::uint64_t seed);

  /// Reads a checkpoint written by `save`. Throws an Error that begins with the path.
  static Model load(const std::filesystem::path& path);

  void save(Safetensors& file) const;

  const ModelOptions& options() const { return options_; }
  /// The most tokens that it writes: twice those of the longest target to train on, and some more.
  Index most_tokens() const { return 2 * longest_ + 5; }

 private:
  explicit Model(const Safetensors& file);

  ModelOptions options_;
  Index longest_;
};

/// Those of files, and of directories: of a directory its best.safetensors or, where it has none,
/// those of the directories in it. Throws where there is none, and where they do not read and write
/// the same tokens.
std::vector<Model> load_models(std::span<const std::filesystem::path> paths);
/// The files that such paths stand for.
std::vector<std::filesystem::path> model_files(std::span<const std::filesystem::path> paths);

}  // namespace attune::transduce
