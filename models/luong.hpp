// "Effective approaches to attention-based neural machine translation" (Luong, Pham and Manning,
// 2015; arXiv 1508.04025).
#pragma once

#include <attune/models/seq2seq.hpp>

namespace attune::models {

struct LuongOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;  // E
  Index hidden = 256;     // H, of every layer and of h̃
  Index layers = 2;       // of the encoder and of the decoder
  nn::Cell cell = nn::Cell::lstm;
  nn::ScoreOptions score = {.kind = nn::ScoreKind::general};
  nn::AttentionOptions attention = {};  // window, and softmax or sparsemax
  InputFeeding input_feeding = InputFeeding::yes;
  double dropout = 0;  // on embeddings, between layers, on annotations and on h̃
};

/// The same in terms of the general model, to be changed further.
Seq2SeqOptions seq2seq_options(const LuongOptions& options);

/// A stacked encoder that reads from the left, a stacked decoder that starts from its last states,
/// and attention with the decoder's new state.
///
/// | paper                                    | here       | parameter              | shape   |
/// |------------------------------------------|------------|------------------------|---------|
/// | word vectors                             | embeddings | source.E, target.E     | (V, E)  |
/// | h̄_s, top states of the encoder (sec. 3)  | memory.h   | encoder.layer1.* ...   |         |
/// | h_t, top state of the decoder (sec. 3)   | decoder_   | decoder.layer1.* ...   |         |
/// | h̃_{t-1} as a further input (sec. 3.3)    | W_feed_    | decoder.W_feed         | (H, 4H) |
/// | α_t(s) (eq. 7 and 8), p_t (eq. 9 and 10) | attention_ | attention.W_a, W_p ... |         |
/// | c_t, weighted average of h̄_s (sec. 3.1)  | context    |                        | (B, H)  |
/// | h̃_t = tanh(W_c [c_t; h_t]) (eq. 5)       | readout_   | readout.W_c            | (2H, H) |
/// | p(y_t) = softmax(W_s h̃_t) (eq. 6)        | logits()   | output.W, output.b     | (H, V)  |
///
/// With a GRU, 4H is 3H. The paper's output has no bias; here it has one.
class Luong : public Seq2Seq {
 public:
  Luong(const nn::Scope& scope, const LuongOptions& options)
      : Seq2Seq(scope, seq2seq_options(options)) {}
};

}  // namespace attune::models
