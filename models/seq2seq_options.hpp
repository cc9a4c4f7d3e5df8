// What a sequence-to-sequence model is made of: every choice, under its name.
#pragma once

#include <span>
#include <string>

#include <attune/models/option_field.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/dropout.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/nn/score.hpp>

namespace attune::models {

/// In which direction the encoder reads. `backward` is the reversed source of Sutskever et al.
/// (2014); `bidirectional` is Bahdanau et al. (2014), equation 7: annotations [→h_j; ←h_j].
enum class Reading { forward, backward, bidirectional };

/// Where a layer of the decoder starts.
enum class Start {
  zero,
  last,  // the encoder's last state (c too), of the same layer or the highest: Luong et al. (2015)
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

/// Whether the decoder reads the first readout of the word before: Luong et al. (2015), section
/// 3.3.
enum class InputFeeding { no, yes };

/// The first layer before the softmax, of the state s, the previous word y and the context c.
enum class ReadoutKind {
  tanh,         // tanh(s U_o + y V_o + c C_o + b_o)
  maxout,       // max over pairs of the same, twice as wide: Bahdanau et al. (2014), A.2.2
  attentional,  // tanh([c; s] W_c): Luong et al. (2015), equation 5
};

/// Which decoder state the readout sees: s_i, or s_{i-1} as in the appendix of Bahdanau et al.
/// (2014).
enum class ReadoutState { current, previous };

/// Which of the three tables of word vectors are one (Press and Wolf, 2017).
enum class Tied { none, target_output, all };

/// Whether each layer from the second on adds what it has read (Wu et al., 2016, equation 6).
enum class Residual { no, yes };

struct Seq2SeqOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  Index embedding = 256;     // E
  Index hidden = 256;        // H, of the decoder
  Index encoder_hidden = 0;  // of each direction; 0: what fits, see encoder_hidden()
  Index encoder_layers = 1, decoder_layers = 1;
  nn::Cell encoder_cell = nn::Cell::gru, decoder_cell = nn::Cell::gru;
  Reading reading = Reading::bidirectional;
  Residual residual = Residual::no;
  Index self_attention = 0;  // heads of a layer y + selfattention(y) above the encoder; 0: none
  Start start = Start::bridge;
  Attend attend = Attend::before;
  nn::ScoreOptions score = {};
  nn::AttentionOptions attention = {};
  InputFeeding input_feeding = InputFeeding::no;
  ReadoutKind readout_kind = ReadoutKind::maxout;
  ReadoutState readout_state = ReadoutState::current;
  Index readout = 256;       // R
  Index readout_layers = 1;  // those above the first are tanh(t W + b)
  Tied tied = Tied::none;
  double dropout = 0;  // between layers, and where the following are -1
  double embedding_dropout = -1, annotation_dropout = -1, readout_dropout = -1;
  nn::DropoutKind dropout_kind = nn::DropoutKind::elementwise;
};

/// H of each direction of the encoder. Where it is not given, it is the decoder's; half of it,
/// where the score compares annotations of two directions directly with the decoder's state.
Index encoder_hidden(const Seq2SeqOptions& options);

/// The rate of one of the three that may be -1.
inline double dropout_rate(const Seq2SeqOptions& options, double rate) {
  return rate < 0 ? options.dropout : rate;
}

/// Whether there is attention at all.
bool attends(const Seq2SeqOptions& options);

/// Throws on sizes below 1, rates out of range, vocabularies that have nothing beside the four
/// special tokens, and choices that do not go together.
void check(const Seq2SeqOptions& options);

/// All but the vocabularies, in the order of the struct.
std::span<const OptionField<Seq2SeqOptions>> seq2seq_fields();

/// Sets one of them by name. Throws when there is none of that name, and as its `set` does.
void set(Seq2SeqOptions& options, const std::string& name, const std::string& value);

}  // namespace attune::models
