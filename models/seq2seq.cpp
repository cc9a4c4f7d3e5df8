#include <fmt/format.h>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/seq2seq.hpp>
#include <attune/tensor/arrange.hpp>
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
  const std::vector<std::pair<bool, const char*>> no_yes = {{false, "no"}, {true, "yes"}};
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
      choice("residual", "whether layers from the second on add their input", &O::residual, no_yes),
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
             no_yes)};
}

std::vector<Field> output_fields() {
  using O = Options;
  return {choice("readout-kind", "first layer before the softmax", &O::readout_kind,
                 {{ReadoutKind::tanh, "tanh"},
                  {ReadoutKind::maxout, "maxout"},
                  {ReadoutKind::attentional, "attentional"}}),
          choice("readout-state", "decoder state that the readout sees", &O::readout_state,
                 {{ReadoutState::current, "current"}, {ReadoutState::previous, "previous"}}),
          number("readout", "size R of the layers before the softmax", &O::readout, 1),
          number("readout-layers", "layers before the softmax", &O::readout_layers, 1, deepest),
          tied_field<O>(),
          rate("dropout", "rate on embeddings, annotations and readouts, and between layers",
               &O::dropout, 0),
          rate("embedding-dropout", "rate on embeddings; -1: as dropout", &O::embedding_dropout),
          rate("annotation-dropout", "rate on annotations; -1: as dropout", &O::annotation_dropout),
          rate("readout-dropout", "rate on readouts; -1: as dropout", &O::readout_dropout)};
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

// ---- Model

namespace {

nn::StackedOptions stack_options(const Seq2SeqOptions& o, Index layers) {
  return {.layers = layers, .dropout = o.dropout, .residual = o.residual};
}

double dropout_rate(const Seq2SeqOptions& o, double rate) { return rate < 0 ? o.dropout : rate; }

}  // namespace

Encoder::Encoder(const nn::Scope& scope, const Seq2SeqOptions& o)
    : direction_(o.reading == Reading::backward ? Direction::backward : Direction::forward),
      hidden_(encoder_hidden(o)) {
  const nn::StackedOptions stack = stack_options(o, o.encoder_layers);
  const nn::RecurrentOptions cell{.cell = o.encoder_cell};
  if (o.reading == Reading::bidirectional) {
    both_ways_.emplace(scope, o.embedding, hidden_, stack, cell);
  } else {
    one_way_.emplace(scope, o.embedding, hidden_, stack, cell);
  }
  if (o.self_attention > 0) {
    self_attention_.emplace(scope / "self_attention", sizes().h,
                            nn::MultiHeadOptions{.heads = o.self_attention});
  }
}

Encoded Encoder::operator()(const Var& x, const Tensor& mask) const {
  Encoded y = both_ways_ ? encoded_by(*both_ways_, x, mask, direction_)
                         : encoded_by(*one_way_, x, mask, direction_);
  if (self_attention_) y.h = y.h + self_attention_->self(y.h, mask);
  return y;
}

Readout::Readout(const nn::Scope& scope, const Seq2SeqOptions& o, Index context)
    : dropout_(dropout_rate(o, o.readout_dropout)) {
  if (o.readout_kind == ReadoutKind::attentional) {
    W_c_ = scope.add("W_c", {context + o.hidden, o.readout}, nn::init::glorot());
  } else {
    const bool maxout = o.readout_kind == ReadoutKind::maxout;
    deep_.emplace(scope, o, context, maxout ? Activation::maxout : Activation::tanh);
  }
  for (Index l = 2; l <= o.readout_layers; ++l) {
    above_.emplace_back(scope / ("layer" + std::to_string(l)), o.readout, o.readout);
  }
}

Var Readout::first(const Var& y, const Var& s, const Var& c) const {
  if (deep_) return (*deep_)(s, y, c);
  return tanh(matmul(c.defined() ? concat({c, s}, -1) : s, W_c_));
}

Var Readout::rest(Var t) const {
  for (const nn::Linear& layer : above_) t = dropout_(tanh(layer(t)));
  return t;
}

namespace {

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

const Options& checked(const Options& o) {
  for (const auto& [side, size] :
       {std::pair("source", o.source_vocabulary), std::pair("target", o.target_vocabulary)}) {
    if (size < 5) fail("Seq2Seq", fmt::format("{}_vocabulary = {} is less than 5", side, size));
  }
  Options same = o;
  for (const Field& field : seq2seq_fields()) field.set(same, field.get(o));  // throws out of range
  if (o.start == Start::last && encoder_hidden(o) != o.hidden) {
    fail("Seq2Seq",
         fmt::format("a decoder of {} cannot start from the last state of an encoder of {}",
                     o.hidden, encoder_hidden(o)));
  }
  if (!attends(o) && o.score.coverage == nn::Coverage::summed)
    fail("Seq2Seq", "coverage is of attention, and this model has none");
  check_tied(o);
  return o;
}

nn::Embedding source_table(const nn::Scope& scope, const Seq2SeqOptions& o,
                           const nn::Embedding& target) {
  if (o.tied == Tied::all) return target;
  return nn::Embedding(scope / "source", o.source_vocabulary, o.embedding,
                       word_vectors_init(o.encoder_cell));
}

}  // namespace

Seq2Seq::Seq2Seq(const nn::Scope& scope, const Seq2SeqOptions& o,
                 std::optional<nn::Attention> attention)
    : options_(checked(o)),
      target_(scope / "target", o.target_vocabulary, o.embedding,
              o.tied == Tied::none ? word_vectors_init(o.decoder_cell) : output_weights()),
      source_(source_table(scope, o, target_)),
      encoder_(scope / "encoder", o),
      attention_(std::move(attention)),
      decoder_(scope / "decoder", o.embedding, o.hidden, stack_options(o, o.decoder_layers),
               {.cell = o.decoder_cell}),
      readout_(scope / "readout", o, context_size()),
      embedding_dropout_(dropout_rate(o, o.embedding_dropout)),
      annotation_dropout_(dropout_rate(o, o.annotation_dropout)) {
  const EncodedSizes sizes = encoder_.sizes();
  if (o.start == Start::bridge || o.start == Start::mean) {
    bridge_.emplace(scope / "bridge", o.start == Start::mean ? sizes.h : sizes.last,
                    o.decoder_layers * o.hidden);
  }
  if (attention_ && !attends(o)) fail("Seq2Seq", "attention is given, but the decoder has none");
  if (attends(o) && !attention_) {
    const nn::Scope place = scope / "attention";
    attention_.emplace(nn::make_score(place, o.hidden, sizes.h, o.score), place, o.hidden,
                       o.attention);
  }
  const nn::Scope decoder = scope / "decoder";
  const Index gates = decoder_.gates();
  const auto add_input = [&](const char* name, Index size) {
    return decoder.add(name, {size, gates * o.hidden}, nn::init::glorot(gates));
  };
  if (o.attend == Attend::between) {
    second_.emplace(decoder / "second", sizes.h, o.hidden,
                    nn::RecurrentOptions{.cell = o.decoder_cell});
  }
  if (o.attend == Attend::before || o.attend == Attend::last_state) {
    W_c_ = add_input("W_c", context_size());
  }
  if (o.input_feeding) W_feed_ = add_input("W_feed", o.readout);
  if (o.tied == Tied::none) {
    output_ = output_layer(scope / "output", o.readout, o.target_vocabulary).affine();
  } else {
    const Var b = (scope / "output").add("b", {o.target_vocabulary}, nn::init::zeros());
    output_ = {.W = target_.table(), .b = b, .transposed = true};
  }
}

Index Seq2Seq::context_size() const {
  if (options_.attend == Attend::never) return 0;
  return attends(options_) ? encoder_.sizes().h : encoder_.sizes().last;
}

Encoded Seq2Seq::encode(const Tensor& source, const Tensor& mask) const {
  return encoder_(embedding_dropout_(source_(source)), mask);
}

std::vector<nn::RecurrentState> Seq2Seq::first_states(const Encoded& encoded) const {
  const Index batch = encoded.mask.dim(1), hidden = options_.hidden;
  const Var none = zeros({batch, hidden}, encoded.mask.dtype());
  const bool has_c = options_.decoder_cell == nn::Cell::lstm;
  Var bridged;  // (B, layers · H)
  if (bridge_) {
    const Tensor& mask = encoded.mask;
    bridged = tanh((*bridge_)(options_.start == Start::mean
                                  ? weighted_sum(mask / sum(mask, {0}), encoded.h)
                                  : last_state(encoded, "Seq2Seq").h));
  }
  std::vector<nn::RecurrentState> states;
  for (Index l = 0; l < options_.decoder_layers; ++l) {
    nn::RecurrentState state{none, has_c ? none : Var()};
    if (bridge_) state.h = slice(bridged, 1, l * hidden, (l + 1) * hidden);
    if (options_.start == Start::last) {
      const nn::RecurrentState& from = l < std::ssize(encoded.last)
                                           ? encoded.last[static_cast<std::size_t>(l)]
                                           : last_state(encoded, "Seq2Seq");
      state.h = from.h;
      if (has_c && from.c.defined()) state.c = from.c;
    }
    states.push_back(state);
  }
  return states;
}

Seq2Seq::State Seq2Seq::start(const Encoded& encoded) const {
  const Index batch = encoded.mask.dim(1);
  const DType dtype = encoded.mask.dtype();
  auto source = std::make_shared<Source>();
  if (attention_) {
    source->memory = attention_->remember(annotation_dropout_(encoded.h), encoded.mask);
  }
  if (options_.attend == Attend::last_state) {
    source->context = last_state(encoded, "Seq2Seq").h;
    source->share = matmul(source->context, W_c_);
  }
  State state{.source = source, .layers = first_states(encoded), .s = {}};
  state.s = state.layers.back().h;
  if (W_feed_.defined()) state.fed = zeros({batch, options_.readout}, dtype);
  return state;
}

Seq2Seq::Words Seq2Seq::read(const Tensor& previous) const {
  const Var y = embedding_dropout_(target_(previous));
  return {.y = y, .share = decoder_.input(y), .fed = W_feed_.defined()};
}

/// The input of the lowest layer: (B, gates · H)
Var Seq2Seq::input(const Var& share, const Var& context, const State& state) const {
  Var x = share;
  if (options_.attend == Attend::before) x = add_matmul(x, context, W_c_);
  if (options_.attend == Attend::last_state) x = x + state.source->share;
  if (W_feed_.defined()) x = add_matmul(x, state.fed, W_feed_);
  return x;
}

Seq2Seq::Step Seq2Seq::step(const Words& words, const State& state) const {
  const Source& source = *state.source;
  nn::Attended attended{.context = source.context, .weights = {}};
  const auto attend = [&](const Var& query) {
    attended = (*attention_)({.state = query, .past = state.past}, source.memory);
  };
  if (options_.attend == Attend::before) attend(state.s);
  const auto transition = [&](const nn::RecurrentState& lowest) {
    if (!second_) return lowest;
    attend(lowest.h);
    return second_->step(second_->input(attended.context), lowest);
  };
  auto top = decoder_.step(input(words.share, attended.context, state), state.layers, transition);
  if (options_.attend == Attend::after) attend(top.h);
  const bool previous = options_.readout_state == ReadoutState::previous;
  Step step{.output = {previous ? state.s : top.h, attended.context, {}},
            .weights = attended.weights,
            .state = {.source = state.source, .layers = std::move(top.last), .s = top.h}};
  if (attention_) step.state.past = attention_->next(state.past, attended.weights);
  if (W_feed_.defined()) {
    const Var t = readout_.first(words.y, step.output.s, step.output.context);
    step.state.fed = readout_.dropped(t);
    step.output = {{}, {}, step.state.fed};
  }
  return step;
}

AffineLogits Seq2Seq::logits(const Words& words, const std::vector<Output>& outputs) const {
  const Var fed = stack(outputs, &Output::fed);
  const Var first = fed.defined()
                        ? fed
                        : readout_.dropped(readout_.first(words.y, stack(outputs, &Output::s),
                                                          stack(outputs, &Output::context)));
  return {readout_.rest(first), output_};
}

Seq2Seq::State Seq2Seq::select(const State& state, const Tensor& rows) const {
  auto source = std::make_shared<Source>();
  if (attention_) source->memory = nn::select(state.source->memory, rows);
  source->context = nn::select(state.source->context, rows);
  source->share = nn::select(state.source->share, rows);
  return {.source = source,
          .layers = nn::select(state.layers, rows),
          .s = nn::select(state.s, rows),
          .fed = nn::select(state.fed, rows),
          .past = nn::select(state.past, rows)};
}

}  // namespace attune::models
