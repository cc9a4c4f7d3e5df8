// Recurrent models of papers, with their equations: Bahdanau, Nematus and Luong (with attention),
// EncoderDecoder and Sutskever (without attention), and the speech encoder Listener.
#pragma once

#include <optional>
#include <vector>

#include <attune/autograd/ops.hpp>
#include <attune/models/decoder.hpp>
#include <attune/models/encoded.hpp>
#include <attune/models/model.hpp>
#include <attune/models/parts.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/recurrent.hpp>

namespace attune::models {

// ---- "Neural machine translation by jointly learning to align and translate" (Bahdanau, Cho and
// Bengio, 2014; arXiv 1409.0473), which introduced attention, and the conditional GRU of Nematus

struct BahdanauOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;  // E
  Index hidden = 256;     // H of the decoder and of each encoder direction
  Index encoder_layers = 1;
  Index readout = 256;                  // R
  nn::CellType cell = nn::Cell::gru;    // of encoder and decoder
  nn::ScoreOptions score = {};          // score function; A is score.attention
  nn::AttentionOptions attention = {};  // window and normalizer
  Tied tied = Tied::none;
  double dropout = 0;  // rate between layers; a rate of -1 below means this one
  double embedding_dropout = -1, annotation_dropout = -1, readout_dropout = -1;
};

OptionList fields_of(BahdanauOptions& options);
/// Options of the bidirectional encoder. If the score is `direct` (ScoreKind), each direction has
/// size H / 2, so that annotations and decoder state have the same size.
WordEncoderOptions encoder_options(const BahdanauOptions& options);

/// Constructs the attention of the options, with the parameters "attention.*" and query size H.
template <class Options>
nn::Attention attention_of(const nn::Scope& scope, const Options& o, EncodedSizes source) {
  const nn::Scope place = scope / "attention";
  return {nn::make_score(place, o.hidden, source.h, o.score), place, o.hidden, o.attention};
}

/// Base class of decoders with one recurrent layer and attention.
class AttentionDecoder : public OneLayerDecoder {
 public:
  using Options = BahdanauOptions;
  static constexpr bool attends = true;
  struct State {
    nn::Memory memory;
    nn::AttentionState past;
    nn::RecurrentState s;
  };
  using Step = DecoderStep<Output, State>;

  State select(const State& state, const Tensor& rows) const;

 protected:
  /// Uses `attention` if given, else that of the options.
  AttentionDecoder(const nn::Scope& scope, const Options& o, EncodedSizes source, Index bridge,
                   Activation activation, const std::optional<nn::Attention>& attention);

  /// The initial state tanh(x W + b), with W and b of the bridge.
  State start(const Encoded& source, const Var& x) const;

  /// The result of a step with the new state s and the result of attention.
  static Step after(const State& before, const nn::RecurrentState& s, nn::AttentionResult&& read);

  nn::Attention attention_;

 private:
  nn::Dropout annotation_dropout_;
};

/// Decoder of Bahdanau et al. (2014), for annotations of any encoder: attention with the previous
/// state, then a recurrent cell with the input [E y_{i-1}; c_i].
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
/// The paper's GRU applies the reset gate before the matrix product (Cell::gru_reset_before), and
/// its z is our 1 - z; the default is the faster Cell::gru. With an LSTM, read 4H instead of 3H.
class BahdanauDecoder : public AttentionDecoder {
 public:
  static constexpr const char* name = "bahdanau";

  BahdanauDecoder(const nn::Scope& scope, const BahdanauOptions& o, EncodedSizes source,
                  const std::optional<nn::Attention>& attention = {});

  State start(const Encoded& source) const;
  Step step(const Var& xw, const State& before) const;

 private:
  Var C_;  // (D, 3H)
};

/// Conditional GRU decoder, for annotations of any encoder: attention between two cells. "Nematus:
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
class NematusDecoder : public AttentionDecoder {
 public:
  static constexpr const char* name = "nematus";

  NematusDecoder(const nn::Scope& scope, const BahdanauOptions& o, EncodedSizes source,
                 const std::optional<nn::Attention>& attention = {});

  State start(const Encoded& source) const;
  Step step(const Var& xw, const State& before) const;

 private:
  nn::Recurrent second_;
};

/// Complete models, with the bidirectional encoder h_j = [→h_j; ←h_j] (Bahdanau et al., 2014,
/// equation 7), whose final state is ←h_1.
using Bahdanau = WithEncoder<BahdanauDecoder>;
using Nematus = WithEncoder<NematusDecoder>;

