// The file format of a trained model: safetensors with the parameters by path, and as metadata the
// model's options, tokenizers and vocabularies:
//
//     format             "attune pairs 1"
//     model              bahdanau, nematus, luong, ..., transformer-lm: the `name` of the class
//     hidden, ...        every option of the model by name
//     source_tokenizer   JSON such as {"kind":"characters"}, see text/tokenizer.hpp
//     source_vocabulary  JSON array of the tokens from id 4 on
//     target_tokenizer, target_vocabulary
//
// and, optionally, the tensors of a Shortlist (shortlist.hpp).
//
// A training checkpoint has further metadata, and tensors "adam.*", "sgd.*" and "average.*".
#pragma once

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include <attune/models/by_name.hpp>
#include <attune/models/shortlist.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune::models {

/// Tokenizers and vocabularies of the source and the target. A language model uses only `target`.
struct Codecs {
  text::Codec source, target;
};

template <class M = NamedModel>
struct LoadedModel {
  std::unique_ptr<nn::Parameters> parameters;
  M model;
  Codecs codecs;
  Metadata metadata;         // all metadata of the file
  std::string checksum;      // of the file, see tensor/safetensors.hpp
  Shortlist shortlist = {};  // undefined if the file has none
};

namespace detail {

void store(Safetensors& file, const std::string& name, Metadata options,
           const nn::Parameters& parameters, const Codecs& codecs);
/// Throws unless the file has this format and the model `name`; an empty name means any model.
Codecs codecs_of(const Safetensors& file, const std::string& name,
                 const text::RewriterFromJson& rewriter);
/// Throws if there is a tensor that is neither a parameter nor of an optimiser or average: "NAME.*",
/// with an entry "NAME.steps", see nn::StepState.
void require_used(const Safetensors& file, const nn::Parameters& parameters);
ModelOptions options_from(const Metadata& metadata);
}  // namespace detail

/// Adds metadata and parameters to a file. `model` is a NamedModel, or has a `name` and options().
template <class M>
void store(Safetensors& file, const M& model, const nn::Parameters& parameters,
           const Codecs& codecs) {
  const auto& options = model.options();
  const auto name = [&] {
    if constexpr (std::is_same_v<M, NamedModel>)
      return options.name;
    else
      return M::name;
  };
  detail::store(file, name(), to_map(options), parameters, codecs);
}

/// Writes a model file atomically: a failure leaves an old file unchanged. Of the metadata `more`,
/// entries that the model has itself are ignored.
template <class M>
void save(const std::filesystem::path& path, const M& model, const nn::Parameters& parameters,
          const Codecs& codecs, const Metadata& more = {}) {
  Safetensors file;
  store(file, model, parameters, codecs);
  file.metadata.insert(more.begin(), more.end());
  save_safetensors(path, file);
}

/// Constructs the model of a file: any named model for NamedModel, else an M. `rewriter` constructs
/// the Rewriter of a tokenizer that has one. Throws if an entry is missing or invalid, or on
/// another model.
template <class M = NamedModel>
LoadedModel<M> load_from(const Safetensors& file, const text::RewriterFromJson& rewriter = {}) {
  constexpr bool any = std::is_same_v<M, NamedModel>;
  const char* name = "";
  if constexpr (!any) name = M::name;
  Codecs codecs = detail::codecs_of(file, name, rewriter);
  const Vocabularies sizes{codecs.source.vocabulary.size(), codecs.target.vocabulary.size()};
  const bool f64 = std::ranges::any_of(
      file.tensors, [](const auto& one) { return one.second.dtype() == DType::f64; });
  auto parameters = std::make_unique<nn::Parameters>(file, f64 ? DType::f64 : DType::f32);
  const auto made = [&]() -> M {
    if constexpr (any) {
      return {*parameters, detail::options_from(file.metadata), sizes};
    } else {
      auto options = typename M::Options();
      set_from(options, file.metadata);
      options.source_vocabulary = sizes.source, options.target_vocabulary = sizes.target;
      return {*parameters, options};
    }
  };
  M model = made();
  detail::require_used(file, *parameters);
  return {std::move(parameters), std::move(model), std::move(codecs),
          file.metadata,         file.checksum,    Shortlist::of(file, sizes.source, sizes.target)};
}

/// As load_from, from a path. Error messages begin with the path.
template <class M = NamedModel>
LoadedModel<M> load(const std::filesystem::path& path,
                    const text::RewriterFromJson& rewriter = {}) {
  const Safetensors file = load_safetensors(path);
  try {
    return load_from<M>(file, rewriter);
  } catch (const Error& error) {
    throw Error(utf8_path(path) + ": " + error.what());
  }
}

}  // namespace attune::models
