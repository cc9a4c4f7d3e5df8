// Parts of the models of papers.
#pragma once

#include <type_traits>
#include <vector>

#include <attune/models/decoder.hpp>
#include <attune/models/option_field.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/nn/recurrent.hpp>

namespace attune::models {

/// Which of the three tables of word vectors are one (Press and Wolf, 2017).
enum class Tied { none, target_output, all };

template <class Options>
OptionField<Options> tied_field() {
  return choice_field<Options, Tied>(
      "tied", "which tables of word vectors are the same one", &Options::tied,
      {{Tied::none, "none"}, {Tied::target_output, "target-output"}, {Tied::all, "all"}});
}

/// Initial vectors of the words that a cell reads. Small ones move fast under Adam, and a GRU
/// learns best from them. An LSTM passes on about a quarter of a small input, and two layers a
/// sixteenth: it needs vectors as large as its gates' other inputs. Tatoeba German-English, BLEU of
/// the validation after 1000 updates with N(0, 0.1²), N(0, 0.3²) and N(0, 1): conditional GRU 28.0,
/// 25.9 and 21.3, Luong with two layers of LSTM 7.4, 9.4 and 13.7.
inline nn::Init word_vectors_init(nn::Cell cell) {
  return nn::init::normal(cell == nn::Cell::lstm ? 1 : 0.1);
}

/// An embedding and its dropout: ids (...) -> (..., E)
class WordVectors {
 public:
  WordVectors(const nn::Scope& scope, Index vocabulary, Index size, nn::Cell cell, double dropout)
      : table_(scope, vocabulary, size, word_vectors_init(cell)), dropout_(dropout) {}

  Var operator()(const Tensor& ids) const { return dropout_(table_(ids)); }

 private:
  nn::Embedding table_;
  nn::Dropout dropout_;
};

/// Recurrent layers of the sizes, the cell and the dropout in the options: one, unless these say
/// how many.
template <class Layer = nn::Recurrent, class Options>
nn::Stacked<Layer> stack_of(const nn::Scope& scope, const Options& o) {
  Index layers = 1;
  if constexpr (requires { o.layers; }) layers = o.layers;
  return {scope, o.embedding, o.hidden, {.layers = layers, .dropout = o.dropout}, {.cell = o.cell}};
}

/// x (S, B, E), mask (S, B). Of layers in both directions the last states are the backward ones.
template <class Layer>
Encoded encoded_by(const nn::Stacked<Layer>& layers, const Var& x, const Mask& mask,
                   Direction direction) {
  const auto [h, last] = layers(x, {.mask = mask, .direction = direction});
  if constexpr (std::is_same_v<typename Layer::State, nn::RecurrentState>) {
    return {h, last, mask};
  } else {
    Encoded encoded{h, {}, mask};
    for (const auto& state : last) encoded.last.push_back(state.backward);
    return encoded;
  }
}

/// A decoder with an encoder of words, with the parameters "source.E" and "encoder.*".
template <class Decoder, class Layer = nn::Recurrent, Direction direction = Direction::forward>
class WithEncoder : public Decoder {
 public:
  using Options = typename Decoder::Options;

  /// `attention` is that of a decoder which has one, for attention of your own.
  WithEncoder(const nn::Scope& scope, const Options& o, const auto&... attention)
      : Decoder(scope, o, {.h = is_both_ways ? 2 * o.hidden : o.hidden, .last = o.hidden},
                attention...),
        source_(scope / "source", o.source_vocabulary, o.embedding, o.cell, o.dropout),
        encoder_(stack_of<Layer>(scope / "encoder", o)) {}

  /// source (S, B) i32, mask (S, B)
  Encoded encode(const Tensor& source, const Mask& mask) const {
    return encoded_by(encoder_, source_(source), mask, direction);
  }

 private:
  static constexpr bool is_both_ways = !std::is_same_v<Layer, nn::Recurrent>;

