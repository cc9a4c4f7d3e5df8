// A translation model.
#pragma once

#include "support/text_model.hpp"

namespace attune::translate {

/// What a checkpoint of this program says that it is.
inline constexpr const char* checkpoint_format = "attune translate 1";

class Model : public TextModel {
 public:
  using TextModel::TextModel;

  /// Reads a checkpoint written by `save`. Throws an Error that begins with the path.
  static Model load(const std::filesystem::path& path);

  void save(Safetensors& file) const;
};

}  // namespace attune::translate
