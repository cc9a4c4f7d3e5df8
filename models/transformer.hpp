// "Attention is all you need" (Vaswani et al., 2017; arXiv 1706.03762): Transformer (encoder and
// decoder), and TransformerLm (a language model, decoder only).
#pragma once

#include <vector>

#include <attune/models/decoder.hpp>
#include <attune/models/encoded.hpp>
#include <attune/models/model.hpp>
#include <attune/models/parts.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/transformer.hpp>

namespace attune::models {

struct TransformerOptions {
  Index source_vocabulary = 0, target_vocabulary = 0;
  nn::TransformerLayerOptions layer = {};        // D, heads, inner size, norm, dropout
  Index encoder_layers = 3, decoder_layers = 3;  // N
  Tied tied = Tied::target_output;
  /// The decoder layer, from 1, whose attention weights are returned. 0 means the penultimate
  /// layer, whose weights, averaged over heads, are the best word alignments (Garg et al., 2019).
  Index alignment_layer = 0;
};

OptionList fields_of(TransformerOptions& options);

/// Embeddings times √D, positional encoding and dropout (sections 3.4 and 3.5).
class TransformerEmbedding {
 public:
  /// Uses the embedding `table` if given, else adds its own: "source.E" for the name "source".
  TransformerEmbedding(const nn::Scope& scope, const char* name, Integer vocabulary,
                       const TransformerOptions& options, const nn::Embedding* table = nullptr);

  /// ids (T, B) -> (T, B, D), without positional encoding
  Var embed(const Tensor& ids) const;
  /// Adds positional encoding, where x[t] is at position begin + t, and dropout: (T, B, D)
  Var with_positions(const Var& x, Integer begin) const { return dropout_(positions_(x, begin)); }

  const nn::Embedding& table() const& { return table_; }
  nn::Embedding table() const&& { return table_; }

 private:
  nn::Embedding table_;
  nn::PositionalEncoding positions_;
  nn::Dropout dropout_;
};

/// The encoder, for any decoder. Encoded::last is the mean annotation, from which a recurrent
/// decoder can start (Chen et al., 2018, "The best of both worlds").
class TransformerEncoder {
 public:
  TransformerEncoder(const nn::Scope& scope, const TransformerOptions& options,
                     const nn::Embedding* table = nullptr);

  /// Token ids source (S, B) i32, mask (S, B) -> annotations (S, B, D)
  Encoded encode(const Tensor& source, const Mask& mask) const;

  EncodedSizes sizes() const { return {size_, size_}; }

 private:
  Index size_;
  TransformerEmbedding source_;
  std::vector<nn::TransformerLayer> layers_;
  std::optional<nn::LayerNorm> norm_;  // final normalisation, for Norm::before
};

/// The decoder, for annotations of any encoder, or without a source (TransformerLm). `unroll`
/// computes all steps in parallel for training, `step` one step with a key-value cache.
///
/// | paper                                      | here             | parameter                   |
/// |--------------------------------------------|------------------|-----------------------------|
/// | word vectors times √d_model (3.4)          | encode(), read() | source.E, target.E          |
/// | PE (3.5)                                   | with_positions() | none                        |
/// | N layers of the encoder (3.1)              | encode()         | encoder.layer1.* ...        |
/// | N layers of the decoder (3.1)              | step(), unroll() | decoder.layer1.* ...        |
/// | W^Q, [W^K W^V], W^O, masked (3.2.2, 3.2.3) | self             | .self.query, memory, output |
/// | the same of the encoder's output (3.2.3)   | cross            | .cross.*                    |
/// | FFN(x) (3.3)                               | feed             | .feed.inner, .feed.outer    |
/// | LayerNorm (3.1)                            | nn::LayerNorm    | .self_norm, ..., norm       |
/// | linear map and softmax (3.4)               | logits()         | target.E, or output.W, b    |
class TransformerDecoder {
 public:
  using Options = TransformerOptions;

  struct State {
    std::vector<nn::KeyValueCache> memory, self;  // per layer, for cross-attention, self-attention
  };
  using Output = Var;  // (B, D) of one step, or (T, B, D) of all steps
  using Step = DecoderStep<Output, State>;

  /// `memory` is the size of the annotations; 0 means no source.
  TransformerDecoder(const nn::Scope& scope, const Options& options, Integer memory);

  State start(const Encoded& source) const;
  /// ids (T, B) i32 -> (T, B, D), without positional encoding
  Var read(const Tensor& previous) const { return target_.embed(previous); }
  Step step(const Var& word, const State& before) const;
  /// Teacher forcing: computes all steps in parallel, for previous tokens (T, B) and mask (T, B).
  DecoderSteps<Var, Var> unroll(const Encoded& source, const Tensor& previous, const Mask& mask,
                                bool weights) const {
    return unroll(source, previous, mask, weights ? nn::Weights::mean : nn::Weights::no);
  }
  /// The same with the weights of each head, (K, S, B) per step, for Weights::per_head.
  DecoderSteps<Var, Var> unroll(const Encoded& source, const Tensor& previous, const Mask& mask,
                                nn::Weights weights) const;
  AffineLogits logits(const Var& words, const std::vector<Var>& outputs) const;
  State select(const State& state, const Tensor& rows) const;

  const nn::Embedding& table() const& { return target_.table(); }
  nn::Embedding table() const&& { return target_.table(); }
  TransformerOptions options() const { return options_; }

 private:
  /// The annotations, packed by the layout; undefined if the decoder has no cross-attention. Throws
  /// if it has, but the source has no annotations.
  Var annotations(const Encoded& source, const nn::Layout& layout) const;

  TransformerOptions options_;
  TransformerEmbedding target_;
  std::vector<nn::TransformerLayer> layers_;
  std::optional<nn::LayerNorm> norm_;
  Affine output_;
  std::size_t aligned_;  // index of the layer whose weights are returned
  bool attends_;
};

class Transformer : public TransformerDecoder {
 public:
  static constexpr const char* name = "transformer";
  static constexpr bool attends = true;

  /// Throws if options are out of range or contradict each other.
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

extern template struct detail::ModelOf<Transformer>;
extern template struct detail::ModelOf<TransformerLm>;

}  // namespace attune::models
