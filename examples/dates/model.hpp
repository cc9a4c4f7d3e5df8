// The dates model: options, vocabularies and weights, together in one file.
#pragma once

#include <string>
#include <vector>

#include <attune/models/search.hpp>

#include "support/model_options.hpp"
#include "support/text_model.hpp"

namespace attune::dates {

/// What a checkpoint of this program says that it is.
inline constexpr const char* checkpoint_format = "attune dates 1";

/// A preset of models/presets.hpp in sizes that suit dates. Throws on another name.
ModelOptions model_options(std::string_view preset);

/// Characters in, characters out.
class Model : public TextModel {
 public:
  Model(const ModelOptions& options, text::Vocabulary source, text::Vocabulary target,
        std::uint64_t seed);

  /// Reads a checkpoint written by `save`. Throws an Error that begins with the path.
  static Model load(const std::filesystem::path& path);

  /// Adds weights, options and vocabularies to a file.
  void save(Safetensors& file) const;

  /// Throws when the text is not UTF-8. Characters never seen become <unk>.
  text::Pair encode(std::string_view source, std::string_view target) const;
  std::string decode(std::span<const std::int32_t> words) const;

  /// The best hypothesis for each source. Throws Interrupted.
  std::vector<models::Hypothesis> predict(std::span<const text::Sentence> sources,
                                          Index beam) const;
  /// What it thinks of given targets. Throws Interrupted.
  std::vector<models::Hypothesis> force(std::span<const text::Pair> pairs) const;

  const ModelOptions& options() const { return options_; }

 private:
  Model(const Safetensors& file, Codecs codecs);

  ModelOptions options_;
};

}  // namespace attune::dates
