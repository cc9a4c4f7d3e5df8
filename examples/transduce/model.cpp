#include "model.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <attune/models/presets.hpp>

#include "support/ensembles.hpp"

namespace attune::transduce {
namespace {

constexpr const char* best_file = "best.safetensors";

std::vector<std::filesystem::path> files_in(const std::filesystem::path& directory) {
  if (std::filesystem::exists(directory / best_file)) return {directory / best_file};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::filesystem::path file = entry.path() / best_file;
    if (std::filesystem::exists(file)) files.push_back(file);
  }
  if (files.empty()) {
    fail(directory.string(), fmt::format("neither it nor a directory in it has a {}", best_file));
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

ModelOptions model_options(std::string_view preset) {
  ModelOptions o{std::string(preset), models::preset(preset).options};
  o.network.embedding = 64;
  o.network.hidden = o.network.score.attention = o.network.readout = 128;
  o.network.encoder_layers = 2;
  o.network.dropout = 0.3;
  o.network.label_smoothing = 0.1;
  return o;
}

Model::Model(const ModelOptions& options, Codecs codecs, Index longest, std::uint64_t seed)
    : TextModel(options.network, std::move(codecs), seed), options_(options), longest_(longest) {}

Model::Model(const Safetensors& file)
    : TextModel(file, codecs_from(file.metadata)),
      options_(model_options_from(file.metadata)),
      longest_(nn::load_count(file.metadata, "longest-target")) {
  if (longest_ > 1 << 24) fail("longest-target", fmt::format("{} is too large", longest_));
}

Model Model::load(const std::filesystem::path& path) {
  return from_checkpoint(path, checkpoint_format,
                         [](const Safetensors& file) { return Model(file); });
}

void Model::save(Safetensors& file) const {
  TextModel::save(file);
  file.metadata["model"] = options_.name;
  file.metadata["longest-target"] = std::to_string(longest_);
  file.metadata["format"] = checkpoint_format;
}

std::vector<std::filesystem::path> model_files(std::span<const std::filesystem::path> paths) {
  std::vector<std::filesystem::path> files;
  for (const auto& path : paths) {
    const auto some = std::filesystem::is_directory(path) ? files_in(path) : std::vector{path};
    files.insert(files.end(), some.begin(), some.end());
  }
  return files;
}

std::vector<Model> load_models(std::span<const std::filesystem::path> paths) {
  return load_alike<Model>(model_files(paths));
}

}  // namespace attune::transduce
