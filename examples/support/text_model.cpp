#include "support/text_model.hpp"

#include <fmt/format.h>

#include <attune/nn/checkpoint.hpp>
#include <attune/tensor/check.hpp>

#include "support/letters.hpp"

namespace attune {
namespace {

auto read_entry(const Metadata& metadata, const std::string& name, auto from_json) {
  return reading(name, [&] { return from_json(nn::load_text(metadata, name)); });
}

text::Codec codec_from(const Metadata& metadata, const std::string& side) {
  return {read_entry(metadata, side + "_tokenizer", text::read_tokenizer),
          vocabulary_from(metadata, side)};
}

void save_codec(const text::Codec& codec, const std::string& side, Metadata& metadata) {
  metadata[side + "_tokenizer"] = to_json(codec.tokenizer);
  metadata[side + "_vocabulary"] = to_json(codec.vocabulary);
}

}  // namespace

text::Vocabulary vocabulary_from(const Metadata& metadata, const std::string& side) {
  return read_entry(metadata, side + "_vocabulary", text::vocabulary_from_json);
}

Codecs codecs_from(const Metadata& metadata) {
  return {codec_from(metadata, "source"), codec_from(metadata, "target")};
}

TextModel::TextModel(const models::Seq2SeqOptions& options, Codecs codecs, std::uint64_t seed)
    : TextModel(options, std::move(codecs), std::make_unique<nn::Parameters>(seed)) {}

TextModel::TextModel(const Safetensors& file, Codecs codecs)
    : TextModel(models::seq2seq_options_from(file.metadata), std::move(codecs),
                std::make_unique<nn::Parameters>(file)) {
  metadata_ = file.metadata;
  checksum_ = file.checksum;
}

TextModel::TextModel(const models::Seq2SeqOptions& options, Codecs codecs,
                     std::unique_ptr<nn::Parameters> parameters)
    : options_(options), codecs_(std::move(codecs)), parameters_(std::move(parameters)) {
  options_.source_vocabulary = codecs_.source.vocabulary.size();
  options_.target_vocabulary = codecs_.target.vocabulary.size();
  network_ = std::make_unique<models::Seq2Seq>(*parameters_, options_);
}

void TextModel::save(Safetensors& file) const {
  nn::save_parameters(*parameters_, file);
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

text::Columns columns_for(const TextModel& model, text::Columns asked) {
  const auto trained = model.metadata().find("swap");  // older models have none
  const bool swapped = trained != model.metadata().end() && trained->second == "yes";
  return swapped ? text::Columns::target_first : asked;
}

report::Heatmap heatmap(std::vector<std::string> source, std::vector<std::string> target,
                        const models::Hypothesis& written) {
  report::Heatmap map{.rows = {}, .columns = std::move(source), .weights = {}, .caption = ""};
  if (!written.weights.defined()) return map;
  map.weights = written.weights.slice(0, std::ssize(target)).to_vector<double>();
  map.rows = std::move(target);
  return map;
}

std::vector<std::string> tokens_of(const TextModel& model, const models::Hypothesis& written) {
  std::vector<std::string> tokens;
  for (const std::int32_t word : written.words)
    tokens.push_back(model.target().vocabulary.token(word));
  return tokens;
}

}  // namespace attune
