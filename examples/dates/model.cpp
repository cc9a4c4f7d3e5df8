#include "model.hpp"

#include <fmt/format.h>

#include <attune/models/presets.hpp>

namespace attune::dates {
namespace {

constexpr Index longest_date = 40;  // characters to write at most

Codecs characters(text::Vocabulary source, text::Vocabulary target) {
  return {{text::Characters{}, std::move(source)}, {text::Characters{}, std::move(target)}};
}

}  // namespace

ModelOptions model_options(std::string_view preset) {
  ModelOptions o{std::string(preset), models::preset(preset).options};
  o.network.embedding = 32;
  o.network.hidden = o.network.score.attention = o.network.readout = 64;
  o.network.encoder_layers = o.network.decoder_layers = 1;
  return o;
}

Model::Model(const ModelOptions& options, text::Vocabulary source, text::Vocabulary target,
             std::uint64_t seed)
    : TextModel(options.network, characters(std::move(source), std::move(target)), seed),
      options_(options) {}

Model::Model(const Safetensors& file, Codecs codecs)
    : TextModel(file, std::move(codecs)), options_(model_options_from(file.metadata)) {}

Model Model::load(const std::filesystem::path& path) {
  return from_checkpoint(path, checkpoint_format, [](const Safetensors& file) {
    Model model(file, characters(vocabulary_from(file.metadata, "source"),
                                 vocabulary_from(file.metadata, "target")));
    for (const auto& [name, tensor] : file.tensors) {
      if (!model.parameters().contains(name) && !name.starts_with("adam."))
        fail("checkpoint", fmt::format("'{}' is no part of the model of its options", name));
    }
    return model;
  });
}

void Model::save(Safetensors& file) const {
  TextModel::save(file);
  for (const char* side : {"source", "target"})  // characters, of which the format says nothing
    file.metadata.erase(fmt::format("{}_tokenizer", side));
  file.metadata["model"] = options_.name;
  file.metadata["format"] = checkpoint_format;
}

text::Pair Model::encode(std::string_view source_text, std::string_view target_text) const {
  return {source().encode(source_text), target().encode(target_text)};
}

std::string Model::decode(std::span<const std::int32_t> words) const {
  std::string text;
  for (std::int32_t word : words) text += target().vocabulary.token(word);
  return text;
}

std::vector<models::Hypothesis> Model::predict(std::span<const text::Sentence> sources,
                                               Index beam) const {
  std::vector<models::Hypothesis> best;
  for (auto& hypotheses : models::search(network(), text::make_source_batch(sources),
                                         {.beam = beam, .max_length = longest_date})) {
    best.push_back(std::move(hypotheses.front()));
  }
  return best;
}

}  // namespace attune::dates
