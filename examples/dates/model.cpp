#include "model.hpp"

#include <fmt/format.h>

#include <attune/models/presets.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/nn/checkpoint.hpp>

namespace attune::dates {
namespace {

constexpr Index longest_date = 40;  // characters to write at most

/// For vocabularies of these sizes.
models::Seq2SeqOptions network_options(models::Seq2SeqOptions o, Index source, Index target) {
  o.source_vocabulary = source;
  o.target_vocabulary = target;
  return o;
}

}  // namespace

ModelOptions model_options(std::string_view preset) {
  ModelOptions o{std::string(preset), models::preset(preset).options};
  o.network.embedding = 32;
  o.network.hidden = o.network.score.attention = o.network.readout = 64;
  o.network.encoder_layers = o.network.decoder_layers = 1;
  return o;
}

Metadata to_map(const ModelOptions& o) {
  auto map = models::to_map(o.network);
  map["model"] = o.name;
  return map;
}

ModelOptions model_options_from(const Metadata& metadata) {
  return {nn::load_text(metadata, "model"), models::seq2seq_options_from(metadata)};
}

Model::Model(const ModelOptions& options, text::Vocabulary source, text::Vocabulary target,
             std::unique_ptr<nn::Parameters> parameters)
    : options_(options),
      source_(std::move(source)),
      target_(std::move(target)),
      parameters_(std::move(parameters)),
      network_(std::make_unique<models::Seq2Seq>(
          *parameters_, network_options(options.network, source_.size(), target_.size()))) {}

Model::Model(const ModelOptions& options, text::Vocabulary source, text::Vocabulary target,
             std::uint64_t seed)
    : Model(options, std::move(source), std::move(target), std::make_unique<nn::Parameters>(seed)) {
}

Model Model::load(const std::filesystem::path& path) {
  const Safetensors file = load_safetensors(path);
  return reading(path, [&] {
    require_format(file, checkpoint_format);
    const ModelOptions options = model_options_from(file.metadata);
    const auto vocabulary = [&](const char* name) {
      return reading(
          name, [&] { return text::vocabulary_from_json(nn::load_text(file.metadata, name)); });
    };
    Model model(options, vocabulary("source_vocabulary"), vocabulary("target_vocabulary"),
                std::make_unique<nn::Parameters>(file));
    model.metadata_ = file.metadata;
    for (const auto& [name, tensor] : file.tensors) {
      if (!model.parameters_->contains(name) && !name.starts_with("adam."))
        fail("checkpoint", fmt::format("'{}' is no part of the model of its options", name));
    }
    return model;
  });
}

void Model::save(Safetensors& file) const {
  nn::save_parameters(*parameters_, file);
  file.metadata.merge(to_map(options_));
  file.metadata["format"] = checkpoint_format;
  file.metadata["source_vocabulary"] = text::to_json(source_);
  file.metadata["target_vocabulary"] = text::to_json(target_);
}

text::Sentence Model::encode_source(std::string_view text) const {
  return source_.encode(text::code_points(text));
}

text::Pair Model::encode(std::string_view source, std::string_view target) const {
  return {encode_source(source), target_.encode(text::code_points(target))};
}

std::string Model::decode(std::span<const std::int32_t> words) const {
  std::string text;
  for (std::int32_t word : words) text += target_.token(word);
  return text;
}

std::vector<models::Hypothesis> Model::predict(std::span<const text::Sentence> sources,
                                               Index beam) const {
  std::vector<models::Hypothesis> best;
  for (auto& hypotheses : models::search(*network_, text::make_source_batch(sources),
                                         {.beam = beam, .max_length = longest_date})) {
    best.push_back(std::move(hypotheses.front()));
  }
  return best;
}

report::Heatmap Model::heatmap(std::vector<std::string> source,
                               const models::Hypothesis& written) const {
  report::Heatmap map{.rows = {}, .columns = std::move(source), .weights = {}, .caption = ""};
  if (!written.weights.defined()) return map;
  for (std::int32_t word : written.words) map.rows.push_back(target_.token(word));
  map.weights = written.weights.slice(0, std::ssize(map.rows)).to_vector<double>();
  return map;
}

}  // namespace attune::dates
