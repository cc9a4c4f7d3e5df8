#include <attune/autograd/ops.hpp>
#include <attune/models/bahdanau.hpp>

namespace attune::models {

BahdanauDecoder::BahdanauDecoder(const nn::Scope& scope, const BahdanauOptions& o,
                                 EncodedSizes source, nn::Attention attention)
    : target_(scope / "target", o.target_vocabulary, o.embedding, o.dropout),
      bridge_(scope / "bridge", source.last, o.hidden),
      attention_(std::move(attention)),
      cell_(scope / "decoder" / "layer1", o.embedding, o.hidden, {.cell = o.cell}),
      output_(scope / "output", o.readout, o.target_vocabulary),
      dropout_(o.dropout) {
  const Index gates = cell_.gates();
  C_ = (scope / "decoder").add("W_c", {source.h, gates * o.hidden}, nn::init::glorot(gates));
  const nn::Scope readout = scope / "readout";
  U_o_ = readout.add("U_o", {o.hidden, 2 * o.readout}, nn::init::glorot());
  V_o_ = readout.add("V_o", {o.embedding, 2 * o.readout}, nn::init::glorot());
  C_o_ = readout.add("C_o", {source.h, 2 * o.readout}, nn::init::glorot());
  b_o_ = readout.add("b_o", {2 * o.readout}, nn::init::zeros());
}

BahdanauDecoder::State BahdanauDecoder::start(const Encoded& source) const {
  return {.memory = attention_.remember(dropout_(source.h), source.mask),
          .past = {},
          .s = {.h = tanh(bridge_(source.last.back().h))}};  // s_0 = tanh(W_s ←h_1)
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
  const Var t = maxout(add_matmul(add_matmul(add_matmul(b_o_, s, U_o_), words.y, V_o_), c, C_o_));
  return {dropout_(t), output_.affine()};
}

BahdanauDecoder::State BahdanauDecoder::select(const State& state, const Tensor& rows) const {
  return {nn::select(state.memory, rows), nn::select(state.past, rows), select_rows(state.s, rows)};
}

Bahdanau::Bahdanau(const nn::Scope& scope, const BahdanauOptions& o,
                   std::optional<nn::Attention> attention)
    : BahdanauDecoder(scope, o, {.h = 2 * o.hidden, .last = o.hidden},
                      attention ? *attention
                                : nn::Attention(nn::AdditiveScore(scope / "attention", o.hidden,
                                                                  2 * o.hidden, o.attention))),
      source_(scope / "source", o.source_vocabulary, o.embedding, o.dropout),
      encoder_(scope / "encoder" / "layer1", o.embedding, o.hidden, {.cell = o.cell}) {}

Encoded Bahdanau::encode(const Tensor& source, const Tensor& mask) const {
  const auto [h, last] = encoder_(source_(source), {.mask = mask});  // h_j = [→h_j; ←h_j]
  return {h, {last.backward}, mask};
}

}  // namespace attune::models
