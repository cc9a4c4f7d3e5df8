#include <fmt/format.h>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/papers.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune::models {

BahdanauDecoder::BahdanauDecoder(const nn::Scope& scope, const BahdanauOptions& o,
                                 EncodedSizes source, std::optional<nn::Attention> attention)
    : AttendingDecoder(scope, o, source, source.last, Activation::maxout, std::move(attention)),
      C_(context_weights(scope, source.h)) {}

BahdanauDecoder::State BahdanauDecoder::start(const Encoded& source) const {
  return AttendingDecoder::start(source, last_state(source, "Bahdanau").h);  // tanh(W_s ←h_1)
}

BahdanauDecoder::Step BahdanauDecoder::step(const Var& share, const State& before) const {
  const auto [c, alpha] = attention_({before.s.h, before.past}, before.memory);  // eq. 5 and 6
  const nn::RecurrentState s = cell_.step(add_matmul(share, c, C_), before.s);
  return {{s.h, c}, alpha, {before.memory, attention_.next(before.past, alpha), s}};
}

NematusDecoder::NematusDecoder(const nn::Scope& scope, const NematusOptions& o, EncodedSizes source,
                               std::optional<nn::Attention> attention)
    : AttendingDecoder(scope, o, source, source.h, Activation::tanh, std::move(attention)),
      second_(scope / "decoder" / "second", source.h, o.hidden, {.cell = o.cell}) {}

NematusDecoder::State NematusDecoder::start(const Encoded& source) const {
  const Tensor shares = source.mask / sum(source.mask, {0});  // 1 / T_x
  return AttendingDecoder::start(source, weighted_sum(shares, source.h));
}

NematusDecoder::Step NematusDecoder::step(const Var& share, const State& before) const {
  const nn::RecurrentState between = cell_.step(share, before.s);
  const auto [c, alpha] = attention_({.state = between.h, .past = before.past}, before.memory);
  const nn::RecurrentState s = second_.step(second_.input(c), between);
  return {{s.h, c}, alpha, {before.memory, attention_.next(before.past, alpha), s}};
}

LuongDecoder::LuongDecoder(const nn::Scope& scope, const LuongOptions& o, EncodedSizes source,
                           std::optional<nn::Attention> attention)
    : target_(scope / "target", o.target_vocabulary, o.embedding, o.cell, o.dropout),
      attention_(attention ? *attention
                           : nn::Attention(
                                 nn::make_score(scope / "attention", o.hidden, source.h, o.score),
                                 scope / "attention", o.hidden, o.attention)),
      decoder_(stack_of(scope / "decoder", o)),
      W_c_((scope / "readout").add("W_c", {source.h + o.hidden, o.hidden}, nn::init::glorot())),
      output_(output_layer(scope / "output", o.hidden, o.target_vocabulary)),
      dropout_(o.dropout) {
  if (!o.input_feeding) return;
  const Index gates = decoder_.gates();
  W_feed_ =
      (scope / "decoder").add("W_feed", {o.hidden, gates * o.hidden}, nn::init::glorot(gates));
}

LuongDecoder::State LuongDecoder::start(const Encoded& source) const {
  return {.memory = attention_.remember(dropout_(source.h), source.mask),
          .past = {},
          .layers = source.last,
          .h_tilde = zeros({source.mask.dim(1), W_c_.dim(1)}, source.mask.dtype())};
}

Var LuongDecoder::read(const Tensor& previous) const { return decoder_.input(target_(previous)); }

LuongDecoder::Step LuongDecoder::step(const Var& share, const State& before) const {
  const Var x = W_feed_.defined() ? add_matmul(share, before.h_tilde, W_feed_) : share;
  const auto [h, layers] = decoder_.step(x, before.layers);
  const auto [c, alpha] = attention_({.state = h, .past = before.past}, before.memory);
  const Var h_tilde = dropout_(tanh(matmul(concat({c, h}, -1), W_c_)));  // equation 5
  return {h_tilde, alpha, {before.memory, attention_.next(before.past, alpha), layers, h_tilde}};
}

AffineLogits LuongDecoder::logits(const Var&, const std::vector<Var>& h_tilde) const {
  return {attune::stack(h_tilde), output_.affine()};
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
  return {.c = c, .share = matmul(c, C_), .h = {.h = tanh(bridge_(c))}};
}

LastStateDecoder::Step LastStateDecoder::step(const Var& share, const State& before) const {
  const nn::RecurrentState h = cell_.step(share + before.share, before.h);
  return {{h.h, before.c}, {}, {before.c, before.share, h}};
}

LastStateDecoder::State LastStateDecoder::select(const State& state, const Tensor& rows) const {
  return {nn::select(state.c, rows), nn::select(state.share, rows), nn::select(state.h, rows)};
}

SutskeverDecoder::SutskeverDecoder(const nn::Scope& scope, const SutskeverOptions& o, EncodedSizes)
    : target_(scope / "target", o.target_vocabulary, o.embedding, o.cell, o.dropout),
      decoder_(stack_of(scope / "decoder", o)),
      W_c_((scope / "readout").add("W_c", {o.hidden, o.readout}, nn::init::glorot())),
      output_(output_layer(scope / "output", o.readout, o.target_vocabulary)),
      dropout_(o.dropout) {}

SutskeverDecoder::Step SutskeverDecoder::step(const Var& share, const State& before) const {
  const auto [h, layers] = decoder_.step(share, before);
  return {h, {}, layers};
}

AffineLogits SutskeverDecoder::logits(const Var&, const std::vector<Var>& h) const {
  return {dropout_(tanh(matmul(attune::stack(h), W_c_))), output_.affine()};
}

Listener::Listener(const nn::Scope& scope, const ListenerOptions& o)
    : join_(o.join), dropout_(o.dropout) {
  if (join_.empty()) fail("Listener", "there is no layer");
  Index size = o.features;
  for (std::size_t l = 0; l < join_.size(); ++l) {
    if (join_[l] < 1) fail("Listener", fmt::format("layer {} joins {} steps", l + 1, join_[l]));
    layers_.emplace_back(scope / fmt::format("layer{}", l + 1), join_[l] * size, o.hidden,
                         nn::RecurrentOptions{.cell = o.cell});
    size = layers_.back().size();
  }
}

Encoded Listener::operator()(const Var& frames, const Tensor& mask) const {
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
