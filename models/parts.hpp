// Parts of the models of papers.
#pragma once

#include <functional>
#include <vector>

#include <attune/models/decoder.hpp>
#include <attune/models/options.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/nn/recurrent.hpp>

namespace attune::models {

/// Which of the three tables of word vectors are one (Press and Wolf, 2017).
enum class Tied { none, target_output, all };

Option tied_option(Tied& tied);

inline constexpr double largest_size = 1 << 16, most_layers = 64, highest_dropout = 0.99;

/// The options as they are, once each is found in its range. Throws in the name of the option.
template <class Options>
const Options& checked(const Options& options) {
  Options copy = options;
  for (const Option& one : options_of(copy)) one.set(one.get());
  return options;
}

/// A rate of dropout that has a default: the other one where it is negative.
inline double rate_or(double rate, double otherwise) { return rate < 0 ? otherwise : rate; }

/// Glorot's bound of √(6 / (R + V)) is 0.027 at V = 8000: logits, and the gradient that reaches
/// what is below, would start near nothing.
inline nn::Init output_weights() { return nn::init::normal(0.1); }

/// Initial vectors of the words that a cell reads. Small ones move fast under Adam, and a GRU
/// learns best from them. An LSTM passes on about a quarter of a small input, and two layers a
/// sixteenth: it needs vectors as large as its gates' other inputs. Tatoeba German-English, BLEU of
/// the validation after 1000 updates with N(0, 0.1²), N(0, 0.3²) and N(0, 1): conditional GRU 28.0,
/// 25.9 and 21.3, Luong with two layers of LSTM 7.4, 9.4 and 13.7.
inline nn::Init word_vectors_init(nn::Cell cell) {
  return nn::init::normal(cell == nn::Cell::lstm ? 1 : 0.1);
}

/// Throws where Tied::all meets two vocabularies.
void require_one_vocabulary(Index source, Index target);

/// An embedding and its dropout: ids (...) -> (..., E)
struct WordVectors {
  nn::Embedding table;
  nn::Dropout dropout;

  Var operator()(const Tensor& ids) const { return dropout(table(ids)); }
};

/// "target.E". A table that is the output's, too, begins as that one does.
template <class Options>
WordVectors target_vectors(const nn::Scope& scope, const Options& o) {
  const nn::Init init = o.tied == Tied::none ? word_vectors_init(o.cell) : output_weights();
  return {nn::Embedding(scope / "target", o.target_vocabulary, o.embedding, init),
          nn::Dropout(rate_or(o.embedding_dropout, o.dropout))};
}

/// "source.E", or the target's where one table is for all. Throws where the vocabularies differ.
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

/// The output layer of readouts (..., R), "output.W" (R, V) and "output.b" (V); with a tied table
/// (V, E) instead of W. Throws where R is not E then.
Affine output_layer(const nn::Scope& scope, Index readout, Index vocabulary, Tied tied,
                    const WordVectors& target);

/// In which direction an encoder reads. `backward` is the reversed source of Sutskever et al.
/// (2014); `bidirectional` is Bahdanau et al. (2014), equation 7: annotations [→h_j; ←h_j].
enum class EncoderDirection { forward, backward, bidirectional };

struct WordEncoderOptions {
  Index embedding, hidden;  // E; H of each direction
  Index layers;
  nn::Cell cell;
  EncoderDirection reading;
  double dropout;  // between layers

  EncodedSizes sizes() const {
    return {.h = reading == EncoderDirection::bidirectional ? 2 * hidden : hidden, .last = hidden};
  }
};

/// x (S, B, E), mask (S, B)
using WordEncoder = std::function<Encoded(const Var& x, const Mask& mask)>;

/// Recurrent layers "layer1" and so on, or "layer1.forward" and "layer1.backward", of which each
/// reads the outputs of both directions below it; the last states are then the backward ones.
WordEncoder word_encoder(const nn::Scope& scope, const WordEncoderOptions& options);

/// A decoder with an encoder of words, of the parameters "source.E" and "encoder.*". The decoder has
/// encoder_options(Options).
template <class Decoder>
class WithEncoder : public Decoder {
 public:
  using Options = typename Decoder::Options;

  /// `attention` is that of a decoder which has one, for attention of your own. Throws on options
  /// out of their ranges, and on those that do not fit together.
  WithEncoder(const nn::Scope& scope, const Options& o, const auto&... attention)
      : Decoder(scope, checked(o), encoder_options(o).sizes(), attention...),
        options_(o),
        source_(source_vectors(scope, o, Decoder::target_)),
        encoder_(word_encoder(scope / "encoder", encoder_options(o))) {}

  /// source (S, B) i32, mask (S, B)
  Encoded encode(const Tensor& source, const Mask& mask) const {
    return encoder_(source_(source), mask);
  }

  const Options& options() const { return options_; }

 private:
  Options options_;
  WordVectors source_;
  WordEncoder encoder_;
};

enum class Activation { tanh, maxout };

/// Base of the decoders of one layer: the target's word vectors, the bridge to the first state, the
/// cell, and the "deep output" of Cho et al. (2014, A.1) and of Bahdanau et al. (2014, A.2.2), with
/// the parameters "target.E", "bridge.*", "decoder.layer1.*", "readout.*" and "output.*":
///     t = activation(s U_o + y V_o + c C_o + b_o), with maxout of columns twice as many
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
    std::vector<Var> all_s, all_c;
    for (const Output& output : outputs) all_s.push_back(output.s), all_c.push_back(output.c);
    const Var s = stack(all_s), c = stack(all_c);  // (T, B, H), (T, B, C)
    const Var t = add_matmul(add_matmul(add_matmul(b_o_, s, U_o_), words.y, V_o_), c, C_o_);
    return {readout_dropout_(activation_ == Activation::maxout ? maxout(t) : tanh(t)), output_};
  }

 protected:
  /// `bridge` is the size of what the first state is made of, `context` is C.
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

  /// "decoder.W_c", from the context to the gates: (context, gates · H)
  Var context_weights(const nn::Scope& scope, Index context) const {
    const Index gates = cell_.gates();
    return (scope / "decoder").add("W_c", {context, gates * cell_.size()}, nn::init::glorot(gates));
  }

  WordVectors target_;
  nn::Linear bridge_;
  nn::Recurrent cell_;

 private:
  Activation activation_;
  Var U_o_, V_o_, C_o_, b_o_;  // of H, E and C rows, and the bias
  nn::Dropout readout_dropout_;
  Affine output_;
};

}  // namespace attune::models
