#include <attune/autograd/attention.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/nematus.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune::models {

NematusDecoder::NematusDecoder(const nn::Scope& scope, const NematusOptions& o, EncodedSizes source,
                               nn::Attention attention)
    : target_(scope / "target", o.target_vocabulary, o.embedding, o.cell, o.dropout),
      bridge_(scope / "bridge", source.h, o.hidden),
      attention_(std::move(attention)),
      first_(scope / "decoder" / "layer1", o.embedding, o.hidden, {.cell = o.cell}),
      second_(scope / "decoder" / "second", source.h, o.hidden, {.cell = o.cell}),
      readout_(scope / "readout", {o.hidden, o.embedding, source.h}, o.readout),
      output_(output_layer(scope / "output", o.readout, o.target_vocabulary)),
      dropout_(o.dropout) {}

NematusDecoder::State NematusDecoder::start(const Encoded& source) const {
  const Tensor shares = source.mask / sum(source.mask, {0});  // 1 / T_x
  return {.memory = attention_.remember(dropout_(source.h), source.mask),
          .past = {},
          .s = {.h = tanh(bridge_(weighted_sum(shares, source.h)))}};
}

NematusDecoder::Words NematusDecoder::read(const Tensor& previous) const {
  const Var y = target_(previous);
  return {y, first_.input(y)};
}

NematusDecoder::Step NematusDecoder::step(const Var& share, const State& before) const {
  const nn::RecurrentState between = first_.step(share, before.s);
  const auto [c, alpha] = attention_({.state = between.h, .past = before.past}, before.memory);
  const nn::RecurrentState s = second_.step(second_.input(c), between);
  return {{s.h, c}, alpha, {before.memory, attention_.next(before.past, alpha), s}};
}

AffineLogits NematusDecoder::logits(const Words& words, const std::vector<Output>& outputs) const {
  const Var s = stack(outputs, &Output::s), c = stack(outputs, &Output::c);
  const Var t = tanh(readout_(s, words.y, c));
  return {dropout_(t), output_.affine()};
}

Nematus::Nematus(const nn::Scope& scope, const NematusOptions& o,
                 std::optional<nn::Attention> attention)
    : NematusDecoder(scope, o, {.h = 2 * o.hidden, .last = o.hidden},
                     attention ? *attention : additive_attention(scope, o)),
      encoder_(scope, o) {}

}  // namespace attune::models
