// Models of papers, by name.
#pragma once

#include <string_view>

#include <attune/models/seq2seq_options.hpp>

namespace attune::models {

/// A published model, as options to start from.
struct Preset {
  const char* name;
  const char* what;  // in a line, for --help
  Seq2SeqOptions options;
};

/// bahdanau, luong, conditional (the conditional GRU of Nematus), encoder-decoder and sutskever.
std::span<const Preset> presets();

/// Throws on a name that is none of them.
const Preset& preset(std::string_view name);

}  // namespace attune::models