// ---- "Effective approaches to attention-based neural machine translation" (Luong, Pham and
// Manning, 2015; arXiv 1508.04025)

struct LuongOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;  // E
  Index hidden = 256;     // H of every layer and of h̃
  Index encoder_layers = 2, decoder_layers = 2;
  EncoderDirection reading = EncoderDirection::forward;
  nn::CellType cell = nn::Cell::lstm;
  nn::ScoreOptions score = {.kind = "general"};
  nn::AttentionOptions attention = {};  // window and normalizer
  bool input_feeding = true;            // h̃_{t-1} is a further input of the decoder at step t
  Tied tied = Tied::none;
  double dropout = 0;  // rate between layers; a rate of -1 below means this one
  double embedding_dropout = -1, annotation_dropout = -1;
  double readout_dropout = -1;  // applied to h̃
};

OptionList fields_of(LuongOptions& options);
WordEncoderOptions encoder_options(const LuongOptions& options);

/// Decoder of Luong et al. (2015): stacked recurrent layers, initialised with the final states of
/// any encoder; attention with the new state h_t of the top layer.
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
/// With a GRU, read 3H instead of 4H. Unlike the paper's, the output layer has a bias.
class LuongDecoder {
 public:
  using Options = LuongOptions;
  static constexpr const char* name = "luong";
  static constexpr bool attends = true;
  struct State {
    nn::Memory memory;
    nn::AttentionState past;
    std::vector<nn::RecurrentState> layers;  // layer1 first
    Var h_tilde;                             // (B, H)
  };
  using Output = Var;  // h̃_t (B, H)
  using Step = DecoderStep<Output, State>;

  /// Uses `attention` if given, else that of the options. source.last must be H: layer l of the
  /// decoder starts with the final state of encoder layer l, or of its last layer if it has fewer.
  LuongDecoder(const nn::Scope& scope, const LuongOptions& options, EncodedSizes source,
               const std::optional<nn::Attention>& attention = {});

  State start(const Encoded& source) const;
  /// ids (T, B) i32 -> gate inputs of layer1 (T, B, gates · H), see nn::Stacked::input
  Var read(const Tensor& previous) const { return decoder_.input(target_(previous)); }

  Step step(const Var& xw, const State& before) const;
  AffineLogits logits(const Var&, const std::vector<Var>& h_tilde) const;
  State select(const State& state, const Tensor& rows) const;

 protected:
  WordVectors target_;

 private:
  nn::Attention attention_;
  nn::Stacked<nn::Recurrent> decoder_;
  nn::CellType cell_;
  std::size_t layers_;
  Var W_feed_;  // (H, 4H), with input feeding
  Var W_c_;     // (D + H, H)
  Affine output_;
  nn::Dropout annotation_dropout_, readout_dropout_;
};

/// The complete model, with the encoder of LuongOptions::reading.
using Luong = WithEncoder<LuongDecoder>;

// ---- Without attention: the decoder gets only the encoder's final state

struct EncoderDecoderOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;              // E
  Index hidden = 256;                 // H
  Index readout = 256;                // R
  nn::CellType cell = nn::Cell::gru;  // of encoder and decoder
  Tied tied = Tied::none;
  double dropout = 0;  // default rate: a rate of -1 below means this one
  double embedding_dropout = -1, readout_dropout = -1;
};

OptionList fields_of(EncoderDecoderOptions& options);
WordEncoderOptions encoder_options(const EncoderDecoderOptions& options);

/// Decoder of "Learning phrase representations using RNN encoder-decoder" (Cho et al., 2014; A.1):
/// the final state c of any encoder is the context of every step; the initial state is tanh(V' c).
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
///
/// In the paper, the reset gate also scales C c.
class LastStateDecoder : public OneLayerDecoder {
 public:
  using Options = EncoderDecoderOptions;
  static constexpr const char* name = "encoder-decoder";
  static constexpr bool attends = false;
  struct State {
    Var c, c_gates;  // (B, H), and c C (B, gates · H)
    nn::RecurrentState h;
  };
  using Step = DecoderStep<Output, State>;

  /// source.last is the size of c.
  LastStateDecoder(const nn::Scope& scope, const EncoderDecoderOptions& o, EncodedSizes source);

  State start(const Encoded& source) const;
  Step step(const Var& xw, const State& before) const;
  State select(const State& state, const Tensor& rows) const;

 private:
  Var C_;  // (source.last, 3H)
};

