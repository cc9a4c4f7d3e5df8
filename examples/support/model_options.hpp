// What a network is made of, as a program's options and checkpoints say it.
#pragma once

#include <initializer_list>
#include <span>
#include <string>

#include <attune/models/option_field.hpp>
#include <attune/models/seq2seq_options.hpp>
#include <attune/nn/checkpoint.hpp>

#include "support/checkpoint.hpp"

namespace attune {

/// A published model by name, and what was changed of it.
struct ModelOptions {
  std::string name;
  models::Seq2SeqOptions network;
};

/// As the metadata of a checkpoint: "hidden" -> "64".
inline Metadata to_map(const ModelOptions& options) {
  auto map = models::to_map(options.network);
  map["model"] = options.name;
  return map;
}

/// Throws when an entry is missing or not understood.
inline ModelOptions model_options_from(const Metadata& metadata) {
  return {nn::load_text(metadata, "model"), models::seq2seq_options_from(metadata)};
}

/// Throws an Error that names the first option which a resumed run may not change: the model's name
/// before all that depends on it, and none of those that are `free`. `operation` is what the error
/// begins with.
template <class Options>
void check_same_training(const char* operation, const Options& stored, const Options& given,
                         std::span<const models::OptionField<Options>> fields,
                         std::initializer_list<const char*> free) {
  const std::filesystem::path last = given.out / "last.safetensors";
  check_same(operation, last, {{"model", stored.model.name}}, {{"model", given.model.name}});
  Metadata before = models::fields_to_map(fields, stored),
           after = models::fields_to_map(fields, given);
  before.merge(to_map(stored.model)), after.merge(to_map(given.model));
  for (const char* name : free) after[name] = before[name];
  check_same(operation, last, before, after);
}

}  // namespace attune
