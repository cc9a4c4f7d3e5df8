#include "model.hpp"

namespace attune::translate {

Model Model::load(const std::filesystem::path& path) {
  return from_checkpoint(path, checkpoint_format, [](const Safetensors& file) {
    return Model(file, codecs_from(file.metadata));
  });
}

void Model::save(Safetensors& file) const {
  TextModel::save(file);
  file.metadata["format"] = checkpoint_format;
}

}  // namespace attune::translate