/// The complete model, with a forward encoder.
using EncoderDecoder = WithEncoder<LastStateDecoder>;

struct SutskeverOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;               // E
  Index hidden = 256;                  // H
  Index layers = 1;                    // of encoder and decoder each; the paper has 4
  Index readout = 256;                 // R
  nn::CellType cell = nn::Cell::lstm;  // of encoder and decoder
  Tied tied = Tied::none;
  double dropout = 0;  // rate between layers; a rate of -1 below means this one
  double embedding_dropout = -1, readout_dropout = -1;
};

OptionList fields_of(SutskeverOptions& options);
WordEncoderOptions encoder_options(const SutskeverOptions& options);

/// Decoder of "Sequence to sequence learning with neural networks" (Sutskever, Vinyals and Le,
/// 2014; arXiv 1409.3215). Its initial states are the final states of the encoder, which reads the
/// source in reverse. It has neither attention nor a context.
///
/// | paper (section 2 and 3.3)                | here             | parameter            |
/// |------------------------------------------|------------------|----------------------|
/// | word vectors                             | encode(), read() | source.E, target.E   |
/// | v, from the reversed source              | encode()         | encoder.layer1.* ... |
/// | the decoder's initial state is v         | start()          |                      |
/// | p(y_t | v, y_1 .. y_{t-1})               | logits()         | output.W, output.b   |
///
/// Unlike the paper, the output layer is applied to tanh(h_t W_c), with readout.W_c (H, R).
class SutskeverDecoder {
 public:
  using Options = SutskeverOptions;
  static constexpr const char* name = "sutskever";
  static constexpr bool attends = false;
  using State = std::vector<nn::RecurrentState>;  // of the layers, layer1 first
  using Output = Var;                             // (B, H)
  using Step = DecoderStep<Output, State>;

  /// The source must have one final state of size H for each layer.
  SutskeverDecoder(const nn::Scope& scope, const SutskeverOptions& o, EncodedSizes source);

  State start(const Encoded& source) const;
  /// ids (T, B) i32 -> gate inputs of layer1 (T, B, gates · H), see nn::Stacked::input
  Var read(const Tensor& previous) const { return decoder_.input(target_(previous)); }
  Step step(const Var& xw, const State& before) const;
  AffineLogits logits(const Var&, const std::vector<Var>& h) const;
  State select(const State& state, const Tensor& rows) const;

 protected:
  WordVectors target_;

 private:
  nn::CellType cell_;
  nn::Stacked<nn::Recurrent> decoder_;
  Var W_c_;  // (H, R)
  Affine output_;
  nn::Dropout readout_dropout_;
};

/// The complete model, with an encoder that reads the source in reverse.
using Sutskever = WithEncoder<SutskeverDecoder>;

extern template struct detail::ModelOf<Bahdanau>;
extern template struct detail::ModelOf<Nematus>;
extern template struct detail::ModelOf<Luong>;

// ---- The listener of "Listen, attend and spell" (Chan, Jaitly, Le and Vinyals, 2016; arXiv
// 1508.01211), an encoder for long sequences of feature vectors

struct ListenerOptions {
  Index features = 40;  // D of each frame
  Index hidden = 128;   // H of each direction
  /// For each layer, the number of input steps that it concatenates into one; paper: {1, 2, 2, 2}.
  std::vector<Index> join = {2, 2, 2};
  nn::CellType cell = nn::Cell::lstm;
  double dropout = 0;  // rate between layers, in training mode
};

/// Pyramid of bidirectional recurrent layers, with the parameters "layer1.*", "layer2.*", ....
/// Layer j with n = join[j - 1] computes (equation 5, there with n = 2):
///     h_i^j = BLSTM(h_{i-1}^j, [h_{ni}^{j-1}; ...; h_{ni+n-1}^{j-1}])
/// By default S frames become S / 8 annotations: attention and the upper layers are faster.
class Listener {
 public:
  /// Throws if `join` is empty or has a number below 1.
  Listener(const nn::Scope& scope, const ListenerOptions& options);

  /// frames (S, B, D), mask (S, B) -> annotations (S / Π join, B, 2H), rounded up at each layer
  Encoded operator()(const Var& frames, const Mask& mask) const;

  EncodedSizes sizes() const { return {layers_.back().size(), layers_.back().size() / 2}; }

 private:
  std::vector<nn::Bidirectional<nn::Recurrent>> layers_;
  std::vector<Index> join_;
  nn::Dropout dropout_;
};

}  // namespace attune::models
