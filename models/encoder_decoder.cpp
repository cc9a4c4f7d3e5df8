#include <attune/autograd/ops.hpp>
#include <attune/models/encoder_decoder.hpp>

namespace attune::models {

LastStateDecoder::LastStateDecoder(const nn::Scope& scope, const EncoderDecoderOptions& o,
                                   EncodedSizes source)
    : OneLayerDecoder(scope, o, source.last),
      readout_(scope, o, source.last, 2 * o.readout, maxout),
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

EncoderDecoder::EncoderDecoder(const nn::Scope& scope, const EncoderDecoderOptions& o)
    : LastStateDecoder(scope, o, {.h = o.hidden, .last = o.hidden}),
      source_(scope / "source", o.source_vocabulary, o.embedding, o.cell, o.dropout),
      encoder_(scope / "encoder" / "layer1", o.embedding, o.hidden, {.cell = o.cell}) {}

Encoded EncoderDecoder::encode(const Tensor& source, const Tensor& mask) const {
  const auto [h, last] = encoder_(source_(source), {.mask = mask});
  return {h, {last}, mask};
}

Sutskever::Sutskever(const nn::Scope& scope, const SutskeverOptions& o)
    : source_(scope / "source", o.source_vocabulary, o.embedding, o.cell, o.dropout),
      target_(scope / "target", o.target_vocabulary, o.embedding, o.cell, o.dropout),
      encoder_(stack_of(scope / "encoder", o)),
      decoder_(stack_of(scope / "decoder", o)),
      W_c_((scope / "readout").add("W_c", {o.hidden, o.readout}, nn::init::glorot())),
      output_(output_layer(scope / "output", o.readout, o.target_vocabulary)),
      dropout_(o.dropout) {}

Encoded Sutskever::encode(const Tensor& source, const Tensor& mask) const {
  const auto [h, last] =
      encoder_(source_(source), {.mask = mask, .direction = Direction::backward});
  return {h, last, mask};
}

Sutskever::Step Sutskever::step(const Var& share, const State& before) const {
  const auto [h, layers] = decoder_.step(share, before);
  return {h, {}, layers};
}

AffineLogits Sutskever::logits(const Var&, const std::vector<Var>& h) const {
  return {dropout_(tanh(matmul(attune::stack(h), W_c_))), output_.affine()};
}

}  // namespace attune::models
