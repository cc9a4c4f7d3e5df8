// Sequence-to-sequence models: encoder, attention, decoder, readout.
#pragma once

#include <memory>
#include <optional>

#include <attune/models/encoder.hpp>
#include <attune/models/guided_alignment.hpp>
#include <attune/models/readout.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/nn/embedding.hpp>

namespace attune::models {

/// The one model under Bahdanau, Luong and EncoderDecoder, whose comments have the papers'
/// equations. With y the vector of the word before, α and c from attention with the query in
/// brackets, and f the cell:
///
/// | attend     | step                                                          | parameters       |
/// |------------|---------------------------------------------------------------|------------------|
/// | before     | c_i = a(s_{i-1}), s_i = f(y W_x + c_i W_c, s_{i-1})           | decoder.W_c      |
/// | between    | s'_i = f(y W_x, s_{i-1}), c_i = a(s'_i), s_i = f₂(c_i, s'_i)  | decoder.second.* |
/// | after      | s_i = f(y W_x, s_{i-1}), c_i = a(s_i)                         |                  |
/// | last_state | c: the encoder's last state, s_i = f(y W_x + c W_c, s_{i-1})  | decoder.W_c      |
/// | never      | s_i = f(y W_x, s_{i-1})                                       |                  |
///
/// Input feeding adds t_{i-1} W_feed to y W_x, where t is the first readout. In a stack, y and c go
/// into the lowest layer ("decoder.layer1"), which is the one with a second cell; queries and
/// readouts are of the top. Options not named here: nn/attention.hpp, models/encoder.hpp,
/// models/readout.hpp.
class Seq2Seq {
 public:
  /// What stays the same for all words of a sentence.
  struct Source {
    nn::Memory memory;                // undefined without attention
    Var context;                      // (B, hidden), last_state only
    Var share;                        // (B, gates · H): context W_c
    std::vector<Tensor> layer_masks;  // dropout per sequence: between layers, (B, H) each
    Tensor readout_mask;              // and on a readout that is fed, (B, R)
    Tensor columns;                   // (B) i32: where each sentence stood in start()'s batch
  };

  /// What a decoder carries from word to word; a value, so that a search may keep several.
  struct State {
    std::shared_ptr<const Source> source;
    std::vector<nn::RecurrentState> layers;  // the lowest first
    Var s;                                   // (B, H): what the top puts out
    Var fed = {};                            // (B, R), with input feeding
    Var coverage = {};                       // (S, B): the weights so far; undefined at first
    Index step = 0;                          // words written
  };

  /// One word further.
  struct Step {
    Var readout;  // (B, R), for logits()
    Var weights;  // (S, B), or (heads, S, B); undefined without attention
    State state;
  };

  /// All steps of a batch under its own target words.
  struct Forced {
    Var logits;   // (T, B, V)
    Var weights;  // (T, S, B), or (T, heads, S, B); undefined without attention
  };

  /// Throws as check() does, and on sizes that the score cannot compare.
  Seq2Seq(const nn::Scope& scope, const Seq2SeqOptions& options);

  /// source (S, B) i32, mask (S, B)
  State start(const Tensor& source, const Tensor& mask) const;

  /// previous (B) i32: the words written last, <s> at first
  Step step(const Tensor& previous, const State& state) const;

  /// (..., R) -> (..., V)
  Var logits(const Var& readout) const;

  /// The state with columns of the batch by number (i32), with repetition. Nothing is recorded.
  /// Columns that change places within a sentence only go on with the same Source.
  State select(const State& state, const Tensor& rows) const;

  Forced force(const text::Batch& batch) const;

  /// Mean cross-entropy of the target words, </s> included. In training with label smoothing, and
  /// plus λ · the mean coverage loss of a word, where these are asked for. With a guide, plus its
  /// weight times guided_alignment_loss; throws when there is no attention to guide.
  Var loss(const text::Batch& batch, const Guide& guide = {}) const;

  const Seq2SeqOptions& options() const { return options_; }

 private:
  struct Advance;
  struct Unrolled;
  std::shared_ptr<const Source> select(const std::shared_ptr<const Source>& from,
                                       const Tensor& rows) const;
  std::vector<nn::RecurrentState> first_states(const Encoded& encoded, const Tensor& mask) const;
  Var input(const Var& yw, const Var& context, const State& state) const;
  Advance advance(const Var& y, const Var& yw, const State& state) const;
  Unrolled unroll(const text::Batch& batch) const;
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
