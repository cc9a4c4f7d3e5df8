// The model that introduced attention: "Neural machine translation by jointly learning to align and
// translate" (Bahdanau, Cho and Bengio, 2014; arXiv 1409.0473), and the conditional GRU of Nematus.
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

/// Base of the decoders of one layer with attention.
class AttendingDecoder : public OneLayerDecoder {
 public:
  using Options = BahdanauOptions;
  struct State {
    nn::Memory memory;
    nn::Past past;
    nn::RecurrentState s;
  };
  using Step = DecoderStep<Output, State>;

  State select(const State& state, const Tensor& rows) const {
    return {nn::select(state.memory, rows), nn::select(state.past, rows),
            nn::select(state.s, rows)};
  }

 protected:
  /// Additive attention, unless another is given.
  AttendingDecoder(const nn::Scope& scope, const Options& o, EncodedSizes source, Index bridge,
                   Index columns, Var (*activation)(const Var&),
                   std::optional<nn::Attention> attention)
      : OneLayerDecoder(scope, o, bridge, source.h, columns, activation),
        attention_(attention
                       ? *attention
                       : nn::Attention(nn::AdditiveScore(scope / "attention", o.hidden, source.h,
                                                         {.attention = o.attention}))) {}

  /// The first state is tanh(W x + b).
  State start(const Encoded& source, const Var& x) const {
    return {attention_.remember(dropout_(source.h), source.mask), {}, {.h = tanh(bridge_(x))}};
  }

  nn::Attention attention_;
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
class BahdanauDecoder : public AttendingDecoder {
 public:
  BahdanauDecoder(const nn::Scope& scope, const BahdanauOptions& options, EncodedSizes source,
                  std::optional<nn::Attention> attention = {});

  State start(const Encoded& source) const;
  Step step(const Var& share, const State& before) const;

 private:
  Var C_;  // (D, 3H)
};

using NematusOptions = BahdanauOptions;

/// The conditional GRU, which attends between two cells, of annotations from any encoder: "Nematus:
/// a toolkit for neural machine translation" (Sennrich et al., 2017; arXiv 1703.04357), section 2.
///
/// | paper (section 2)                        | here             | parameter          | shape    |
/// |------------------------------------------|------------------|--------------------|----------|
/// | word vectors                             | encode(), read() | source.E, target.E | (V, E)   |
/// | s_0 = tanh(W_init Σ_i h_i / T_x)         | start()          | bridge.W, bridge.b | (2H, H)  |
/// | s'_j = GRU_1(y_{j-1}, s_{j-1})           | step()           | decoder.layer1.*   | (E, 3H)  |
/// | c_j = ATT(C, s'_j)                       | step()           | attention.*        |          |
/// | s_j = GRU_2(s'_j, c_j)                   | step()           | decoder.second.*   | (2H, 3H) |
/// | t_j = tanh(s_j W_t1 + y_{j-1} W_t2       | logits()         | readout.U_o, V_o,  | (., R)   |
/// |   + c_j W_t3)                            |                  | readout.C_o, b_o   |          |
/// | p(y_j) = softmax(t_j W_o)                | logits()         | output.W, output.b | (R, V)   |
class NematusDecoder : public AttendingDecoder {
 public:
  NematusDecoder(const nn::Scope& scope, const NematusOptions& options, EncodedSizes source,
                 std::optional<nn::Attention> attention = {});

  State start(const Encoded& source) const;
  Step step(const Var& share, const State& before) const;

 private:
  nn::Recurrent second_;
};

/// With an encoder in both directions, h_j = [→h_j; ←h_j] (Bahdanau et al., 2014, equation 7), whose
/// last state is ←h_1; and additive attention or one of your own.
using Bahdanau = WithEncoder<BahdanauDecoder, nn::Bidirectional<nn::Recurrent>>;
using Nematus = WithEncoder<NematusDecoder, nn::Bidirectional<nn::Recurrent>>;

}  // namespace attune::models
