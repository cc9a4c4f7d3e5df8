#include <fmt/format.h>

#include <attune/models/model_file.hpp>
#include <attune/tensor/fail.hpp>

namespace attune::models::detail {
namespace {

constexpr const char* file_format = "attune pairs 1";

template <class Read>
auto entry(const Metadata& metadata, const std::string& name, Read read) {
  const std::string& text = nn::load_text(metadata, name);
  try {
    return read(text);
  } catch (const std::exception& error) {
    throw Error(name + ": " + error.what());
  }
}

}  // namespace

void store(Safetensors& file, const std::string& name, Metadata options,
           const nn::Parameters& parameters, const Codecs& codecs) {
  nn::save_parameters(parameters, file);
  options.merge(file.metadata);
  file.metadata = std::move(options);
  file.metadata["model"] = name;
  file.metadata["format"] = file_format;
  for (const auto& [side, codec] :
       {std::pair("source", &codecs.source), {"target", &codecs.target}}) {
    file.metadata[fmt::format("{}_tokenizer", side)] = to_json(codec->tokenizer);
    file.metadata[fmt::format("{}_vocabulary", side)] = to_json(codec->vocabulary);
  }
}

Codecs codecs_of(const Safetensors& file, const std::string& name,
                 const text::RewriterFromJson& rewriter) {
  const Metadata& metadata = file.metadata;
  const auto format = metadata.find("format");
  if (format == metadata.end() || format->second != file_format)
    fail("checkpoint", "the format is {}, expected '{}'",
         format == metadata.end() ? "missing" : in_quotes(format->second), file_format);
  const std::string& stored = nn::load_text(metadata, "model");
  if (!name.empty() && stored != name)
    fail("checkpoint", "the model is {}, expected {}", in_quotes(stored), name);
  const auto codec = [&](const std::string& side) -> text::Codec {
    return {entry(metadata, side + "_tokenizer",
                  [&](const auto& text) { return text::tokenizer_from_json(text, rewriter); }),
            entry(metadata, side + "_vocabulary", text::vocabulary_from_json)};
  };
  return {codec("source"), codec("target")};
}

void require_used(const Safetensors& file, const nn::Parameters& parameters) {
  for (const auto& [name, tensor] : file.tensors) {
    const std::string owner = name.substr(0, name.find('.'));
    if (!parameters.contains(name) && owner != "shortlist" &&
        !file.metadata.contains(owner + ".steps"))
      fail("checkpoint", in_quotes(name) + " is not a parameter of the model");
  }
}

ModelOptions options_from(const Metadata& metadata) {
  const std::string& name = nn::load_text(metadata, "model");
  ModelOptions options = model_options(name);
  Metadata entries = metadata;  // files of models trained without these options lack them
  entries.insert({{"label-smoothing", "0"}, {"coverage-loss", "0"}});
  set_from(options, entries);
  return options;
}

}  // namespace attune::models::detail
