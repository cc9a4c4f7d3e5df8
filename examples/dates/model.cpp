#include "model.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <attune/models/forced.hpp>
#include <attune/models/presets.hpp>
#include <attune/models/translate.hpp>

#include "support/ensembles.hpp"

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
  for (models::Translation& written : with_network(std::span(this, 1), [&](const auto& network) {
         return models::translate(
             network, sources,
             {.how = models::SearchOptions{.beam = beam, .max_length = longest_date}});
       })) {
    best.push_back(std::move(written.front()));
  }
  return best;
}

std::vector<models::Hypothesis> Model::force(std::span<const text::Pair> pairs) const {
  constexpr std::size_t batch_size = 100;
  std::vector<models::Hypothesis> forced;
  for (std::size_t begin = 0; begin < pairs.size(); begin += batch_size) {
    stop_if_interrupted();
    const auto some = pairs.subspan(begin, std::min(batch_size, pairs.size() - begin));
    std::ranges::move(models::force_decode(network(), text::make_batch(some)),
                      std::back_inserter(forced));
  }
  return forced;
}

}  // namespace attune::dates
