#include <attune/models/luong.hpp>

namespace attune::models {

Seq2SeqOptions seq2seq_options(const LuongOptions& o) {
  return {.source_vocabulary = o.source_vocabulary,
          .target_vocabulary = o.target_vocabulary,
          .embedding = o.embedding,
          .hidden = o.hidden,
          .encoder_layers = o.layers,
          .decoder_layers = o.layers,
          .encoder_cell = o.cell,
          .decoder_cell = o.cell,
          .reading = Reading::forward,
          .start = Start::last,
          .attend = Attend::after,
          .score = o.score,
          .attention = o.attention,
          .input_feeding = o.input_feeding,
          .readout_kind = ReadoutKind::attentional,
          .readout = o.hidden,
          .dropout = o.dropout};
}

}  // namespace attune::models
