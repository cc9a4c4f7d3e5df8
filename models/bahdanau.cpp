#include <attune/models/bahdanau.hpp>

namespace attune::models {

Seq2SeqOptions seq2seq_options(const BahdanauOptions& o) {
  return {.source_vocabulary = o.source_vocabulary,
          .target_vocabulary = o.target_vocabulary,
          .embedding = o.embedding,
          .hidden = o.hidden,
          .encoder_cell = o.encoder_cell,
          .decoder_cell = o.decoder_cell,
          .reading = Reading::bidirectional,
          .start = o.start,
          .attend = Attend::before,
          .score = {.kind = nn::ScoreKind::additive, .attention = o.attention},
          .readout_kind = o.readout_kind,
          .readout_state = o.readout_state,
          .readout = o.readout,
          .dropout = o.dropout};
}

}  // namespace attune::models
