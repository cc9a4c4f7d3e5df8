#include <attune/autograd/ops.hpp>
#include <attune/models/encoder_decoder.hpp>

namespace attune::models {

LastStateDecoder::LastStateDecoder(const nn::Scope& scope, const EncoderDecoderOptions& o,
                                   EncodedSizes source)
    : OneLayerDecoder(scope, o, source.last, source.last, 2 * o.readout, maxout),
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

}  // namespace attune::models
