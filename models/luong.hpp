// "Effective approaches to attention-based neural machine translation" (Luong, Pham and Manning,
// 2015; arXiv 1508.04025).
#pragma once

#include <optional>

#include <attune/models/decoder.hpp>
#include <attune/models/parts.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/recurrent.hpp>

namespace attune::models {

struct LuongOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;  // E
  Index hidden = 256;     // H, of every layer and of h̃
  Index layers = 2;       // of the encoder and of the decoder
  nn::Cell cell = nn::Cell::lstm;
  nn::ScoreOptions score = {.kind = "general"};
  nn::AttentionOptions attention = {};  // window, and softmax or sparsemax
  bool input_feeding = true;            // whether h̃ is read with the next word
  double dropout = 0;                   // on embeddings, between layers, on annotations and on h̃
};

/// A stacked decoder that starts from the encoder's last states and attends with its new state.
///
/// | paper                                    | here             | parameter          | shape   |
/// |------------------------------------------|------------------|--------------------|---------|
/// | word vectors                             | encode(), read() | source.E, target.E | (V, E)  |
/// | h̄_s, top states of the encoder (sec. 3)  | encode()         | encoder.layer1.* ..|         |
/// | h_t, top state of the decoder (sec. 3)   | step()           | decoder.layer1.* ..|         |
/// | h̃_{t-1} as a further input (sec. 3.3)    | W_feed_          | decoder.W_feed     | (H, 4H) |
/// | α_t(s) (eq. 7 and 8), p_t (eq. 9 and 10) | attention_       | attention.W_a, ... |         |
/// | c_t, weighted average of h̄_s (sec. 3.1)  | step()           |                    | (B, H)  |
/// | h̃_t = tanh(W_c [c_t; h_t]) (eq. 5)       | step()           | readout.W_c        | (2H, H) |
/// | p(y_t) = softmax(W_s h̃_t) (eq. 6)        | logits()         | output.W, output.b | (H, V)  |
///
/// With a GRU, 4H is 3H. The paper's output has no bias; here it has one.
class LuongDecoder {
 public:
  using Options = LuongOptions;
  struct State {
    nn::Memory memory;
    nn::Past past;
    std::vector<nn::RecurrentState> layers;  // the lowest first
    Var h_tilde;                             // (B, H)
  };
  using Output = Var;  // h̃_t (B, H)
  using Step = DecoderStep<Output, State>;

  /// Last states of the source are of size H. With the score of the options, or attention of your
  /// own.
  LuongDecoder(const nn::Scope& scope, const LuongOptions& options, EncodedSizes source,
               std::optional<nn::Attention> attention = {});

  State start(const Encoded& source) const;
  /// (T, B, gates · H): what the words add to the lowest layer's gates
  Var read(const Tensor& previous) const;
  Step step(const Var& share, const State& before) const;
  AffineLogits logits(const Var& shares, const std::vector<Var>& h_tilde) const;
  State select(const State& state, const Tensor& rows) const;

 private:
  WordVectors target_;
  nn::Attention attention_;
  nn::Stacked<nn::Recurrent> decoder_;
  Var W_feed_;  // (H, 4H), with input feeding
  Var W_c_;     // (D + H, H)
  nn::Linear output_;
  nn::Dropout dropout_;
};

/// With an encoder of words, which reads from the left.
using Luong = WithEncoder<LuongDecoder>;

}  // namespace attune::models
