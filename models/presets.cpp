#include <fmt/format.h>

#include <attune/models/presets.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {
namespace {

/// Defaults are those of Bahdanau et al. (2014).
Seq2SeqOptions bahdanau() { return {}; }

Seq2SeqOptions luong() {
  Seq2SeqOptions o;
  o.encoder_layers = o.decoder_layers = 2;
  o.encoder_cell = o.decoder_cell = nn::Cell::lstm;
  o.reading = Reading::forward;
  o.start = Start::last;
  o.attend = Attend::after;
  o.score.kind = "general";
  o.input_feeding = InputFeeding::yes;
  o.readout_kind = ReadoutKind::attentional;
  return o;
}

Seq2SeqOptions conditional() {
  Seq2SeqOptions o;
  o.start = Start::mean;
  o.attend = Attend::between;
  o.readout_kind = ReadoutKind::tanh;
  return o;
}

Seq2SeqOptions encoder_decoder() {
  Seq2SeqOptions o;
  o.reading = Reading::forward;
  o.attend = Attend::last_state;
  return o;
}

Seq2SeqOptions sutskever() {
  Seq2SeqOptions o;
  o.encoder_cell = o.decoder_cell = nn::Cell::lstm;
  o.reading = Reading::backward;
  o.start = Start::last;
  o.attend = Attend::never;
  o.readout_kind = ReadoutKind::attentional;
  return o;
}

}  // namespace

std::span<const Preset> presets() {
  static const std::vector<Preset> all = {
      {"bahdanau", "attends before the cell, additive (Bahdanau et al., 2014)", bahdanau()},
      {"luong", "attends after the cell, general, input feeding (Luong et al., 2015)", luong()},
      {"conditional", "attends between two GRU cells, additive (Nematus, 2017)", conditional()},
      {"encoder-decoder", "no attention: the last state at every step (Cho et al., 2014)",
       encoder_decoder()},
      {"sutskever", "no attention: the last state of a reversed source (Sutskever et al., 2014)",
       sutskever()}};
  return all;
}

const Preset& preset(std::string_view name) {
  std::string names;
  for (const Preset& one : presets()) {
    if (name == one.name) return one;
    names += names.empty() ? one.name : fmt::format(", {}", one.name);
  }
  fail("model", fmt::format("'{}' is not one of {}", name, names));
}

}  // namespace attune::models
