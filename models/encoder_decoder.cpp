#include <attune/autograd/ops.hpp>
#include <attune/models/encoder_decoder.hpp>

namespace attune::models {

LastStateDecoder::LastStateDecoder(const nn::Scope& scope, const EncoderDecoderOptions& o,
                                   EncodedSizes source)
    : target_(scope / "target", o.target_vocabulary, o.embedding, o.cell, o.dropout),
      bridge_(scope / "bridge", source.last, o.hidden),
      cell_(scope / "decoder" / "layer1", o.embedding, o.hidden, {.cell = o.cell}),
      readout_(scope / "readout", {o.hidden, o.embedding, source.last}, 2 * o.readout),
      output_(output_layer(scope / "output", o.readout, o.target_vocabulary)),
      dropout_(o.dropout) {
  const Index gates = cell_.gates();
  C_ = (scope / "decoder").add("W_c", {source.last, gates * o.hidden}, nn::init::glorot(gates));
}

LastStateDecoder::State LastStateDecoder::start(const Encoded& source) const {
  const Var c = last_state(source, "EncoderDecoder").h;
  return {.c = c, .share = matmul(c, C_), .h = {.h = tanh(bridge_(c))}};
}

LastStateDecoder::Words LastStateDecoder::read(const Tensor& previous) const {
  const Var y = target_(previous);
  return {y, cell_.input(y)};
}

LastStateDecoder::Step LastStateDecoder::step(const Var& share, const State& before) const {
  const nn::RecurrentState h = cell_.step(share + before.share, before.h);
  return {{h.h, before.c}, {}, {before.c, before.share, h}};
}

AffineLogits LastStateDecoder::logits(const Words& words,
                                      const std::vector<Output>& outputs) const {
  const Var h = stack(outputs, &Output::h), c = stack(outputs, &Output::c);
  const Var t = maxout(readout_(h, words.y, c));
  return {dropout_(t), output_.affine()};
}

LastStateDecoder::State LastStateDecoder::select(const State& state, const Tensor& rows) const {
  return {nn::select(state.c, rows), nn::select(state.share, rows), nn::select(state.h, rows)};
}

EncoderDecoder::EncoderDecoder(const nn::Scope& scope, const EncoderDecoderOptions& o)
    : LastStateDecoder(scope, o, {.h = o.hidden, .last = o.hidden}),
      source_(scope / "source", o.source_vocabulary, o.embedding, o.cell, o.dropout),
      encoder_(scope / "encoder" / "layer1", o.embedding, o.hidden, {.cell = o.cell}) {}

Encoded EncoderDecoder::encode(const Tensor& source, const Tensor& mask) const {
  const auto [h, last] = encoder_(source_(source), {.mask = mask});
  return {h, {last}, mask};
}

}  // namespace attune::models
