// The models that are compared.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <attune/models/seq2seq_options.hpp>

namespace attune::long_sentences {

/// A published model and what is changed of it, in the names of models::seq2seq_fields().
struct Variant {
  std::string name;
  std::string preset;
  std::vector<std::pair<std::string, std::string>> changes = {};
};

/// All of them, those without attention first.
std::span<const Variant> variants();

/// Throws on a name that is none of them.
const Variant& variant(std::string_view name);

/// One layer of `hidden` units in every model, half as many in word vectors and in the scores'
/// hidden layer; a multiple of 8, for the heads. A source has `longest` words at most.
models::Seq2SeqOptions options_of(const Variant& variant, Index hidden, Index longest);

}  // namespace attune::long_sentences
