// "Effective approaches to attention-based neural machine translation" (Luong, Pham and Manning, 2015;
// arXiv 1508.04025).
#pragma once

#include <attune/models/text/batches.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/dropout.hpp>
#include <attune/nn/embedding.hpp>
#include <attune/nn/linear.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/nn/score_kind.hpp>
#include <attune/nn/stacked.hpp>

namespace attune::models {

/// Whether the decoder reads the attentional vector of the word before (section 3.3).
enum class InputFeeding { no, yes };

struct LuongOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;  // E
  Index hidden = 256;     // H, of every layer
  Index layers = 2;       // of the encoder and of the decoder
  nn::Cell cell = nn::Cell::lstm;
  nn::ScoreOptions score = {.kind = nn::ScoreKind::general};
  nn::AttentionOptions attention = {};  // window, and softmax or sparsemax
  InputFeeding input_feeding = InputFeeding::yes;
  double dropout = 0;  // on embeddings, between layers and on the attentional vector
};

/// A stacked encoder that reads from the left, a stacked decoder that starts from its last states, and
/// attention with the decoder's new state.
///
/// | paper                                      | here        | parameter                | shape   |
/// |--------------------------------------------|-------------|--------------------------|---------|
/// | word vectors                               | embeddings  | source.E, target.E       | (V, E)  |
/// | h̄_s, top states of the encoder (sec. 3)    | memory.h    | encoder.layer1.* ...     |         |
/// | h_t, top state of the decoder (sec. 3)     | decoder_    | decoder.layer1.* ...     |         |
/// | h̃_{t-1} as a further input (sec. 3.3)      | W_feed_     | decoder.W_feed           | (H, 4H) |
/// | α_t(s) (eq. 7 and 8), p_t (eq. 9 and 10)   | attention_  | attention.W_a, W_p ...   |         |
/// | c_t, weighted average of h̄_s (sec. 3.1)    | context     |                          | (B, H)  |
/// | h̃_t = tanh(W_c [c_t; h_t]) (eq. 5)         | readout     | attention.W_c            | (2H, H) |
/// | p(y_t) = softmax(W_s h̃_t) (eq. 6)          | logits()    | output.W, output.b       | (H, V)  |
///
/// With a GRU, 4H is 3H. The paper's output has no bias; here it has one.
class Luong {
 public:
  /// What a decoder carries from word to word; a value, so that a search may keep several.
  struct State {
    std::vector<nn::RecurrentState> layers;
    Var attentional;  // h̃ (B, H)
    nn::Memory memory;
    Index step = 0;  // words written
  };

  /// One word further.
  struct Step {
    Var readout;  // h̃ (B, H), for logits()
    Var weights;  // (S, B), or (heads, S, B)
    State state;
  };

  /// All steps of a batch under its own target words.
  struct Forced {
    Var logits;   // (T, B, V)
    Var weights;  // (T, S, B), or (T, heads, S, B)
  };

  /// Throws on sizes below 1 and on vocabularies that have nothing beside the four special tokens.
  Luong(const nn::Scope& scope, const LuongOptions& options);

  /// source (S, B) i32, mask (S, B)
  State start(const Tensor& source, const Tensor& mask) const;

  /// previous (B) i32: the words written last, <s> at first
  Step step(const Tensor& previous, const State& state) const;

  /// (..., H) -> (..., V)
  Var logits(const Var& readout) const;

  /// The state with columns of the batch by number (i32), with repetition. Nothing is recorded.
  State select(const State& state, const Tensor& rows) const;

  Forced force(const text::Batch& batch) const;

  /// Mean cross-entropy of the target words, </s> included.
  Var loss(const text::Batch& batch) const;

  const LuongOptions& options() const { return options_; }

 private:
  struct Unrolled;
  Step advance(const Var& yw, const State& state) const;
  Unrolled unroll(const text::Batch& batch) const;

  LuongOptions options_;
  nn::Embedding source_, target_;
  nn::Stacked<nn::Recurrent> encoder_, decoder_;
  Var W_feed_;  // (H, gates · H), undefined without input feeding
  nn::Attention attention_;
  Var W_c_;  // (2H, H)
  nn::Linear output_;
  nn::Dropout dropout_;
};

}  // namespace attune::models
