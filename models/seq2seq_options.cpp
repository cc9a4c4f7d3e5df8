#include <limits>

#include <fmt/format.h>

#include <attune/models/layer_fields.hpp>
#include <attune/models/seq2seq_options.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {
namespace {

using Options = Seq2SeqOptions;

using Field = OptionField<Options>;

template <class Member>
Field number(std::string name, std::string help, Member member, double low, double high) {
  return number_field<Options>(std::move(name), std::move(help), member, low, high);
}

template <class T, class Member>
Field choice(std::string name, std::string help, Member member,
             std::vector<std::pair<T, std::string>> names) {
  return choice_field<Options, T>(std::move(name), std::move(help), member, std::move(names));
}

constexpr double largest = 1 << 16, deepest = 64;

std::vector<Field> size_fields() {
  return {
      number("embedding", "size E of a word's vector", &Options::embedding, 1, largest),
      number("hidden", "size H of the decoder's states", &Options::hidden, 1, largest),
      number("encoder-hidden",
             "size of each direction of the encoder; 0: as the decoder, or half of it for a score "
             "that compares two directions with its state",
             &Options::encoder_hidden, 0, largest),
      number("encoder-layers", "layers of the encoder", &Options::encoder_layers, 1, deepest),
      number("decoder-layers", "layers of the decoder", &Options::decoder_layers, 1, deepest)};
}

std::vector<Field> wiring_fields() {
  return {
      cell_field<Options>("encoder-cell", "cell of the encoder", &Options::encoder_cell),
      cell_field<Options>("decoder-cell", "cell of the decoder", &Options::decoder_cell),
      choice<Reading>("reading", "directions in which the encoder reads", &Options::reading,
                      {{Reading::forward, "forward"},
                       {Reading::backward, "backward"},
                       {Reading::bidirectional, "bidirectional"}}),
      choice<Residual>("residual", "whether layers from the second on add their input",
                       &Options::residual, {{Residual::no, "no"}, {Residual::yes, "yes"}}),
      number("self-attention", "heads of a self-attention layer above the encoder; 0: none",
             &Options::self_attention, 0, largest),
      choice<Start>("start", "decoder's first state", &Options::start,
                    {{Start::zero, "zero"},
                     {Start::last, "last"},
                     {Start::mean, "mean"},
                     {Start::bridge, "bridge"}}),
      choice<Attend>("attend",
                     "when the decoder attends: before its cell, between two cells, or after it; "
                     "last-state: no attention, the encoder's last state is the context; "
                     "never: no attention and no context",
                     &Options::attend,
                     {{Attend::before, "before"},
                      {Attend::between, "between"},
                      {Attend::after, "after"},
                      {Attend::last_state, "last-state"},
                      {Attend::never, "never"}}),
      choice<InputFeeding>("input-feeding", "whether the decoder reads the readout before",
                           &Options::input_feeding,
                           {{InputFeeding::no, "no"}, {InputFeeding::yes, "yes"}})};
}

std::vector<Field> output_fields() {
  return {
      number("coverage-loss", "weight of the loss for attending twice", &Options::coverage_loss, 0,
             1e6),
      choice<ReadoutKind>("readout-kind", "first layer before the softmax", &Options::readout_kind,
                          {{ReadoutKind::tanh, "tanh"},
                           {ReadoutKind::maxout, "maxout"},
                           {ReadoutKind::attentional, "attentional"}}),
      choice<ReadoutState>(
          "readout-state", "decoder state that the readout sees", &Options::readout_state,
          {{ReadoutState::current, "current"}, {ReadoutState::previous, "previous"}}),
      number("readout", "size R of the layers before the softmax", &Options::readout, 1, largest),
      number("readout-layers", "layers before the softmax", &Options::readout_layers, 1, deepest),
      choice<Tied>(
          "tied", "which tables of word vectors are the same one", &Options::tied,
          {{Tied::none, "none"}, {Tied::target_output, "target-output"}, {Tied::all, "all"}}),
      number("dropout", "rate on embeddings, annotations and readouts, and between layers",
             &Options::dropout, 0, 0.99),
      number("embedding-dropout", "rate on embeddings; -1: as dropout", &Options::embedding_dropout,
             -1, 0.99),
      number("annotation-dropout", "rate on annotations; -1: as dropout",
             &Options::annotation_dropout, -1, 0.99),
      number("readout-dropout", "rate on readouts; -1: as dropout", &Options::readout_dropout, -1,
             0.99),
      choice<nn::DropoutKind>("dropout-kind",
                              "whether all words of a sentence share what is dropped",
                              &Options::dropout_kind,
                              {{nn::DropoutKind::elementwise, "elementwise"},
                               {nn::DropoutKind::per_sequence, "per-sequence"}}),
      number("label-smoothing", "share of the target probability spread over all words",
             &Options::label_smoothing, 0, 0.99)};
}

void require_at_least(const char* name, Index value, Index least) {
  if (value < least) fail("Seq2Seq", fmt::format("{} = {} is less than {}", name, value, least));
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
  require_at_least("source_vocabulary", o.source_vocabulary, 5);
  require_at_least("target_vocabulary", o.target_vocabulary, 5);
  require_at_least("embedding", o.embedding, 1);
  require_at_least("hidden", o.hidden, 1);
  require_at_least("encoder_hidden", o.encoder_hidden, 0);
  require_at_least("encoder_layers", o.encoder_layers, 1);
  require_at_least("decoder_layers", o.decoder_layers, 1);
  require_at_least("self_attention", o.self_attention, 0);
  require_at_least("attention", o.score.attention, 1);
  require_at_least("readout", o.readout, 1);
  require_at_least("readout_layers", o.readout_layers, 1);
  if (!(o.label_smoothing >= 0 && o.label_smoothing < 1)) {
    fail("Seq2Seq", fmt::format("label_smoothing = {} is not in [0, 1)", o.label_smoothing));
  }
  if (!(o.coverage_loss >= 0)) {
    fail("Seq2Seq", fmt::format("coverage_loss = {} is less than 0", o.coverage_loss));
  }
  if (o.start == Start::last && encoder_hidden(o) != o.hidden) {
    fail("Seq2Seq",
         fmt::format("a decoder of {} cannot start from the last state of an encoder of {}",
                     o.hidden, encoder_hidden(o)));
  }
  if (!attends(o) && (o.score.coverage == nn::Coverage::summed || o.coverage_loss > 0)) {
    fail("Seq2Seq", "coverage is of attention, and this model has none");
  }
  check_tied(o);
}

std::span<const OptionField<Options>> seq2seq_fields() {
  static const std::vector<Field> fields = [] {
    std::vector<Field> all;
    for (const auto& some :
         {size_fields(), wiring_fields(), attention_fields<Options>(), output_fields()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return fields;
}

void set(Options& options, const std::string& name, const std::string& value) {
  set_field(seq2seq_fields(), options, name, value);
}

std::map<std::string, std::string> to_map(const Options& options) {
  return fields_to_map(seq2seq_fields(), options);
}

Options seq2seq_options_from(const std::map<std::string, std::string>& map) {
  Options options;
  set_fields_from(seq2seq_fields(), options, map, {"filters", "radius"});
  return options;
}

}  // namespace attune::models
