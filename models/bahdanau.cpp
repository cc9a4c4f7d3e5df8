#include <attune/autograd/ops.hpp>
#include <attune/models/bahdanau.hpp>

namespace attune::models {

BahdanauDecoder::BahdanauDecoder(const nn::Scope& scope, const BahdanauOptions& o,
                                 EncodedSizes source, nn::Attention attention)
    : target_(scope / "target", o.target_vocabulary, o.embedding, o.cell, o.dropout),
      bridge_(scope / "bridge", source.last, o.hidden),
      attention_(std::move(attention)),
      cell_(scope / "decoder" / "layer1", o.embedding, o.hidden, {.cell = o.cell}),
      readout_(scope / "readout", {o.hidden, o.embedding, source.h}, 2 * o.readout),
      output_(output_layer(scope / "output", o.readout, o.target_vocabulary)),
      dropout_(o.dropout) {
  const Index gates = cell_.gates();
  C_ = (scope / "decoder").add("W_c", {source.h, gates * o.hidden}, nn::init::glorot(gates));
}

BahdanauDecoder::State BahdanauDecoder::start(const Encoded& source) const {
  return {.memory = attention_.remember(dropout_(source.h), source.mask),
          .past = {},
          .s = {.h = tanh(bridge_(last_state(source, "Bahdanau").h))}};  // s_0 = tanh(W_s ←h_1)
}

BahdanauDecoder::Words BahdanauDecoder::read(const Tensor& previous) const {
  const Var y = target_(previous);
  return {y, cell_.input(y)};
}

BahdanauDecoder::Step BahdanauDecoder::step(const Var& share, const State& before) const {
  const auto [c, alpha] = attention_({before.s.h, before.past}, before.memory);  // eq. 5 and 6
  const nn::RecurrentState s = cell_.step(add_matmul(share, c, C_), before.s);
  return {{s.h, c}, alpha, {before.memory, attention_.next(before.past, alpha), s}};
}

AffineLogits BahdanauDecoder::logits(const Words& words, const std::vector<Output>& outputs) const {
  const Var s = stack(outputs, &Output::s), c = stack(outputs, &Output::c);
  const Var t = maxout(readout_(s, words.y, c));
  return {dropout_(t), output_.affine()};
}

nn::Attention additive_attention(const nn::Scope& scope, const BahdanauOptions& o) {
  return nn::Attention(
      nn::AdditiveScore(scope / "attention", o.hidden, 2 * o.hidden, {.attention = o.attention}));
}

Bahdanau::Bahdanau(const nn::Scope& scope, const BahdanauOptions& o,
                   std::optional<nn::Attention> attention)
    : BahdanauDecoder(scope, o, {.h = 2 * o.hidden, .last = o.hidden},
                      attention ? *attention : additive_attention(scope, o)),
      encoder_(scope, o) {}

}  // namespace attune::models
