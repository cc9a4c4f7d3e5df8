#include <fmt/format.h>

#include <attune/models/bahdanau.hpp>
#include <attune/models/encoder_decoder.hpp>
#include <attune/models/luong.hpp>
#include <attune/models/presets.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {
namespace {

/// Sennrich et al. (2017), "Nematus: a toolkit for neural machine translation", section 3.
Seq2SeqOptions conditional() {
  Seq2SeqOptions o = seq2seq_options(BahdanauOptions{});
  o.start = Start::mean;
  o.attend = Attend::between;
  o.readout_kind = ReadoutKind::tanh;
  return o;
}

}  // namespace

std::span<const Preset> presets() {
  static const std::vector<Preset> all = {
      {"bahdanau", "attends before the cell, additive (Bahdanau et al., 2014)",
       seq2seq_options(BahdanauOptions{})},
      {"luong", "attends after the cell, general, input feeding (Luong et al., 2015)",
       seq2seq_options(LuongOptions{})},
      {"conditional", "attends between two GRU cells, additive (Nematus, 2017)", conditional()},
      {"encoder-decoder", "no attention: the last state at every step (Cho et al., 2014)",
       seq2seq_options(EncoderDecoderOptions{})},
      {"sutskever", "no attention: the last state of a reversed source (Sutskever et al., 2014)",
       seq2seq_options(
           EncoderDecoderOptions{.cell = nn::Cell::lstm, .bottleneck = Bottleneck::first_state})}};
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