  WordVectors source_;
  nn::Stacked<Layer> encoder_;
};

enum class Activation { tanh, maxout };

/// The activation of s U_o + y V_o + c C_o + b_o, with maxout of columns twice as many: the "deep
/// output" of Cho et al. (2014, A.1) and of Bahdanau et al. (2014, A.2.2).
class DeepOutput {
 public:
  /// `context` is C, 0 where there is none.
  template <class Options>
  DeepOutput(const nn::Scope& scope, const Options& o, Index context, Activation activation)
      : activation_(activation) {
    const Index columns = activation == Activation::maxout ? 2 * o.readout : o.readout;
    U_o_ = scope.add("U_o", {o.hidden, columns}, nn::init::glorot());
    V_o_ = scope.add("V_o", {o.embedding, columns}, nn::init::glorot());
    if (context > 0) C_o_ = scope.add("C_o", {context, columns}, nn::init::glorot());
    b_o_ = scope.add("b_o", {columns}, nn::init::zeros());
  }

  /// s (..., H), y (..., E), c (..., C) -> (..., R); c is undefined where there is no context
  Var operator()(const Var& s, const Var& y, const Var& c) const {
    Var t = add_matmul(add_matmul(b_o_, s, U_o_), y, V_o_);
    if (c.defined()) t = add_matmul(t, c, C_o_);
    return activation_ == Activation::maxout ? maxout(t) : tanh(t);
  }

 private:
  Activation activation_;
  Var U_o_, V_o_, C_o_, b_o_;  // of H, E and C rows, and the bias
};

/// Glorot's bound of √(6 / (R + V)) is 0.027 at V = 8000: logits, and the gradient that reaches
/// what is below, would start near nothing.
inline nn::Init output_weights() { return nn::init::normal(0.1); }

inline nn::Linear output_layer(const nn::Scope& scope, Index readout, Index vocabulary) {
  return nn::Linear(scope, readout, vocabulary, {.weight_init = output_weights()});
}

/// Base of the decoders of one layer: the target's word vectors, the bridge to the first state, the
/// cell and a deep output, with the parameters "target.E", "bridge.*", "decoder.layer1.*",
/// "readout.*" and "output.*".
class OneLayerDecoder {
 public:
  /// The previous words, as the cell reads them.
  struct Words {
    Var y;      // E y: (T, B, E)
    Var share;  // what it adds to the cell's gates: (T, B, gates · H)

    Var operator[](Index t) const { return share[t]; }
  };
  struct Output {
    Var s, c;  // (B, H), and the context (B, C)
  };

  Words read(const Tensor& previous) const {
    const Var y = target_(previous);
    return {y, cell_.input(y)};
  }

  AffineLogits logits(const Words& words, const std::vector<Output>& outputs) const {
    const Var s = stack(outputs, &Output::s), c = stack(outputs, &Output::c);
    return {dropout_(readout_(s, words.y, c)), output_.affine()};
  }

 protected:
  /// `bridge` is the size of what the first state is made of, `context` is C.
  template <class Options>
  OneLayerDecoder(const nn::Scope& scope, const Options& o, Index bridge, Index context,
                  Activation activation)
      : target_(scope / "target", o.target_vocabulary, o.embedding, o.cell, o.dropout),
        bridge_(scope / "bridge", bridge, o.hidden),
        cell_(scope / "decoder" / "layer1", o.embedding, o.hidden, {.cell = o.cell}),
        dropout_(o.dropout),
        readout_(scope / "readout", o, context, activation),
        output_(output_layer(scope / "output", o.readout, o.target_vocabulary)) {}

  /// "decoder.W_c", from the context to the gates: (context, gates · H)
  Var context_weights(const nn::Scope& scope, Index context) const {
    const Index gates = cell_.gates();
    return (scope / "decoder").add("W_c", {context, gates * cell_.size()}, nn::init::glorot(gates));
  }

  WordVectors target_;
  nn::Linear bridge_;
  nn::Recurrent cell_;
  nn::Dropout dropout_;  // of annotations and readouts

 private:
  DeepOutput readout_;
  nn::Linear output_;
};

}  // namespace attune::models
