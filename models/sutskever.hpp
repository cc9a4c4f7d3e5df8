// "Sequence to sequence learning with neural networks" (Sutskever, Vinyals and Le, 2014; arXiv
// 1409.3215).
#pragma once

#include <attune/models/decoder.hpp>
#include <attune/models/parts.hpp>
#include <attune/nn/recurrent.hpp>

namespace attune::models {

struct SutskeverOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;           // E
  Index hidden = 256;              // H
  Index layers = 1;                // of the encoder and of the decoder; the paper has 4
  Index readout = 256;             // R
  nn::Cell cell = nn::Cell::lstm;  // of encoder and decoder
  double dropout = 0;              // on embeddings, between layers and on the readout
};

/// The last states of the encoder, which reads the source from its end, are the decoder's first
/// ones; there is no attention, and no context.
///
/// | paper (section 2 and 3.3)                | here             | parameter            |
/// |------------------------------------------|------------------|----------------------|
/// | word vectors                             | encode(), read() | source.E, target.E   |
/// | v, after the source was read from its end| encode()         | encoder.layer1.* ... |
/// | the decoder's first state is v           | start()          |                      |
/// | p(y_t | v, y_1 .. y_{t-1})               | logits()         | output.W, output.b   |
///
/// tanh(h_t W_c), readout.W_c of (H, R), comes before the softmax, which the paper does not have.
class Sutskever {
 public:
  using State = std::vector<nn::RecurrentState>;  // of the layers, the lowest first
  using Output = Var;                             // (B, H)
  using Step = DecoderStep<Output, State>;

  Sutskever(const nn::Scope& scope, const SutskeverOptions& options);

  /// source (S, B) i32, mask (S, B)
  Encoded encode(const Tensor& source, const Tensor& mask) const;
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
  WordVectors source_, target_;
  nn::Stacked<nn::Recurrent> encoder_, decoder_;
  Var W_c_;  // (H, R)
  nn::Linear output_;
  nn::Dropout dropout_;
};

}  // namespace attune::models
