// The model whose every choice is an option: encoder, attention, decoder, readout.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <attune/models/decoder.hpp>
#include <attune/models/option_field.hpp>
#include <attune/models/parts.hpp>
#include <attune/models/unroll.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/nn/transformer.hpp>

namespace attune::models {

/// In which direction the encoder reads. `backward` is the reversed source of Sutskever et al.
/// (2014); `bidirectional` is Bahdanau et al. (2014), equation 7: annotations [→h_j; ←h_j].
enum class Reading { forward, backward, bidirectional };

/// First state of a layer of the decoder.
enum class Start {
  zero,
  last,  // the encoder's final state (c too), of the same layer or the highest: Luong et al. (2015)
  mean,  // tanh(W mean_j h_j + b): Nematus (Sennrich et al., 2017)
  bridge,  // tanh(W_s ←h_1 + b), of the encoder's last state: Bahdanau et al. (2014), A.2.2
};

/// When the decoder attends, and with what.
enum class Attend {
  /// With s_{i-1}; the cell then reads the context: Bahdanau et al. (2014).
  before,
  /// With s'_i, between two cells of which the second reads the context: the conditional GRU of
  /// Nematus (Sennrich et al., 2017).
  between,
  /// With the new state h_t; no cell reads the context: Luong et al. (2015).
  after,
  /// Not at all: the context of every step is the encoder's last state: Cho et al. (2014).
  last_state,
  /// Not at all, and no context: Sutskever et al. (2014).
  never,
};

/// The first layer before the softmax, of the state s, the previous word y and the context c.
enum class ReadoutKind {
  tanh,         // tanh(s U_o + y V_o + c C_o + b_o)
  maxout,       // max over pairs of the same, twice as wide: Bahdanau et al. (2014), A.2.2
  attentional,  // tanh([c; s] W_c): Luong et al. (2015), equation 5
};

/// Which decoder state the readout sees: s_i, or s_{i-1} as in the appendix of Bahdanau et al.
/// (2014).
enum class ReadoutState { current, previous };

struct Seq2SeqOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;     // E
  Index hidden = 256;        // H, of the decoder
  Index encoder_hidden = 0;  // of each direction; 0: what fits, see encoder_hidden()
  Index encoder_layers = 1, decoder_layers = 1;
  nn::Cell encoder_cell = nn::Cell::gru, decoder_cell = nn::Cell::gru;
  Reading reading = Reading::bidirectional;
  bool residual = false;     // layers from the second on add their input: Wu et al. (2016, eq. 6)
  Index self_attention = 0;  // heads of a layer y + selfattention(y) above the encoder; 0: none
  Start start = Start::bridge;
  Attend attend = Attend::before;
  nn::ScoreOptions score = {};
  nn::AttentionOptions attention = {};
  /// Whether the decoder reads the first readout of the word before: Luong et al. (2015), 3.3.
  bool input_feeding = false;
  ReadoutKind readout_kind = ReadoutKind::maxout;
  ReadoutState readout_state = ReadoutState::current;
  Index readout = 256;       // R
  Index readout_layers = 1;  // those above the first are tanh(t W + b)
  Tied tied = Tied::none;
  double dropout = 0;  // between layers, and where the following are -1
  double embedding_dropout = -1, annotation_dropout = -1, readout_dropout = -1;
};

/// H of each direction of the encoder. Where it is not given, it is the decoder's; half of it,
/// where the score compares annotations of two directions directly with the decoder's state.
Index encoder_hidden(const Seq2SeqOptions& options);

/// Whether there is attention at all.
bool attends(const Seq2SeqOptions& options);

/// All but the vocabularies, in the order of the struct.
std::span<const OptionField<Seq2SeqOptions>> seq2seq_fields();

// ---- Model

/// Recurrent layers in one or both directions: "layer1", or "layer1.forward" and "layer1.backward".
/// A bidirectional layer reads the outputs of both directions below it. On top, if asked for, y +
/// selfattention(y) (Vaswani et al., 2017, without their normalisation).
class Encoder {
 public:
  Encoder(const nn::Scope& scope, const Seq2SeqOptions& options);

  /// x (S, B, E), mask (S, B)
  Encoded operator()(const Var& x, const Tensor& mask) const;

  EncodedSizes sizes() const { return {both_ways_ ? 2 * hidden_ : hidden_, hidden_}; }

 private:
  std::optional<nn::Stacked<nn::Recurrent>> one_way_;
  std::optional<nn::Stacked<nn::Bidirectional<nn::Recurrent>>> both_ways_;  // or these
  Direction direction_;
  Index hidden_;
  std::optional<nn::MultiHeadAttention> self_attention_;
};

