#include <attune/models/encoder_decoder.hpp>

namespace attune::models {

Seq2SeqOptions seq2seq_options(const EncoderDecoderOptions& o) {
  const bool every_step = o.bottleneck == Bottleneck::every_step;
  return {.source_vocabulary = o.source_vocabulary,
          .target_vocabulary = o.target_vocabulary,
          .embedding = o.embedding,
          .hidden = o.hidden,
          .encoder_layers = o.layers,
          .decoder_layers = o.layers,
          .encoder_cell = o.cell,
          .decoder_cell = o.cell,
          .reading = every_step ? Reading::forward : Reading::backward,
          .start = every_step ? Start::bridge : Start::last,
          .attend = every_step ? Attend::last_state : Attend::never,
          .readout_kind = every_step ? ReadoutKind::maxout : ReadoutKind::attentional,
          .readout = o.readout,
          .dropout = o.dropout};
}

}  // namespace attune::models
