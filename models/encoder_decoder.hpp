// Encoders and decoders without attention: all that the decoder knows of the source is the
// encoder's last state.
#pragma once

#include <attune/models/decoder.hpp>
#include <attune/models/parts.hpp>
#include <attune/nn/recurrent.hpp>

namespace attune::models {

struct EncoderDecoderOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;          // E
  Index hidden = 256;             // H
  Index readout = 256;            // R
  nn::Cell cell = nn::Cell::gru;  // of encoder and decoder
  double dropout = 0;             // on embeddings and on the readout
};

/// "Learning phrase representations using RNN encoder-decoder" (Cho et al., 2014; A.1): the last
/// state is the decoder's first state, and the context of every step.
///
/// | paper (appendix A)                      | here             | parameter          | shape   |
/// |-----------------------------------------|------------------|--------------------|---------|
/// | word vectors                            | encode(), read() | source.E, target.E | (V, E)  |
/// | c = tanh(V h_N): here h_N itself        | encode()         | encoder.layer1.*   | (E, 3H) |
/// | h'_0 = tanh(V' c)                       | start()          | bridge.W, bridge.b | (H, H)  |
/// | C c, C_z c, C_r c in every gate         | start()          | decoder.W_c        | (H, 3H) |
/// | h'_t                                    | step()           | decoder.layer1.*   | (E, 3H) |
/// | s'_t = O_h h'_t + O_y y_{t-1} + O_c c   | logits()         | readout.U_o        | (H, 2R) |
/// |                                         |                  | readout.V_o        | (E, 2R) |
/// |                                         |                  | readout.C_o        | (H, 2R) |
/// | maxout over pairs of s'_t, then softmax | logits()         | output.W, output.b | (R, V)  |
class LastStateDecoder : public OneLayerDecoder {
 public:
  using Options = EncoderDecoderOptions;
  struct State {
    Var c, share;  // c, and C c
    nn::RecurrentState h;
  };
  using Step = DecoderStep<Output, State>;

  /// Of the last states of any encoder.
  LastStateDecoder(const nn::Scope& scope, const EncoderDecoderOptions& options,
                   EncodedSizes source);

  State start(const Encoded& source) const;
  Step step(const Var& share, const State& before) const;
  State select(const State& state, const Tensor& rows) const;

 private:
  Var C_;  // (source.last, 3H)
};

/// With an encoder of words, which reads from the left.
using EncoderDecoder = WithEncoder<LastStateDecoder>;

struct SutskeverOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;           // E
  Index hidden = 256;              // H
  Index layers = 1;                // of the encoder and of the decoder; the paper has 4
  Index readout = 256;             // R
  nn::Cell cell = nn::Cell::lstm;  // of encoder and decoder
  double dropout = 0;              // on embeddings, between layers and on the readout
};

/// "Sequence to sequence learning with neural networks" (Sutskever, Vinyals and Le, 2014; arXiv
/// 1409.3215). The last states of the encoder, which reads the source from its end, are the
/// decoder's first ones; there is no attention, and no context.
///
/// | paper (section 2 and 3.3)                | here             | parameter            |
/// |------------------------------------------|------------------|----------------------|
/// | word vectors                             | encode(), read() | source.E, target.E   |
/// | v, after the source was read from its end| encode()         | encoder.layer1.* ... |
/// | the decoder's first state is v           | start()          |                      |
/// | p(y_t | v, y_1 .. y_{t-1})               | logits()         | output.W, output.b   |
///
/// tanh(h_t W_c), readout.W_c of (H, R), comes before the softmax, which the paper does not have.
class SutskeverDecoder {
 public:
  using Options = SutskeverOptions;
  using State = std::vector<nn::RecurrentState>;  // of the layers, the lowest first
  using Output = Var;                             // (B, H)
  using Step = DecoderStep<Output, State>;

  /// Last states of the source are of size H.
  SutskeverDecoder(const nn::Scope& scope, const SutskeverOptions& options, EncodedSizes source);

  State start(const Encoded& source) const {
    last_state(source, "Sutskever");  // it knows nothing else of the source
    return source.last;
  }
  /// (T, B, gates · H): what the words add to the lowest layer's gates
  Var read(const Tensor& previous) const { return decoder_.input(target_(previous)); }
  Step step(const Var& share, const State& before) const;
  AffineLogits logits(const Var& shares, const std::vector<Var>& h) const;
  State select(const State& state, const Tensor& rows) const { return nn::select(state, rows); }

 private:
  WordVectors target_;
  nn::Stacked<nn::Recurrent> decoder_;
  Var W_c_;  // (H, R)
  nn::Linear output_;
  nn::Dropout dropout_;
};

using Sutskever = WithEncoder<SutskeverDecoder, nn::Recurrent, Direction::backward>;

}  // namespace attune::models
