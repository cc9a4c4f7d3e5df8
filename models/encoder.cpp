#include <attune/models/encoder.hpp>

namespace attune::models {

Encoder::Encoder(const nn::Scope& scope, const Seq2SeqOptions& o)
    : size_(encoder_hidden(o) * (o.reading == Reading::bidirectional ? 2 : 1)),
      direction_(o.reading == Reading::backward ? Direction::backward : Direction::forward),
      residual_(o.residual),
      dropout_(o.dropout, o.dropout_kind) {
  const nn::RecurrentOptions cell{.cell = o.encoder_cell, .norm = o.norm};
  const Index hidden = encoder_hidden(o);
  if (o.reading != Reading::bidirectional) {
    stacked_.emplace(scope, o.embedding, hidden,
                     nn::StackedOptions{.layers = o.encoder_layers,
                                        .dropout = o.dropout,
                                        .dropout_kind = o.dropout_kind,
                                        .residual = o.residual == Residual::yes},
                     cell);
  } else {
    for (Index l = 1; l <= o.encoder_layers; ++l) {
      bidirectional_.emplace_back(scope / ("layer" + std::to_string(l)),
                                  l == 1 ? o.embedding : 2 * hidden, hidden, cell);
    }
  }
  if (o.self_attention > 0) {
    self_attention_.emplace(scope / "self_attention", size_,
                            nn::SelfAttentionOptions{.heads = o.self_attention});
  }
}

Encoded Encoder::read_both_ways(const Var& x, const Tensor& mask) const {
  Encoded y;
  for (const Bidirectional& layer : bidirectional_) {
    const bool lowest = !y.h.defined();
    const nn::BidirectionalOutput output = layer(lowest ? x : dropout_(y.h), mask);
    y.h = residual_ == Residual::yes && !lowest ? output.h + y.h : output.h;
    y.last.push_back(output.backward);
  }
  return y;
}

Encoded Encoder::operator()(const Var& x, const Tensor& mask) const {
  Encoded y;
  if (stacked_) {
    nn::StackedOutput output = (*stacked_)(x, {.mask = mask, .direction = direction_});
    y = {output.h, std::move(output.last)};
  } else {
    y = read_both_ways(x, mask);
  }
  if (self_attention_) y.h = y.h + (*self_attention_)(y.h, mask).y;
  return y;
}

}  // namespace attune::models
