#include <fmt/format.h>

#include <attune/models/papers.hpp>
#include <attune/tensor/fail.hpp>

namespace attune::models {

// ---- Options

/// A cell of your own has no name.
template <>
const detail::FieldAccess& detail::field_access<nn::CellType>() {
  static const FieldAccess& builtin = field_access<Enumeration>();
  static constexpr FieldAccess access{
      [](const Option& option, const void* at) {
        const auto& [cell, own] = *static_cast<const nn::CellType*>(at);
        if (own) fail(option.name, "a cell of your own has no name: save only its parameters");
        return builtin.get(option, &cell);
      },
      [](const Option& option, void* at, const std::string& text) {
        auto& [cell, own] = *static_cast<nn::CellType*>(at);
        builtin.set(option, &cell, text);
        own = nullptr;
      },
      [](const Option& option, const void* at) { builtin.validate(option, at); }};
  return access;
}

namespace {

/// The options of a score and of its attention.
OptionList fields_of(nn::ScoreOptions& score, nn::AttentionOptions& attention) {
  constexpr double longest = 1 << 20;
  std::vector<std::string> kinds, normalizers;
  for (const nn::ScoreKind& kind : nn::score_kinds()) kinds.emplace_back(kind.name);
  for (const nn::NormalizerKind& kind : nn::normalizer_kinds()) normalizers.emplace_back(kind.name);
  OptionList all = {
      choice("score", "attention score function", score.kind, kinds),
      option("attention", "attention size A of additive, concat, multi-head and location-aware",
             score.attention, 1, largest_size),
      option("heads", "number of heads of multi-head", score.heads, 1, largest_size),
      option("longest", "maximum source length of location", score.longest, 1, longest),
      option("filters", "number of filters of location-aware", score.filters, 1, largest_size),
      option("radius", "filter radius of location-aware, in positions to each side", score.radius,
             0, longest),
      choice("concat-form", "concat: learnt matrix or identity for the memory", score.concat,
             {"full", "identity"}),
      choice("coverage", "whether the score uses the sum of previous weights", score.coverage,
             {"none", "summed"}),
      choice("window", "source positions that a step attends to", attention.window,
             {"global", "local-m", "local-p"}),
      option("half-width", "half-width D of the window", attention.half_width, 1, longest),
      choice("normalizer", "function from scores to weights", attention.normalizer, normalizers)};
  using Score = const nn::ScoreOptions&;
  only_with(all, {"attention"}, "score additive, concat (full), multi-head or location-aware",
            score, [](Score o) {
              return o.kind == "additive" || o.kind == "multi_head" || o.kind == "location_aware" ||
                     (o.kind == "concat" && o.concat == nn::ConcatForm::full);
            });
  only_with(all, {"heads"}, "score multi-head", score,
            [](Score o) { return o.kind == "multi_head"; });
  only_with(all, {"longest"}, "score location", score,
            [](Score o) { return o.kind == "location"; });
  only_with(all, {"filters", "radius"}, "score location-aware", score,
            [](Score o) { return o.kind == "location_aware"; });
  only_with(all, {"concat-form"}, "score concat", score,
            [](Score o) { return o.kind == "concat"; });
  only_with(all, {"half-width"}, "a window", attention,
            [](const nn::AttentionOptions& o) { return o.window != nn::Window::global; });
  return all;
}

/// The options that the options struct of a model has.
template <class Options>
OptionList paper_options(Options& o) {
  OptionList all;
  const auto layers = [&](const char* name, const char* help, Index& value) {
    all.push_back(option(name, help, value, 1, most_layers));
  };
  all.push_back(option("embedding", "embedding size E", o.embedding, 1, largest_size));
  all.push_back(option("hidden", "hidden size H", o.hidden, 1, largest_size));
  if constexpr (requires { o.layers; }) layers("layers", "layers of encoder and decoder", o.layers);
  if constexpr (requires { o.encoder_layers; })
    layers("encoder-layers", "layers of the encoder", o.encoder_layers);
  if constexpr (requires { o.decoder_layers; })
    layers("decoder-layers", "layers of the decoder", o.decoder_layers);
  if constexpr (requires { o.reading; })
    all.push_back(choice("reading", "direction of the encoder", o.reading,
                         {"forward", "backward", "bidirectional"}));
  all.push_back(
      choice("cell", "cell of encoder and decoder", o.cell, {"lstm", "gru", "gru-reset-before"}));
  if constexpr (requires { o.score; }) append(all, fields_of(o.score, o.attention));
  if constexpr (requires { o.input_feeding; })
    all.push_back(choice("input-feeding", "previous readout is a decoder input", o.input_feeding));
  if constexpr (requires { o.readout; })
    all.push_back(option("readout", "size R of the readout layer", o.readout, 1, largest_size));
  all.push_back(tied_option(o.tied));
  all.push_back(option("dropout",
                       "dropout rate on embeddings, annotations, readouts and between layers",
                       o.dropout, 0, highest_dropout));
  const auto rate = [&](const char* name, const char* help, double& value) {
    all.push_back(option(name, help, value, -1, highest_dropout));
  };
  rate("embedding-dropout", "rate on embeddings; -1: as --dropout", o.embedding_dropout);
  if constexpr (requires { o.annotation_dropout; })
    rate("annotation-dropout", "rate on annotations; -1: as --dropout", o.annotation_dropout);
  rate("readout-dropout", "rate on readouts; -1: as --dropout", o.readout_dropout);
  return all;
}

}  // namespace

OptionList fields_of(BahdanauOptions& options) { return paper_options(options); }
OptionList fields_of(LuongOptions& options) { return paper_options(options); }
OptionList fields_of(EncoderDecoderOptions& options) { return paper_options(options); }
OptionList fields_of(SutskeverOptions& options) { return paper_options(options); }

WordEncoderOptions encoder_options(const BahdanauOptions& o) {
  // A direct score requires annotations of the size of the decoder's state.
  const Index hidden = nn::score_kind(o.score.kind).direct ? o.hidden / 2 : o.hidden;
  return {o.embedding, hidden, o.encoder_layers, o.cell, EncoderDirection::bidirectional,
          o.dropout};
}
WordEncoderOptions encoder_options(const LuongOptions& o) {
  return {o.embedding, o.hidden, o.encoder_layers, o.cell, o.reading, o.dropout};
}
WordEncoderOptions encoder_options(const EncoderDecoderOptions& o) {
  return {o.embedding, o.hidden, 1, o.cell, EncoderDirection::forward, o.dropout};
}
WordEncoderOptions encoder_options(const SutskeverOptions& o) {
  return {o.embedding, o.hidden, o.layers, o.cell, EncoderDirection::backward, o.dropout};
}

// ---- Decoders

AttentionDecoder::AttentionDecoder(const nn::Scope& scope, const Options& o, EncodedSizes source,
                                   Index bridge, Activation activation,
                                   const std::optional<nn::Attention>& attention)
    : OneLayerDecoder(scope, o, bridge, source.h, activation),
      attention_(attention ? *attention : attention_of(scope, o, source)),
      annotation_dropout_(rate_or(o.annotation_dropout, o.dropout)) {}

AttentionDecoder::State AttentionDecoder::start(const Encoded& source, const Var& x) const {
  const Var h = annotation_dropout_(source.h);
  return {attention_.precompute(h, source.mask), {}, {.h = tanh(bridge_(x))}};
}

AttentionDecoder::Step AttentionDecoder::after(const State& before, const nn::RecurrentState& s,
                                               nn::AttentionResult&& read) {
  auto& [c, alpha, past] = read;
  return {{s.h, c}, nn::mean_of_heads(alpha), {before.memory, std::move(past), s}};
}

AttentionDecoder::State AttentionDecoder::select(const State& state, const Tensor& rows) const {
  return {nn::select(state.memory, rows), nn::select(state.past, rows), nn::select(state.s, rows)};
}

BahdanauDecoder::BahdanauDecoder(const nn::Scope& scope, const BahdanauOptions& o,
                                 EncodedSizes source, const std::optional<nn::Attention>& attention)
    : AttentionDecoder(scope, o, source, source.last, Activation::maxout, attention),
      C_(context_weights(scope, source.h)) {}

BahdanauDecoder::State BahdanauDecoder::start(const Encoded& source) const {
  return AttentionDecoder::start(source, last_state(source, "Bahdanau").h);  // tanh(W_s ←h_1)
}

BahdanauDecoder::Step BahdanauDecoder::step(const Var& xw, const State& before) const {
  nn::AttentionResult read = attention_({before.s.h, before.past}, before.memory);  // eq. 5 and 6
  return after(before, cell_.step(add_matmul(xw, read.context, C_), before.s), std::move(read));
}

NematusDecoder::NematusDecoder(const nn::Scope& scope, const BahdanauOptions& o,
                               EncodedSizes source, const std::optional<nn::Attention>& attention)
    : AttentionDecoder(scope, o, source, source.h, Activation::tanh, attention),
      second_(scope / "decoder" / "second", source.h, o.hidden, {.cell = o.cell}) {}

NematusDecoder::State NematusDecoder::start(const Encoded& source) const {
  return AttentionDecoder::start(source, mean_annotation(source));
}

NematusDecoder::Step NematusDecoder::step(const Var& xw, const State& before) const {
  const nn::RecurrentState between = cell_.step(xw, before.s);
  nn::AttentionResult read = attention_({between.h, before.past}, before.memory);
  return after(before, second_.step(second_.input(read.context), between), std::move(read));
}

LuongDecoder::LuongDecoder(const nn::Scope& scope, const LuongOptions& o, EncodedSizes source,
                           const std::optional<nn::Attention>& attention)
    : target_(target_vectors(scope, o)),
      attention_(attention ? *attention : attention_of(scope, o, source)),
      decoder_(scope / "decoder", o.embedding, o.hidden,
               {.layers = o.decoder_layers, .dropout = o.dropout}, {.cell = o.cell}),
      cell_(o.cell),
      layers_(static_cast<std::size_t>(o.decoder_layers)),
      W_c_((scope / "readout").add("W_c", {source.h + o.hidden, o.hidden}, nn::init::glorot())),
      output_(output_layer(scope / "output", o.hidden, o.target_vocabulary, o.tied, target_)),
      annotation_dropout_(rate_or(o.annotation_dropout, o.dropout)),
      readout_dropout_(rate_or(o.readout_dropout, o.dropout)) {
  if (source.last != o.hidden)
    fail("Luong", "a decoder of {} cannot start from a final encoder state of {}", o.hidden,
         source.last);
  if (!o.input_feeding) return;
  const Index gates = decoder_.gates();
  W_feed_ =
      (scope / "decoder").add("W_feed", {o.hidden, gates * o.hidden}, nn::init::glorot(gates));
}

LuongDecoder::State LuongDecoder::start(const Encoded& source) const {
  std::vector<nn::RecurrentState> layers = initial_states(source, cell_, "Luong");
  layers.resize(layers_, layers.back());
  return {.memory = attention_.precompute(annotation_dropout_(source.h), source.mask),
          .past = {},
          .layers = std::move(layers),
          .h_tilde = zeros({source.mask.dim(1), W_c_.dim(1)}, source.h.dtype())};
}

LuongDecoder::Step LuongDecoder::step(const Var& xw, const State& before) const {
  const Var x = W_feed_.defined() ? add_matmul(xw, before.h_tilde, W_feed_) : xw;
  const auto [h, layers] = decoder_.step(x, before.layers);
  auto [c, alpha, past] = attention_({.state = h, .past = before.past}, before.memory);
  const Var h_tilde = readout_dropout_(tanh(matmul(concat({c, h}, -1), W_c_)));  // equation 5
  return {h_tilde, nn::mean_of_heads(alpha), {before.memory, std::move(past), layers, h_tilde}};
}

AffineLogits LuongDecoder::logits(const Var&, const std::vector<Var>& h_tilde) const {
  return {stack(h_tilde), output_};
}

LuongDecoder::State LuongDecoder::select(const State& state, const Tensor& rows) const {
  return {nn::select(state.memory, rows), nn::select(state.past, rows),
          nn::select(state.layers, rows), nn::select(state.h_tilde, rows)};
}

LastStateDecoder::LastStateDecoder(const nn::Scope& scope, const EncoderDecoderOptions& o,
                                   EncodedSizes source)
    : OneLayerDecoder(scope, o, source.last, source.last, Activation::maxout),
      C_(context_weights(scope, source.last)) {}

LastStateDecoder::State LastStateDecoder::start(const Encoded& source) const {
  const Var c = last_state(source, "EncoderDecoder").h;
  return {.c = c, .c_gates = matmul(c, C_), .h = {.h = tanh(bridge_(c))}};
}

LastStateDecoder::Step LastStateDecoder::step(const Var& xw, const State& before) const {
  const nn::RecurrentState h = cell_.step(xw + before.c_gates, before.h);
  return {{h.h, before.c}, {}, {before.c, before.c_gates, h}};
}

LastStateDecoder::State LastStateDecoder::select(const State& state, const Tensor& rows) const {
  return {nn::select(state.c, rows), nn::select(state.c_gates, rows), nn::select(state.h, rows)};
}

SutskeverDecoder::SutskeverDecoder(const nn::Scope& scope, const SutskeverOptions& o, EncodedSizes)
    : target_(target_vectors(scope, o)),
      cell_(o.cell),
      decoder_(scope / "decoder", o.embedding, o.hidden, {.layers = o.layers, .dropout = o.dropout},
               {.cell = o.cell}),
      W_c_((scope / "readout").add("W_c", {o.hidden, o.readout}, nn::init::glorot())),
      output_(output_layer(scope / "output", o.readout, o.target_vocabulary, o.tied, target_)),
      readout_dropout_(rate_or(o.readout_dropout, o.dropout)) {}

SutskeverDecoder::State SutskeverDecoder::start(const Encoded& source) const {
  return initial_states(source, cell_, "Sutskever");
}

SutskeverDecoder::Step SutskeverDecoder::step(const Var& xw, const State& before) const {
  const auto [h, layers] = decoder_.step(xw, before);
  return {h, {}, layers};
}

AffineLogits SutskeverDecoder::logits(const Var&, const std::vector<Var>& h) const {
  return {readout_dropout_(tanh(matmul(stack(h), W_c_))), output_};
}

SutskeverDecoder::State SutskeverDecoder::select(const State& state, const Tensor& rows) const {
  return nn::select(state, rows);
}

Listener::Listener(const nn::Scope& scope, const ListenerOptions& o)
    : join_(o.join), dropout_(o.dropout) {
  if (join_.empty()) fail("Listener", "there is no layer");
  Index size = o.features;
  for (std::size_t l = 0; l < join_.size(); ++l) {
    if (join_[l] < 1) fail("Listener", "layer {} joins {} steps, expected >= 1", l + 1, join_[l]);
    layers_.emplace_back(scope / fmt::format("layer{}", l + 1), join_[l] * size, o.hidden,
                         nn::RecurrentOptions{.cell = o.cell});
    size = layers_.back().size();
  }
}

Encoded Listener::operator()(const Var& frames, const Mask& mask) const {
  Encoded encoded{.h = frames, .last = {}, .mask = mask};
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const Var below = l == 0 ? frames : dropout_(encoded.h);
    const auto [x, steps] = nn::join_steps({below, encoded.mask}, join_[l]);
    const auto [h, last] = layers_[l](x, {.mask = steps});
    encoded.h = h;
    encoded.mask = steps;
    encoded.last.push_back(last.backward);
  }
  return encoded;
}

template struct detail::ModelOf<Bahdanau>;
template struct detail::ModelOf<Nematus>;
template struct detail::ModelOf<Luong>;

}  // namespace attune::models
