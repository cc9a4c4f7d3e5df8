#include "variants.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <attune/models/presets.hpp>
#include <attune/tensor/check.hpp>

namespace attune::long_sentences {

std::span<const Variant> variants() {
  static const std::vector<Variant> all = {
      {"encoder-decoder", "encoder-decoder"},
      {"sutskever", "sutskever"},
      {"bahdanau", "bahdanau"},
      {"conditional", "conditional"},
      {"luong-dot", "luong", {{"score", "dot"}}},
      {"luong-scaled-dot", "luong", {{"score", "scaled-dot"}}},
      {"luong-general", "luong", {{"score", "general"}}},
      {"luong-concat", "luong", {{"score", "concat"}}},
      {"luong-location", "luong", {{"score", "location"}}},
      {"luong-cosine", "luong", {{"score", "cosine"}}},
      {"luong-multi-head", "luong", {{"score", "multi-head"}}},
      {"luong-local-m", "luong", {{"window", "local-m"}}},
      {"luong-local-p", "luong", {{"window", "local-p"}}},
      {"luong-local-p-20", "luong", {{"window", "local-p"}, {"half-width", "20"}}},
      {"luong-sparsemax", "luong", {{"normalizer", "sparsemax"}}},
  };
  return all;
}

const Variant& variant(std::string_view name) {
  std::string names;
  for (const Variant& one : variants()) {
    if (name == one.name) return one;
    names += names.empty() ? one.name : fmt::format(", {}", one.name);
  }
  fail("--variants", fmt::format("'{}' is not one of {}", name, names));
}

models::Seq2SeqOptions options_of(const Variant& variant, Index hidden, Index longest) {
  models::Seq2SeqOptions o = models::preset(variant.preset).options;
  o.hidden = o.readout = hidden;
  o.embedding = o.score.attention = std::max<Index>(1, hidden / 2);
  o.encoder_layers = o.decoder_layers = 1;
  o.score.longest = longest;
  for (const auto& [name, value] : variant.changes) models::set(o, name, value);
  return o;
}

}  // namespace attune::long_sentences
