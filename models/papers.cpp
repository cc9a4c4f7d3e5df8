#include <fmt/format.h>

#include <attune/models/papers.hpp>
#include <attune/tensor/fail.hpp>

namespace attune::models {

// ---- Options

Option tied_option(Tied& tied) {
  return choice("tied", "weight tying of embeddings and output layer", tied,
                {"none", "target-output", "all"});
}

namespace {

constexpr auto is_multi_head = [](const nn::ScoreOptions& o) { return o.kind == "multi_head"; };
constexpr auto is_location = [](const nn::ScoreOptions& o) { return o.kind == "location"; };
constexpr auto is_location_aware = [](const nn::ScoreOptions& o) {
  return o.kind == "location_aware";
};
constexpr auto is_concat = [](const nn::ScoreOptions& o) { return o.kind == "concat"; };
constexpr auto has_window = [](const nn::AttentionOptions& o) {
  return o.window != nn::Window::global;
};

/// The options of a score and of its attention.
OptionList fields_of(nn::ScoreOptions& score, nn::AttentionOptions& attention) {
  constexpr double longest = 1 << 20;
  std::vector<std::string> kinds;
  for (const nn::ScoreKind& kind : nn::score_kinds()) kinds.emplace_back(kind.name);
  return {
      choice("score", "attention score function", score.kind, kinds),
      option("attention", "attention size A of additive, concat, multi-head and location-aware",
             score.attention, 1, largest_size),
      only_with<is_multi_head>(
          "score multi-head", score,
          option("heads", "number of heads of multi-head", score.heads, 1, largest_size)),
      only_with<is_location>(
          "score location", score,
          option("longest", "maximum source length of location", score.longest, 1, longest)),
      only_with<is_location_aware>(
          "score location-aware", score,
          option("filters", "number of filters of location-aware", score.filters, 1, largest_size)),
      only_with<is_location_aware>(
          "score location-aware", score,
          option("radius", "filter radius of location-aware, in positions to each side",
                 score.radius, 0, longest)),
      only_with<is_concat>("score concat", score,
                           choice("concat-form", "concat: learnt matrix or identity for the memory",
                                  score.concat, {"full", "identity"})),
      choice("coverage", "whether the score uses the sum of previous weights", score.coverage,
             {"none", "summed"}),
      choice("window", "source positions that a step attends to", attention.window,
             {"global", "local-m", "local-p"}),
      only_with<has_window>(
          "a window", attention,
          option("half-width", "half-width D of the window", attention.half_width, 1, longest)),
      choice("normalizer", "function from scores to weights", attention.normalizer,
             {"softmax", "sparsemax"})};
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

// ---- Parts

void require_one_vocabulary(Index source, Index target) {
  if (source != target)
    fail("tied", "all requires equal vocabulary sizes, not {} and {}", source, target);
}

Affine output_layer(const nn::Scope& scope, Index readout, Index vocabulary, Tied tied,
                    const WordVectors& target) {
  if (tied == Tied::none)
    return nn::Linear(scope, readout, vocabulary, {.weight_init = output_weights()}).affine();
  const Var& table = target.table.table();
  if (readout != table.dim(1))
    fail("tied", "a tied output layer requires a readout of the embedding size {}, not {}",
         table.dim(1), readout);
  return {.W = table, .b = scope.add("b", {vocabulary}, nn::init::zeros()), .transposed = true};
}

WordEncoder word_encoder(const nn::Scope& scope, const WordEncoderOptions& o) {
  const nn::StackedOptions stack{.layers = o.layers, .dropout = o.dropout};
  const nn::RecurrentOptions cell{.cell = o.cell};
  if (o.reading == EncoderDirection::bidirectional) {
    using Layers = nn::Stacked<nn::Bidirectional<nn::Recurrent>>;
    return [layers = Layers(scope, o.embedding, o.hidden, stack, cell)](const Var& x,
                                                                        const Mask& mask) {
      const auto [h, last] = layers(x, {.mask = mask});
      Encoded encoded{h, {}, mask};
      for (const auto& state : last) encoded.last.push_back(state.backward);
      return encoded;
    };
  }
  const bool backward = o.reading == EncoderDirection::backward;
  return [layers = nn::Stacked<nn::Recurrent>(scope, o.embedding, o.hidden, stack, cell),
          direction = backward ? Direction::backward : Direction::forward](const Var& x,
                                                                           const Mask& mask) {
    const auto [h, last] = layers(x, {.mask = mask, .direction = direction});
    return Encoded{h, last, mask};
  };
}

// ---- Decoders

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

}  // namespace attune::models
