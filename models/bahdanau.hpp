// The model that introduced attention: "Neural machine translation by jointly learning to align and
// translate" (Bahdanau, Cho and Bengio, 2014; arXiv 1409.0473).
#pragma once

#include <attune/models/seq2seq.hpp>

namespace attune::models {

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

/// The same in terms of the general model, to be changed further.
Seq2SeqOptions seq2seq_options(const BahdanauOptions& options);

/// Bidirectional encoder, additive attention, and a decoder on [y_{i-1}; c_i].
///
/// | paper (A: appendix)                     | here       | parameter                | shape    |
/// |-----------------------------------------|------------|--------------------------|----------|
/// | E x_j, E y_i (A.1.1)                    | embeddings | source.E, target.E       | (V, E)   |
/// | h_j = [→h_j; ←h_j] (eq. 7)              | memory.h   | encoder.layer1.forward.* | (E, 3H)  |
/// | s_0 = tanh(W_s ←h_1) (A.2.2)            | start()    | bridge.W, bridge.b       | (H, H)   |
/// | e_ij = v_aᵀ tanh(W_a s_{i-1} + U_a h_j) | attention_ | attention.W_a            | (H, A)   |
/// |   (A.1.2)                               |            | attention.U_a            | (2H, A)  |
/// |                                         |            | attention.v_a            | (A)      |
/// | α_ij, c_i (eq. 6, 5)                    | weights, c |                          |          |
/// | s_i = f(s_{i-1}, y_{i-1}, c_i) (A.2.2): | decoder_   |                          |          |
/// |   W, W_z, W_r on E y_{i-1}              |            | decoder.layer1.W_x       | (E, 3H)  |
/// |   U, U_z, U_r on s_{i-1}                |            | decoder.layer1.W_h       | (H, 3H)  |
/// |   C, C_z, C_r on c_i                    | W_c_       | decoder.W_c              | (2H, 3H) |
/// | t: U_o s + V_o E y_{i-1} + C_o c_i     | readout_   | readout.U_o              | (H, 2R)  |
/// |   (A.2.2)                               |            | readout.V_o              | (E, 2R)  |
/// |                                         |            | readout.C_o              | (2H, 2R) |
/// | p(y_i) ∝ exp(W_o t_i) (A.2.2)           | logits()   | output.W, output.b       | (R, V)   |
///
/// The paper's GRU has the reset gate before the product (Cell::gru_reset_before) and z turned
/// round; the default is the faster Cell::gru. With an LSTM, 3H is 4H; with a tanh readout, 2R is
/// R.
class Bahdanau : public Seq2Seq {
 public:
  Bahdanau(const nn::Scope& scope, const BahdanauOptions& options)
      : Seq2Seq(scope, seq2seq_options(options)) {}
};

}  // namespace attune::models
