#include <attune/autograd/ops.hpp>
#include <attune/models/sutskever.hpp>

namespace attune::models {

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
