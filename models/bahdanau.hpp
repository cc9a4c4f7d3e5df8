// The model that introduced attention: "Neural machine translation by jointly learning to align and
// translate" (Bahdanau, Cho and Bengio, 2014; arXiv 1409.0473).
#pragma once

#include <optional>

#include <attune/models/text/batches.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/bidirectional.hpp>
#include <attune/nn/dropout.hpp>
#include <attune/nn/embedding.hpp>
#include <attune/nn/linear.hpp>
#include <attune/nn/recurrent.hpp>

namespace attune::models {

/// Where the decoder starts: from zero, or from tanh(←h_1 W_s + b) as in the paper (A.2.2).
enum class Start { zero, bridge };

/// The layer g before the softmax: tanh, or maxout over pairs as in the paper (A.2.2).
enum class ReadoutKind { tanh, maxout };

/// Which decoder state the readout sees: s_i, or s_{i-1} as in the paper's appendix.
enum class ReadoutState { current, previous };

struct BahdanauOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;  // E
  Index hidden = 256;     // H, of each encoder direction and of the decoder
  Index attention = 256;  // A
  Index readout = 256;    // R
  nn::Cell encoder_cell = nn::Cell::gru;
  nn::Cell decoder_cell = nn::Cell::gru;
  Start start = Start::bridge;
  ReadoutKind readout_kind = ReadoutKind::maxout;
  ReadoutState readout_state = ReadoutState::current;
  double dropout = 0;  // on embeddings, annotations and readout
};

/// Bidirectional encoder, additive attention, and a decoder on [y_{i-1}; c_i].
///
/// | paper (A: appendix)                     | here       | parameter          | shape    |
/// |-----------------------------------------|------------|--------------------|----------|
/// | E x_j, E y_i (A.1.1)                    | embeddings | source.E, target.E | (V, E)   |
/// | h_j = [→h_j; ←h_j] (eq. 7)              | memory.h   | encoder.forward.*  | (E, 3H)  |
/// | s_0 = tanh(W_s ←h_1) (A.2.2)            | start()    | bridge.W, bridge.b | (H, H)   |
/// | e_ij = v_aᵀ tanh(W_a s_{i-1} + U_a h_j) | attention_ | attention.W_a      | (H, A)   |
/// |   (A.1.2)                               |            | attention.U_a      | (2H, A)  |
/// |                                         |            | attention.v_a      | (A)      |
/// | α_ij, c_i (eq. 6, 5)                    | weights, c |                    |          |
/// | s_i = f(s_{i-1}, y_{i-1}, c_i) (A.2.2): | decoder_   |                    |          |
/// |   W, W_z, W_r on E y_{i-1}              |            | decoder.W_x        | (E, 3H)  |
/// |   U, U_z, U_r on s_{i-1}                |            | decoder.W_h        | (H, 3H)  |
/// |   C, C_z, C_r on c_i                    | W_c_       | decoder.W_c        | (2H, 3H) |
/// | g: U_o s + V_o E y_{i-1} + C_o c_i     | readout()  | readout.U_o        | (H, 2R)  |
/// |   (A.2.2)                               |            | readout.V_o        | (E, 2R)  |
/// |                                         |            | readout.C_o        | (2H, 2R) |
/// | p(y_i) ∝ exp(W_o t_i) (A.2.2)           | logits()   | output.W, output.b | (R, V)   |
///
/// The paper's GRU has the reset gate before the product (Cell::gru_reset_before) and z turned
/// round; the default is the faster Cell::gru. With an LSTM, 3H is 4H; with a tanh readout, 2R is
/// R.
class Bahdanau {
 public:
  /// What a decoder carries from word to word; a value, so that a search may keep several.
  struct State {
    nn::RecurrentState cell;
    nn::Memory memory;
  };

  /// One word further.
  struct Step {
    Var readout;  // (B, R), for logits()
    Var weights;  // (S, B)
    State state;
  };

  /// All steps of a batch under its own target words.
  struct Forced {
    Var logits;   // (T, B, V)
    Var weights;  // (T, S, B)
  };

  /// Throws on sizes below 1 and on vocabularies that have nothing beside the four special tokens.
  Bahdanau(const nn::Scope& scope, const BahdanauOptions& options);

  /// source (S, B) i32, mask (S, B)
  State start(const Tensor& source, const Tensor& mask) const;

  /// previous (B) i32: the words written last, <s> at first
  Step step(const Tensor& previous, const State& state) const;

  /// (..., R) -> (..., V)
  Var logits(const Var& readout) const;

  /// The state with columns of the batch by number (i32), with repetition. Nothing is recorded.
  State select(const State& state, const Tensor& rows) const;

  Forced force(const text::Batch& batch) const;

  /// Mean cross-entropy of the target words, </s> included.
  Var loss(const text::Batch& batch) const;

  const BahdanauOptions& options() const { return options_; }

 private:
  struct Advance;
  struct Unrolled;
  Advance advance(const Var& yw, const State& state) const;
  Unrolled unroll(const text::Batch& batch) const;
  Var readout(const Var& y, const Var& s, const Var& c) const;

  BahdanauOptions options_;
  nn::Embedding source_, target_;
  nn::Bidirectional<nn::Recurrent> encoder_;
  std::optional<nn::Linear> bridge_;
  nn::Attention attention_;
  nn::Recurrent decoder_;
  Var W_c_;                    // (2H, gates · H)
  Var U_o_, V_o_, C_o_, b_o_;  // (H, R), (E, R), (2H, R), (R); 2R with maxout
  nn::Linear output_;
  nn::Dropout dropout_;
};

}  // namespace attune::models
