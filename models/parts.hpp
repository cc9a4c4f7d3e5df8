// Components shared by the models of papers.hpp.
#pragma once

#include <functional>
#include <vector>

#include <attune/models/encoded.hpp>
#include <attune/models/options.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/nn/recurrent.hpp>

namespace attune::models {

/// Weight tying (Press and Wolf, 2017): which of the source embedding, the target embedding and the
/// output layer's weights are one parameter.
enum class Tied { none, target_output, all };

Option tied_option(Tied& tied);

inline constexpr double largest_size = 1 << 16, most_layers = 64, highest_dropout = 0.99;

/// Returns the options. Throws if one is out of range; the message names the option.
template <class Options>
Options checked(const Options& options) {
  options_of(options).validate(options);
  return options;
}

using nn::rate_or;

/// Initialiser of the output layer. Glorot's bound √(6 / (R + V)) is only 0.027 at V = 8000, with
/// which the logits and the gradients of the layers below are close to 0 initially.
inline nn::Init output_weights() { return nn::init::normal(0.1); }

/// Initialiser of embeddings that are the input of a recurrent cell. A GRU learns fastest from
/// small vectors, as Adam changes them quickly. An LSTM scales a small input by about 1/4, and two
/// layers by 1/16, so it needs larger vectors. Validation BLEU on Tatoeba German-English after 1000
/// updates with N(0, 0.1²), N(0, 0.3²) and N(0, 1): conditional GRU 28.0, 25.9 and 21.3; Luong with
/// two LSTM layers 7.4, 9.4 and 13.7.
inline nn::Init word_vectors_init(const nn::CellType& cell) {
  return nn::init::normal(cell == nn::Cell::lstm ? 1 : 0.1);
}

/// For Tied::all. Throws if the vocabulary sizes differ.
void require_one_vocabulary(Integer source, Integer target);

/// An embedding followed by dropout: ids (...) -> (..., E)
struct WordVectors {
  nn::Embedding table;
  nn::Dropout dropout;

  Var operator()(const Tensor& ids) const { return dropout(table(ids)); }
};

/// Constructs the target embedding "target.E"; if tied, with the output layer's initialiser.
template <class Options>
WordVectors target_vectors(const nn::Scope& scope, const Options& o) {
  const nn::Init init = o.tied == Tied::none ? word_vectors_init(o.cell) : output_weights();
  return {nn::Embedding(scope / "target", o.target_vocabulary, o.embedding, init),
          nn::Dropout(rate_or(o.embedding_dropout, o.dropout))};
}

/// Constructs the embedding "source.E". For Tied::all returns `target`, or throws if the sizes
/// differ.
template <class Options>
WordVectors source_vectors(const nn::Scope& scope, const Options& o, const WordVectors& target) {
  if (o.tied == Tied::all) {
    require_one_vocabulary(o.source_vocabulary, o.target_vocabulary);
    return target;
  }
  return {
      nn::Embedding(scope / "source", o.source_vocabulary, o.embedding, word_vectors_init(o.cell)),
      target.dropout};
}

/// The output layer for readouts (..., R), with "output.W" (R, V) and "output.b" (V). If tied, it
/// uses the transposed embedding (V, E) instead of W. Throws if R is not E then.
Affine output_layer(const nn::Scope& scope, Integer readout, Integer vocabulary, Tied tied,
                    const WordVectors& target);

/// Direction of a recurrent encoder. `backward` reverses the source as Sutskever et al. (2014) do;
/// `bidirectional` gives the annotations [→h_j; ←h_j] of Bahdanau et al. (2014), equation 7.
enum class EncoderDirection { forward, backward, bidirectional };

struct WordEncoderOptions {
  Index embedding, hidden;  // E, and H of each direction
  Index layers;
  nn::CellType cell;
  EncoderDirection reading;
  double dropout;  // between layers

  EncodedSizes sizes() const {
    return {.h = reading == EncoderDirection::bidirectional ? 2 * hidden : hidden, .last = hidden};
  }
};

/// Embedded source x (S, B, E), mask (S, B) -> annotations and final states
using WordEncoder = std::function<Encoded(const Var& x, const Mask& mask)>;

/// Constructs a stack of recurrent layers with the parameters "layer1.*", "layer2.*", ..., or
/// "layer1.forward.*" and "layer1.backward.*" if bidirectional. Each bidirectional layer reads both
/// directions of the layer below; the final states are those of the backward direction.
WordEncoder word_encoder(const nn::Scope& scope, const WordEncoderOptions& options);

/// Adds a recurrent encoder to a decoder class, with the parameters "source.E" and "encoder.*". Its
/// options are encoder_options(Options).
template <class Decoder>
class WithEncoder : public Decoder {
 public:
  using Options = typename Decoder::Options;

