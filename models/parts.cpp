#include <attune/models/parts.hpp>
#include <attune/tensor/fail.hpp>

namespace attune::models {

Option tied_option(Tied& tied) {
  return choice("tied", "weight tying of embeddings and output layer", tied,
                {"none", "target-output", "all"});
}

void require_one_vocabulary(Integer source, Integer target) {
  if (source != target)
    fail("tied", "all requires equal vocabulary sizes, not {} and {}", source, target);
}

Affine output_layer(const nn::Scope& scope, Integer readout, Integer vocabulary, Tied tied,
                    const WordVectors& target) {
  if (tied == Tied::none)
    return nn::Linear(scope, readout, vocabulary, {.weight_init = output_weights()}).affine();
  const Var& table = target.table.table();
  if (readout != table.dim(1))
    fail("tied", "a tied output layer requires a readout of the embedding size {}, not {}",
         table.dim(1), readout);
  return {.W = table, .b = scope.add("b", {vocabulary}, nn::init::zeros()), .transposed = true};
}

WordEncoder word_encoder(const nn::Scope& scope, const WordEncoderOptions& o) {
  const nn::StackedOptions stack{.layers = o.layers, .dropout = o.dropout};
  const nn::RecurrentOptions cell{.cell = o.cell};
  if (o.reading == EncoderDirection::bidirectional) {
    using Layers = nn::Stacked<nn::Bidirectional<nn::Recurrent>>;
    return [layers = Layers(scope, o.embedding, o.hidden, stack, cell)](const Var& x,
                                                                        const Mask& mask) {
      const auto [h, last] = layers(x, {.mask = mask});
      Encoded encoded{h, {}, mask};
      for (const auto& state : last) encoded.last.push_back(state.backward);
      return encoded;
    };
  }
  const bool backward = o.reading == EncoderDirection::backward;
  return [layers = nn::Stacked<nn::Recurrent>(scope, o.embedding, o.hidden, stack, cell),
          direction = backward ? Direction::backward : Direction::forward](const Var& x,
                                                                           const Mask& mask) {
    const auto [h, last] = layers(x, {.mask = mask, .direction = direction});
    return Encoded{h, last, mask};
  };
}

AffineLogits OneLayerDecoder::logits(const Words& words, const std::vector<Output>& outputs) const {
  std::vector<Var> all_s, all_c;
  for (const Output& output : outputs) all_s.push_back(output.s), all_c.push_back(output.c);
  const Var s = stack(all_s), c = stack(all_c);  // (T, B, H), (T, B, C)
  const Var t = add_matmul(add_matmul(add_matmul(b_o_, s, U_o_), words.y, V_o_), c, C_o_);
  return {readout_dropout_(activation_ == Activation::maxout ? maxout(t) : tanh(t)), output_};
}

}  // namespace attune::models
