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

std::vector<Model> load_models(std::span<const std::filesystem::path> paths) {
  std::vector<Model> models;
  for (const auto& path : paths) {
    models.push_back(Model::load(path));
    check_alike(codec_entries, models.front().metadata(), path, models.back().metadata(),
                "the first model");
  }
  return models;
}

}  // namespace attune::translate
