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
class LastStateDecoder {
 public:
  struct State {
    Var c, share;  // c, and C c
    nn::RecurrentState h;
  };
  using Words = ReadWords;
  struct Output {
    Var h, c;
  };
  using Step = DecoderStep<Output, State>;

  /// Of the last states of any encoder.
  LastStateDecoder(const nn::Scope& scope, const EncoderDecoderOptions& options,
                   EncodedSizes source);

  State start(const Encoded& source) const;
  Words read(const Tensor& previous) const;
  Step step(const Var& share, const State& before) const;
  AffineLogits logits(const Words& words, const std::vector<Output>& outputs) const;
  State select(const State& state, const Tensor& rows) const;

 private:
  WordVectors target_;
  nn::Linear bridge_;
  nn::Recurrent cell_;
  Var C_;  // (source.last, 3H)
  DeepOutput readout_;
  nn::Linear output_;
  nn::Dropout dropout_;
};

/// With its encoder.
class EncoderDecoder : public LastStateDecoder {
 public:
  EncoderDecoder(const nn::Scope& scope, const EncoderDecoderOptions& options);

  /// source (S, B) i32, mask (S, B)
  Encoded encode(const Tensor& source, const Tensor& mask) const;

 private:
  WordVectors source_;
  nn::Recurrent encoder_;
};

}  // namespace attune::models
