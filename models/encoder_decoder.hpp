// Encoder and decoder without attention: the baseline.
#pragma once

#include <attune/models/seq2seq.hpp>

namespace attune::models {

/// How the one vector reaches the decoder.
enum class Bottleneck {
  first_state,  // as its first state alone, of a reversed source (Sutskever et al., 2014)
  every_step,   // as its first state, and as the context of every step (Cho et al., 2014)
};

struct EncoderDecoderOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;          // E
  Index hidden = 256;             // H
  Index layers = 1;               // of the encoder and of the decoder; Sutskever et al. have 4
  Index readout = 256;            // R
  nn::Cell cell = nn::Cell::gru;  // Sutskever et al. have the LSTM
  Bottleneck bottleneck = Bottleneck::every_step;
  double dropout = 0;  // on embeddings, between layers and on the readout
};

/// The same in terms of the general model, to be changed further.
Seq2SeqOptions seq2seq_options(const EncoderDecoderOptions& options);

/// Everything the decoder knows of the source is the encoder's last state v.
///
/// first_state: "Sequence to sequence learning with neural networks" (Sutskever, Vinyals and Le,
/// 2014).
///
/// | paper (section 2)                         | here                | parameter            |
/// |-------------------------------------------|---------------------|----------------------|
/// | v, after the source was read from its end | Reading::backward   | encoder.layer1.* ... |
/// | the decoder's first state is v            | Start::last         |                      |
/// | p(y_t \| v, y_1 .. y_{t-1})                | logits() of the top | output.W, output.b   |
///
/// every_step: "Learning phrase representations using RNN encoder-decoder" (Cho et al., 2014; A.1).
///
/// | paper (appendix A)                      | here        | parameter          | shape   |
/// |-----------------------------------------|-------------|--------------------|---------|
/// | c = tanh(V h_N): here h_N itself        | context     | encoder.layer1.*   | (E, 3H) |
/// | h'_0 = tanh(V' c)                       | start()     | bridge.W, bridge.b | (H, H)  |
/// | C c, C_z c, C_r c in every gate         | share       | decoder.W_c        | (H, 3H) |
/// | s'_t = O_h h'_t + O_y y_{t-1} + O_c c   | readout_    | readout.U_o        | (H, 2R) |
/// |                                         |             | readout.V_o        | (E, 2R) |
/// |                                         |             | readout.C_o        | (H, 2R) |
/// | maxout over pairs of s'_t, then softmax | logits()    | output.W, output.b | (R, V)  |
///
/// The readout of first_state is tanh(h_t W_c), one layer more than the paper has.
class EncoderDecoder : public Seq2Seq {
 public:
  EncoderDecoder(const nn::Scope& scope, const EncoderDecoderOptions& options)
      : Seq2Seq(scope, seq2seq_options(options)) {}
};

}  // namespace attune::models
