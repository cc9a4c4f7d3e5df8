#include "model.hpp"

#include <fmt/format.h>

#include <attune/nn/checkpoint.hpp>
#include <attune/tensor/check.hpp>

namespace attune::translate {
namespace {

text::Codec codec_from(const Metadata& metadata, const std::string& side) {
  const auto read = [&](const std::string& name, auto from_json) {
    return reading(name, [&] { return from_json(nn::load_text(metadata, name)); });
  };
  return {read(side + "_tokenizer", text::tokenizer_from_json),
          read(side + "_vocabulary", text::vocabulary_from_json)};
}

void save_codec(const text::Codec& codec, const std::string& side, Metadata& metadata) {
  metadata[side + "_tokenizer"] = to_json(codec.tokenizer);
  metadata[side + "_vocabulary"] = to_json(codec.vocabulary);
}

}  // namespace

Codecs codecs_from(const Metadata& metadata) {
  return {codec_from(metadata, "source"), codec_from(metadata, "target")};
}

Model::Model(const models::Seq2SeqOptions& options, Codecs codecs, std::uint64_t seed)
    : Model(options, std::move(codecs), std::make_unique<nn::Parameters>(seed)) {}

Model::Model(const models::Seq2SeqOptions& options, Codecs codecs,
             std::unique_ptr<nn::Parameters> parameters)
    : options_(options), codecs_(std::move(codecs)), parameters_(std::move(parameters)) {
  options_.source_vocabulary = codecs_.source.vocabulary.size();
  options_.target_vocabulary = codecs_.target.vocabulary.size();
  network_ = std::make_unique<models::Seq2Seq>(*parameters_, options_);
}

Model Model::load(const std::filesystem::path& path) {
  Safetensors file = load_safetensors(path);
  return reading(path, [&] {
    require_format(file, checkpoint_format);
    const Metadata metadata = file.metadata;
    const std::string checksum = file.checksum;
    Model model(models::seq2seq_options_from(metadata), codecs_from(metadata),
                std::make_unique<nn::Parameters>(std::move(file)));
    model.metadata_ = metadata;
    model.checksum_ = checksum;
    return model;
  });
}

void Model::save(Safetensors& file) const {
  nn::save_parameters(*parameters_, file);
  file.metadata["format"] = checkpoint_format;
  file.metadata.merge(models::to_map(options_));
  save_codec(codecs_.source, "source", file.metadata);
  save_codec(codecs_.target, "target", file.metadata);
}

void check_alike(std::span<const std::string> names, const Metadata& first,
                 const std::filesystem::path& path, const Metadata& other, const char* first_name) {
  for (const std::string& name : names) {
    if (nn::load_text(first, name) == nn::load_text(other, name)) continue;
    fail(path.string(), fmt::format("its {} is not that of {}", name, first_name));
  }
}

report::Heatmap heatmap(std::vector<std::string> source, std::vector<std::string> target,
                        const models::Hypothesis& written) {
  std::vector<double> weights = written.weights.slice(0, std::ssize(target)).to_vector<double>();
  return {.rows = std::move(target),
          .columns = std::move(source),
          .weights = std::move(weights),
          .caption = ""};
}

std::vector<std::string> tokens_of(const Model& model, const models::Hypothesis& written) {
  std::vector<std::string> tokens;
  for (std::int32_t word : written.words) tokens.push_back(model.target().vocabulary.token(word));
  return tokens;
}

}  // namespace attune::translate