/// The first layer, of state s (..., H), previous word y (..., E) and context c (..., C), which may
/// be undefined:
///     tanh:         t = tanh(s U_o + y V_o + c C_o + b_o)
///     maxout:       t = max over pairs of the same, 2R wide  (Bahdanau et al., 2014, A.2.2)
///     attentional:  t = tanh([c; s] W_c)                     (Luong et al., 2015, equation 5)
/// and above it t = tanh(t W + b) as often as asked for ("layer2" and so on). Dropout follows each.
class Readout {
 public:
  /// `context` is C, 0 where there is none.
  Readout(const nn::Scope& scope, const Seq2SeqOptions& options, Index context);

  /// -> (..., R), before dropout. Input feeding gives it to the next step, after dropout.
  Var first(const Var& y, const Var& s, const Var& c) const;

  /// The first layer's dropout.
  Var dropped(const Var& t) const { return dropout_(t); }

  /// The layers above: (..., R) -> (..., R)
  Var rest(Var t) const;

 private:
  std::optional<DeepOutput> deep_;
  Var W_c_;  // or (C + H, R): attentional
  std::vector<nn::Linear> above_;
  nn::Dropout dropout_;
};

/// Any wiring of the same parts as in papers.hpp, with the same names of parameters: wired as a
/// paper's model it is that model (tests/models/papers_test.cpp). With y the vector of the word
/// before, α and c from attention with the query in brackets, and f the cell:
///
/// | attend     | step                                                         | parameters       |
/// |------------|--------------------------------------------------------------|------------------|
/// | before     | c_i = a(s_{i-1}), s_i = f(y W_x + c_i W_c, s_{i-1})          | decoder.W_c      |
/// | between    | s'_i = f(y W_x, s_{i-1}), c_i = a(s'_i), s_i = f₂(c_i, s'_i) | decoder.second.* |
/// | after      | s_i = f(y W_x, s_{i-1}), c_i = a(s_i)                        |                  |
/// | last_state | c: the encoder's last state, s_i = f(y W_x + c W_c, s_{i-1}) | decoder.W_c      |
/// | never      | s_i = f(y W_x, s_{i-1})                                      |                  |
///
/// Input feeding adds t_{i-1} W_feed to y W_x, where t is the first readout. In a stack, y and c go
/// into the lowest layer ("decoder.layer1"), which is the one with a second cell; queries and
/// readouts are of the top. Other options: nn/attention.hpp, Encoder and Readout above.
class Seq2Seq {
 public:
  using Options = Seq2SeqOptions;

  /// Values that all steps of a sentence share.
  struct Source {
    nn::Memory memory;  // undefined without attention
    Var context;        // (B, hidden), last_state only
    Var share;          // (B, gates · H): context W_c
  };

  /// What a decoder carries from word to word.
  struct State {
    std::shared_ptr<const Source> source;
    std::vector<nn::RecurrentState> layers;  // the lowest first
    Var s;                                   // (B, H): what the top puts out
    Var fed = {};                            // (B, R), with input feeding
    nn::Past past = {};
  };

  /// The words before, as the cell reads them: of all steps (T, B, ...), or of one (B, ...).
  struct Words {
    Var y;      // E y: (..., E); of one step with input feeding only
    Var share;  // y W_x: (..., gates · H)
    bool fed;
    Words operator[](Index t) const { return {fed ? y[t] : Var(), share[t], fed}; }
  };

  /// The inputs of the readout. With input feeding, `fed` is the first readout, already computed.
  struct Output {
    Var s, context, fed;
  };
  using Step = DecoderStep<Output, State>;

  /// With the attention of the options, or your own. Throws on values that seq2seq_fields() do not
  /// take, on vocabularies that have nothing beside the four special tokens, on choices that do not
  /// go together, and on sizes that the score cannot compare.
  Seq2Seq(const nn::Scope& scope, const Seq2SeqOptions& options,
          std::optional<nn::Attention> attention = {});

  /// source (S, B) i32, mask (S, B)
  Encoded encode(const Tensor& source, const Tensor& mask) const;

  State start(const Encoded& encoded) const;
  Words read(const Tensor& previous) const;
  Step step(const Words& words, const State& state) const;
  AffineLogits logits(const Words& words, const std::vector<Output>& outputs) const;
  State select(const State& state, const Tensor& rows) const;

  const Seq2SeqOptions& options() const { return options_; }

 private:
  std::vector<nn::RecurrentState> first_states(const Encoded& encoded) const;
  Var input(const Var& share, const Var& context, const State& state) const;
  Index context_size() const;

  Seq2SeqOptions options_;
  nn::Embedding target_, source_;
  Encoder encoder_;
  std::optional<nn::Linear> bridge_;  // to all layers of the decoder
  std::optional<nn::Attention> attention_;
  nn::Stacked<nn::Recurrent> decoder_;
  std::optional<nn::Recurrent> second_;  // `between` only
  Var W_c_;                              // (C, gates · H)
  Var W_feed_;                           // (R, gates · H)
  Readout readout_;
  Affine output_;  // to logits, by weights of its own or by the table of the target's words
  nn::Dropout embedding_dropout_, annotation_dropout_;
};

}  // namespace attune::models