  /// `attention` (optional, for decoders with attention) replaces the attention of the options.
  /// Throws if options are out of range or contradict each other.
  WithEncoder(const nn::Scope& scope, const Options& o, const auto&... attention)
      : Decoder(scope, checked(o), encoder_options(o).sizes(), attention...),
        options_(o),
        source_(source_vectors(scope, o, Decoder::target_)),
        encoder_(word_encoder(scope / "encoder", encoder_options(o))) {
    if constexpr (sizeof...(attention) > 0) options_.score.kind = "own";  // load() refuses it
  }

  /// Token ids source (S, B) i32, mask (S, B) -> annotations and final states
  Encoded encode(const Tensor& source, const Mask& mask) const {
    return encoder_(source_(source), mask);
  }

  Options options() const { return options_; }

 private:
  Options options_;
  WordVectors source_;
  WordEncoder encoder_;
};

enum class Activation { tanh, maxout };

/// Base class of decoders with one recurrent layer: target embedding, a bridge (linear layer) to
/// the initial state, recurrent cell, and the "deep output" of Cho et al. (2014, A.1) and Bahdanau
/// et al. (2014, A.2.2), of state s, embedded previous token y and context c:
///     t = activation(s U_o + y V_o + c C_o + b_o)   (B, R),   logits = t W + b
/// For maxout, U_o, V_o, C_o and b_o have 2R columns. The parameters are "target.E", "bridge.*",
/// "decoder.layer1.*", "readout.*" and "output.*".
class OneLayerDecoder {
 public:
  /// The embedded previous tokens.
  struct Words {
    Var y;   // (T, B, E)
    Var xw;  // gate inputs of the cell, see nn::Recurrent::input: (T, B, gates · H)

    Var operator[](Integer t) const { return xw[t]; }
  };
  struct Output {
    Var s, c;  // state (B, H), context (B, C)
  };

  Words read(const Tensor& previous) const {
    const Var y = target_(previous);
    return {y, cell_.input(y)};
  }

  AffineLogits logits(const Words& words, const std::vector<Output>& outputs) const;

 protected:
  /// `bridge` is the input size of the bridge, `context` is C.
  template <class Options>
  OneLayerDecoder(const nn::Scope& scope, const Options& o, Index bridge, Index context,
                  Activation activation)
      : target_(target_vectors(scope, o)),
        bridge_(scope / "bridge", bridge, o.hidden),
        cell_(scope / "decoder" / "layer1", o.embedding, o.hidden, {.cell = o.cell}),
        activation_(activation),
        readout_dropout_(rate_or(o.readout_dropout, o.dropout)),
        output_(output_layer(scope / "output", o.readout, o.target_vocabulary, o.tied, target_)) {
    const nn::Scope readout = scope / "readout";
    const Index columns = activation == Activation::maxout ? 2 * o.readout : o.readout;
    U_o_ = readout.add("U_o", {o.hidden, columns}, nn::init::glorot());
    V_o_ = readout.add("V_o", {o.embedding, columns}, nn::init::glorot());
    C_o_ = readout.add("C_o", {context, columns}, nn::init::glorot());
    b_o_ = readout.add("b_o", {columns}, nn::init::zeros());
  }

  /// Adds the parameter "decoder.W_c", which maps the context to gate inputs: (context, gates · H).
  Var context_weights(const nn::Scope& scope, Index context) const {
    const Index gates = cell_.gates();
    return (scope / "decoder").add("W_c", {context, gates * cell_.size()}, nn::init::glorot(gates));
  }

  WordVectors target_;
  nn::Linear bridge_;
  nn::Recurrent cell_;

 private:
  Activation activation_;
  Var U_o_, V_o_, C_o_, b_o_;  // (H, .), (E, .), (C, .), (.)
  nn::Dropout readout_dropout_;
  Affine output_;
};

}  // namespace attune::models
