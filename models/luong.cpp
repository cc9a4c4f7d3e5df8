#include <attune/models/luong.hpp>
#include <attune/models/parts.hpp>

namespace attune::models {

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

}  // namespace attune::models
