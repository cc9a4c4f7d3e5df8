// The model that introduced attention: "Neural machine translation by jointly learning to align and
// translate" (Bahdanau, Cho and Bengio, 2014; arXiv 1409.0473).
#pragma once

#include <optional>

#include <attune/models/parts.hpp>

namespace attune::models {

struct BahdanauOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;          // E
  Index hidden = 256;             // H, of each encoder direction and of the decoder
  Index attention = 256;          // A
  Index readout = 256;            // R
  nn::Cell cell = nn::Cell::gru;  // of encoder and decoder
  double dropout = 0;             // on embeddings, annotations and readout
};

/// A decoder on [y_{i-1}; c_i], of annotations from any encoder.
///
/// | paper (A: appendix)                     | here       | parameter                | shape    |
/// |-----------------------------------------|------------|--------------------------|----------|
/// | E x_j, E y_i (A.1.1)                    | encode(), read() | source.E, target.E | (V, E)   |
/// | h_j = [→h_j; ←h_j] (eq. 7)              | encode()   | encoder.layer1.forward.* | (E, 3H)  |
/// | s_0 = tanh(W_s ←h_1) (A.2.2)            | start()    | bridge.W, bridge.b       | (H, H)   |
/// | e_ij = v_aᵀ tanh(W_a s_{i-1} + U_a h_j) | attention_ | attention.W_a            | (H, A)   |
/// |   (A.1.2)                               |            | attention.U_a            | (2H, A)  |
/// |                                         |            | attention.v_a            | (A)      |
/// | α_ij, c_i (eq. 6, 5)                    | step()     |                          |          |
/// | s_i = f(s_{i-1}, y_{i-1}, c_i) (A.2.2): | step()     |                          |          |
/// |   W, W_z, W_r on E y_{i-1}              |            | decoder.layer1.W_x       | (E, 3H)  |
/// |   U, U_z, U_r on s_{i-1}                |            | decoder.layer1.W_h       | (H, 3H)  |
/// |   C, C_z, C_r on c_i                    | C_         | decoder.W_c              | (2H, 3H) |
/// | t_i: U_o s_i + V_o E y_{i-1} + C_o c_i  | logits()   | readout.U_o              | (H, 2R)  |
/// |   (A.2.2, there with s_{i-1})           |            | readout.V_o              | (E, 2R)  |
/// |                                         |            | readout.C_o              | (2H, 2R) |
/// | p(y_i) ∝ exp(W_o t_i) (A.2.2)           | logits()   | output.W, output.b       | (R, V)   |
///
/// The paper's GRU has the reset gate before the product (Cell::gru_reset_before) and z turned
/// round; the default is the faster Cell::gru. With an LSTM, 3H is 4H.
class BahdanauDecoder {
 public:
  using State = AttendingState;
  using Words = ReadWords;
  struct Output {
    Var s, c;
  };
  using Step = DecoderStep<Output, State>;

  BahdanauDecoder(const nn::Scope& scope, const BahdanauOptions& options, EncodedSizes source,
                  nn::Attention attention);

  State start(const Encoded& source) const;
  Words read(const Tensor& previous) const;
  Step step(const Var& share, const State& before) const;
  AffineLogits logits(const Words& words, const std::vector<Output>& outputs) const;
  State select(const State& state, const Tensor& rows) const { return models::select(state, rows); }

 private:
  WordVectors target_;
  nn::Linear bridge_;
  nn::Attention attention_;
  nn::Recurrent cell_;
  Var C_;  // (D, 3H)
  DeepOutput readout_;
  nn::Linear output_;
  nn::Dropout dropout_;
};

/// Additive, over the annotations of that encoder, with the parameters "attention.*".
nn::Attention additive_attention(const nn::Scope& scope, const BahdanauOptions& options);

/// With its encoder, and additive attention or one of your own.
class Bahdanau : public BahdanauDecoder {
 public:
  Bahdanau(const nn::Scope& scope, const BahdanauOptions& options,
           std::optional<nn::Attention> attention = {});

  Encoded encode(const Tensor& source, const Tensor& mask) const { return encoder_(source, mask); }

 private:
  BidirectionalWords encoder_;
};

}  // namespace attune::models
