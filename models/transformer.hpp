// "Attention is all you need" (Vaswani et al., 2017; arXiv 1706.03762): Transformer, an encoder and a
// decoder, and TransformerLm, the decoder alone.
#pragma once

#include <vector>

#include <attune/models/decoder.hpp>
#include <attune/models/parts.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/transformer.hpp>

namespace attune::models {

struct TransformerOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  nn::TransformerLayerOptions layer = {};        // D, heads, inner size, norm, dropout
  Index encoder_layers = 3, decoder_layers = 3;  // N
  Tied tied = Tied::target_output;
  /// The decoder's layer whose attention a step returns; 0: the last but one, whose mean over the
  /// heads aligns best (Garg et al., 2019).
  Index alignment_layer = 0;
};

OptionList options_of(TransformerOptions& options);

/// Word vectors times √D, positions and dropout (sections 3.4 and 3.5).
class TransformerEmbedding {
 public:
  /// With a table of its own, "source.E", or another one's.
  TransformerEmbedding(const nn::Scope& scope, const char* name, Index vocabulary,
                       const TransformerOptions& options, const nn::Embedding* table = nullptr);

  /// ids (T, B) -> (T, B, D)
  Var embed(const Tensor& ids) const;
  /// Vectors of the places from `begin` on.
  Var with_positions(const Var& vectors, Index begin) const {
    return dropout_(places_(vectors, begin));
  }

  const nn::Embedding& table() const { return table_; }

 private:
  nn::Embedding table_;
  nn::PositionalEncoding places_;
  nn::Dropout dropout_;
};

/// The encoder, for any decoder. A recurrent decoder (Chen et al., 2018, "The best of both worlds")
/// starts from the mean annotation, which is Encoded::last.
class TransformerEncoder {
 public:
  TransformerEncoder(const nn::Scope& scope, const TransformerOptions& options,
                     const nn::Embedding* table = nullptr);

  /// source (S, B) i32, mask (S, B)
  Encoded encode(const Tensor& source, const Mask& mask) const;

  EncodedSizes sizes() const { return {size_, size_}; }

 private:
  Index size_;
  TransformerEmbedding source_;
  std::vector<nn::TransformerLayer> layers_;
  std::optional<nn::LayerNorm> norm_;  // with the norm before
};

/// The decoder on annotations from any encoder, or on nothing (TransformerLm). Training computes all
/// steps at once (`unroll`), search one, with the keys and values of the steps before.
///
/// | paper                                       | here             | parameter                 |
/// |---------------------------------------------|------------------|---------------------------|
/// | word vectors times √d_model (3.4)           | encode(), read() | source.E, target.E        |
/// | PE (3.5)                                    | nn::PositionalEncoding    | none                      |
/// | N layers of the encoder (3.1)               | encode()         | encoder.layer1.* ...      |
/// | N layers of the decoder (3.1)               | step(), unroll() | decoder.layer1.* ...      |
/// | W^Q, [W^K W^V], W^O, masked (3.2.2, 3.2.3)  | self             | .self.query, memory, output |
/// | the same of the encoder's output (3.2.3)    | cross            | .cross.*                  |
/// | FFN(x) (3.3)                                | feed             | .feed.inner, .feed.outer  |
/// | LayerNorm (3.1)                             | nn::LayerNorm    | .self_norm, ..., norm     |
/// | linear map and softmax (3.4)                | logits()         | target.E or output.W, output.b |
class TransformerDecoder {
 public:
  using Options = TransformerOptions;

  struct State {
    std::vector<nn::KeyValueCache> memory, self;  // of each layer
  };
  using Output = Var;  // (B, D), or of all steps (T, B, D)
  using Step = DecoderStep<Output, State>;

  /// `memory` is the size of annotations; 0: it has none.
  TransformerDecoder(const nn::Scope& scope, const Options& options, Index memory);

  State start(const Encoded& source) const;
  /// (T, B, D), without positions
  Var read(const Tensor& previous) const { return target_.embed(previous); }
  Step step(const Var& word, const State& before) const;
  /// All steps at once.
  DecoderSteps<Var, Var> unroll(const Encoded& source, const Tensor& previous, const Mask& mask,
                                bool weights) const;
  AffineLogits logits(const Var& words, const std::vector<Var>& outputs) const;
  State select(const State& state, const Tensor& rows) const;

  const nn::Embedding& table() const { return target_.table(); }
  const TransformerOptions& options() const { return options_; }

 private:
  /// Packed by the layout; undefined in a decoder that attends to nothing.
  Var annotations(const Encoded& source, const nn::Layout& layout) const;

  TransformerOptions options_;
  TransformerEmbedding target_;
  std::vector<nn::TransformerLayer> layers_;
  std::optional<nn::LayerNorm> norm_;
  Affine output_;
  std::size_t aligned_;  // layer
  bool attends_;
};

class Transformer : public TransformerDecoder {
 public:
  static constexpr const char* name = "transformer";
  static constexpr bool attends = true;

  /// Throws on options out of their ranges, and on those that do not fit together.
  Transformer(const nn::Scope& scope, const TransformerOptions& options)
      : TransformerDecoder(scope, checked(options), options.layer.size),
        encoder_(scope, options, options.tied == Tied::all ? &table() : nullptr) {}

  Encoded encode(const Tensor& source, const Mask& mask) const {
    return encoder_.encode(source, mask);
  }

 private:
  TransformerEncoder encoder_;
};

/// A language model: loss(model, no_source(B), target), sample(model, no_source(n)).
class TransformerLm : public TransformerDecoder {
 public:
  static constexpr const char* name = "transformer-lm";

  TransformerLm(const nn::Scope& scope, const TransformerOptions& options)
      : TransformerDecoder(scope, checked(options), 0) {}
};

}  // namespace attune::models
