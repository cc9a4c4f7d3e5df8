// The file of a trained model: safetensors with the parameters under their names and, as metadata,
// all that reading and writing text with the model needs.
//
//     format             "attune pairs 1"
//     model              bahdanau, nematus, luong, ..., transformer-lm: the `name` of its class
//     hidden, ...        every option of that model by name
//     source_tokenizer   how lines become tokens: {"kind":"characters"}, see text/tokenizer.hpp
//     source_vocabulary  the tokens from number 4 on, a JSON array
//     target_tokenizer, target_vocabulary
//
// A file may contain further entries and, under "adam." and "average.", further tensors: the state
// of a training.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <attune/models/any_model.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune::models {

/// How a model reads its source and writes its target. A language model has a target alone.
struct Codecs {
  text::Codec source, target;
};

/// A model with its parameters, from a file.
template <class M = AnyModel>
struct LoadedModel {
  std::unique_ptr<nn::Parameters> parameters;
  M model;
  Codecs codecs;
  Metadata metadata;     // all of the file
  std::string checksum;  // of the file
};

namespace detail {

void store(Safetensors& file, const std::string& name, const OptionList& options,
           const nn::Parameters& parameters, const Codecs& codecs);
/// Throws unless the file has this format and, where `name` is not empty, that model.
Codecs codecs_of(const Safetensors& file, const std::string& name,
                 const text::RewriterFromJson& rewriter);
/// Throws where the file has a tensor that is no parameter.
void require_used(const Safetensors& file, const nn::Parameters& parameters);
AnyModelOptions options_from(const Metadata& metadata);
}  // namespace detail

/// Adds all entries and parameters to a file, which may have those of a training, too. A model is
/// an AnyModel, or has a `name` and options().
template <class M>
void store(Safetensors& file, const M& model, const nn::Parameters& parameters,
           const Codecs& codecs) {
  auto options = model.options();
  if constexpr (std::is_same_v<M, AnyModel>) {
    detail::store(file, options.name, options_of(options), parameters, codecs);
  } else {
    detail::store(file, M::name, options_of(options), parameters, codecs);
  }
}

/// Writes the file; the old one stays until the new one is complete. `more` are other entries.
template <class M>
void save(const std::filesystem::path& path, const M& model, const nn::Parameters& parameters,
          const Codecs& codecs, const Metadata& more = {}) {
  Safetensors file;
  store(file, model, parameters, codecs);
  file.metadata.insert(more.begin(), more.end());
  save_safetensors(path, file);
}

/// The model of a file: of any that has a name, or an M. `rewriter` reads those of tokenizers. Throws
/// where an entry is missing or not understood, and for another model's file.
template <class M = AnyModel>
LoadedModel<M> load_from(const Safetensors& file, const text::RewriterFromJson& rewriter = {}) {
  constexpr bool any = std::is_same_v<M, AnyModel>;
  const char* name = "";
  if constexpr (!any) name = M::name;
  Codecs codecs = detail::codecs_of(file, name, rewriter);
  const Vocabularies sizes{codecs.source.vocabulary.size(), codecs.target.vocabulary.size()};
  auto parameters = std::make_unique<nn::Parameters>(file);
  const auto made = [&]() -> M {
    if constexpr (any) {
      return {*parameters, detail::options_from(file.metadata), sizes};
    } else {
      auto options = typename M::Options();
      set_from(options_of(options), file.metadata);
      options.source_vocabulary = sizes.source, options.target_vocabulary = sizes.target;
      return {*parameters, options};
    }
  };
  M model = made();
  detail::require_used(file, *parameters);
  return {std::move(parameters), std::move(model), std::move(codecs), file.metadata, file.checksum};
}

/// The same of a file by its path, with which errors begin.
template <class M = AnyModel>
LoadedModel<M> load(const std::filesystem::path& path,
                    const text::RewriterFromJson& rewriter = {}) {
  const Safetensors file = load_safetensors(path);
  try {
    return load_from<M>(file, rewriter);
  } catch (const Error& error) {
    throw Error(path.string() + ": " + error.what());
  }
}

}  // namespace attune::models
