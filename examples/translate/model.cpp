#include "model.hpp"

namespace attune::translate {

Model Model::load(const std::filesystem::path& path) {
  const Safetensors file = load_safetensors(path);
  return reading(path, [&] {
    require_format(file, checkpoint_format);
    return Model(file, codecs_from(file.metadata));
  });
}

void Model::save(Safetensors& file) const {
  TextModel::save(file);
  file.metadata["format"] = checkpoint_format;
}

}  // namespace attune::translate
