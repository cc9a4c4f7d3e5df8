#include <fmt/format.h>

#include <attune/models/layer_fields.hpp>
#include <attune/models/seq2seq_options.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {
namespace {

using Options = Seq2SeqOptions;

using Field = OptionField<Options>;

constexpr double largest = 1 << 16, deepest = 64;

Field number(const char* name, const char* help, Index Options::*member, Index low,
             double high = largest) {
  return number_field<Options>(name, help, member, static_cast<double>(low), high);
}
Field rate(const char* name, const char* help, double Options::*member, double low = -1) {
  return number_field<Options>(name, help, member, low, 0.99);
}
template <class T>
Field choice(const char* name, const char* help, T Options::*member,
             const std::vector<std::pair<T, const char*>>& names) {
  return choice_field<Options, T>(name, help, member, names);
}

std::vector<Field> size_and_wiring_fields() {
  using O = Options;
  return {
      number("embedding", "size E of a word's vector", &O::embedding, 1),
      number("hidden", "size H of the decoder's states", &O::hidden, 1),
      number("encoder-hidden",
             "size of each direction of the encoder; 0: as the decoder, or half of it for a score "
             "that compares two directions with its state",
             &O::encoder_hidden, 0),
      number("encoder-layers", "layers of the encoder", &O::encoder_layers, 1, deepest),
      number("decoder-layers", "layers of the decoder", &O::decoder_layers, 1, deepest),
      cell_field<O>("encoder-cell", "cell of the encoder", &O::encoder_cell),
      cell_field<O>("decoder-cell", "cell of the decoder", &O::decoder_cell),
      choice("reading", "directions in which the encoder reads", &O::reading,
             {{Reading::forward, "forward"},
              {Reading::backward, "backward"},
              {Reading::bidirectional, "bidirectional"}}),
      choice("residual", "whether layers from the second on add their input", &O::residual,
             {{Residual::no, "no"}, {Residual::yes, "yes"}}),
      number("self-attention", "heads of a self-attention layer above the encoder; 0: none",
             &O::self_attention, 0),
      choice("start", "decoder's first state", &O::start,
             {{Start::zero, "zero"},
              {Start::last, "last"},
              {Start::mean, "mean"},
              {Start::bridge, "bridge"}}),
      choice("attend",
             "when the decoder attends: before its cell, between two cells, or after it; "
             "last-state: no attention, the encoder's last state is the context; "
             "never: no attention and no context",
             &O::attend,
             {{Attend::before, "before"},
              {Attend::between, "between"},
              {Attend::after, "after"},
              {Attend::last_state, "last-state"},
              {Attend::never, "never"}}),
      choice("input-feeding", "whether the decoder reads the readout before", &O::input_feeding,
             {{InputFeeding::no, "no"}, {InputFeeding::yes, "yes"}})};
}

std::vector<Field> output_fields() {
  using O = Options;
  return {
      choice("readout-kind", "first layer before the softmax", &O::readout_kind,
             {{ReadoutKind::tanh, "tanh"},
              {ReadoutKind::maxout, "maxout"},
              {ReadoutKind::attentional, "attentional"}}),
      choice("readout-state", "decoder state that the readout sees", &O::readout_state,
             {{ReadoutState::current, "current"}, {ReadoutState::previous, "previous"}}),
      number("readout", "size R of the layers before the softmax", &O::readout, 1),
      number("readout-layers", "layers before the softmax", &O::readout_layers, 1, deepest),
      choice("tied", "which tables of word vectors are the same one", &O::tied,
             {{Tied::none, "none"}, {Tied::target_output, "target-output"}, {Tied::all, "all"}}),
      rate("dropout", "rate on embeddings, annotations and readouts, and between layers",
           &O::dropout, 0),
      rate("embedding-dropout", "rate on embeddings; -1: as dropout", &O::embedding_dropout),
      rate("annotation-dropout", "rate on annotations; -1: as dropout", &O::annotation_dropout),
      rate("readout-dropout", "rate on readouts; -1: as dropout", &O::readout_dropout),
      choice("dropout-kind", "whether all words of a sentence share what is dropped",
             &O::dropout_kind,
             {{nn::DropoutKind::elementwise, "elementwise"},
              {nn::DropoutKind::per_sequence, "per-sequence"}})};
}

/// A table shared with the output gives logits of the readout as it is.
void check_tied(const Options& o) {
  if (o.tied == Tied::none) return;
  if (o.readout != o.embedding) {
    fail("Seq2Seq", fmt::format("tied tables take a readout of the embedding's size {}, not {}",
                                o.embedding, o.readout));
  }
  if (o.tied == Tied::all && o.source_vocabulary != o.target_vocabulary) {
    fail("Seq2Seq", fmt::format("one table for all takes one vocabulary, not {} and {} words",
                                o.source_vocabulary, o.target_vocabulary));
  }
}

}  // namespace

bool attends(const Options& o) {
  return o.attend != Attend::last_state && o.attend != Attend::never;
}

Index encoder_hidden(const Options& o) {
  if (o.encoder_hidden > 0) return o.encoder_hidden;
  const bool two = o.reading == Reading::bidirectional;
  return attends(o) && nn::score_kind(o.score.kind).direct && two ? o.hidden / 2 : o.hidden;
}

void check(const Options& o) {
  const struct {
    const char* name;
    Index value, least;
  } sizes[] = {{"source_vocabulary", o.source_vocabulary, 5},
               {"target_vocabulary", o.target_vocabulary, 5},
               {"embedding", o.embedding, 1},
               {"hidden", o.hidden, 1},
               {"encoder_hidden", o.encoder_hidden, 0},
               {"encoder_layers", o.encoder_layers, 1},
               {"decoder_layers", o.decoder_layers, 1},
               {"self_attention", o.self_attention, 0},
               {"attention", o.score.attention, 1},
               {"readout", o.readout, 1},
               {"readout_layers", o.readout_layers, 1}};
  for (const auto& [name, value, least] : sizes) {
    if (value < least) fail("Seq2Seq", fmt::format("{} = {} is less than {}", name, value, least));
  }
  if (o.start == Start::last && encoder_hidden(o) != o.hidden) {
    fail("Seq2Seq",
         fmt::format("a decoder of {} cannot start from the last state of an encoder of {}",
                     o.hidden, encoder_hidden(o)));
  }
  if (!attends(o) && o.score.coverage == nn::Coverage::summed)
    fail("Seq2Seq", "coverage is of attention, and this model has none");
  check_tied(o);
}

std::span<const OptionField<Options>> seq2seq_fields() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> all;
    for (const auto& some :
         {size_and_wiring_fields(), attention_fields<Options>(), output_fields()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return fields;
}

void set(Options& options, const std::string& name, const std::string& value) {
  set_field(seq2seq_fields(), options, name, value);
}

}  // namespace attune::models
