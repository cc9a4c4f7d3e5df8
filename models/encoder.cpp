#include <attune/models/encoder.hpp>

namespace attune::models {
namespace {

template <class Layers>
Layers make_layers(const nn::Scope& scope, const Seq2SeqOptions& o) {
  return Layers(scope, o.embedding, encoder_hidden(o),
                {.layers = o.encoder_layers,
                 .dropout = o.dropout,
                 .dropout_kind = o.dropout_kind,
                 .residual = o.residual == Residual::yes},
                {.cell = o.encoder_cell});
}

const nn::RecurrentState& last_of(const nn::RecurrentState& state) { return state; }
const nn::RecurrentState& last_of(const nn::BothWays<>& states) { return states.backward; }

}  // namespace

Encoder::Encoder(const nn::Scope& scope, const Seq2SeqOptions& o)
    : layers_(o.reading == Reading::bidirectional
                  ? decltype(layers_)(make_layers<BothWays>(scope, o))
                  : decltype(layers_)(make_layers<OneWay>(scope, o))),
      size_(std::visit([](const auto& layers) { return layers.size(); }, layers_)),
      hidden_(encoder_hidden(o)),
      direction_(o.reading == Reading::backward ? Direction::backward : Direction::forward) {
  if (o.self_attention > 0) {
    self_attention_.emplace(scope / "self_attention", size_,
                            nn::SelfAttentionOptions{.heads = o.self_attention});
  }
}

Encoded Encoder::operator()(const Var& x, const Tensor& mask) const {
  return std::visit(
      [&](const auto& layers) {
        const auto [h, last] = layers(x, {.mask = mask, .direction = direction_});
        Encoded y{
            .h = self_attention_ ? h + (*self_attention_)(h, mask).y : h, .last = {}, .mask = mask};
        for (const auto& state : last) y.last.push_back(last_of(state));
        return y;
      },
      layers_);
}

}  // namespace attune::models
