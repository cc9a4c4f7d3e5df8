#include <fmt/format.h>

#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/luong.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {
namespace {

const LuongOptions& checked(const LuongOptions& o) {
  const auto require = [](const char* name, Index value, Index least) {
    if (value < least) fail("Luong", fmt::format("{} = {} is less than {}", name, value, least));
  };
  require("source_vocabulary", o.source_vocabulary, 5);
  require("target_vocabulary", o.target_vocabulary, 5);
  require("embedding", o.embedding, 1);
  require("hidden", o.hidden, 1);
  require("layers", o.layers, 1);
  return o;
}

nn::StackedOptions stack_options(const LuongOptions& o) {
  return {.layers = o.layers, .dropout = o.dropout};
}

nn::Attention make_attention(const nn::Scope& scope, const LuongOptions& o) {
  return nn::Attention(nn::make_score(scope, o.hidden, o.hidden, o.score), scope, o.hidden,
                       o.attention);
}

}  // namespace

/// The recurrence over all steps of a batch.
struct Luong::Unrolled {
  std::vector<Var> readouts, weights;
};

Luong::Luong(const nn::Scope& scope, const LuongOptions& o)
    : options_(checked(o)),
      source_(scope / "source", o.source_vocabulary, o.embedding),
      target_(scope / "target", o.target_vocabulary, o.embedding),
      encoder_(scope / "encoder", o.embedding, o.hidden, stack_options(o), o.cell),
      decoder_(scope / "decoder", o.embedding, o.hidden, stack_options(o), o.cell),
      attention_(make_attention(scope / "attention", o)),
      W_c_((scope / "attention").add("W_c", {2 * o.hidden, o.hidden}, nn::init::glorot())),
      output_(scope / "output", o.hidden, o.target_vocabulary),
      dropout_(o.dropout) {
  if (o.input_feeding == InputFeeding::no) return;
  const Index gates = decoder_.gates();
  W_feed_ =
      (scope / "decoder").add("W_feed", {o.hidden, gates * o.hidden}, nn::init::glorot(gates));
}

Luong::State Luong::start(const Tensor& source, const Tensor& mask) const {
  nn::StackedOutput encoded = encoder_(dropout_(source_(source)), {.mask = mask});
  return {.layers = std::move(encoded.last),
          .attentional = zeros({source.dim(1), options_.hidden}, mask.dtype()),
          .memory = attention_.remember(encoded.h, mask)};
}

/// yw (B, gates · H): the lowest layer's share of the word before.
Luong::Step Luong::advance(const Var& yw, const State& state) const {
  const Var fed = W_feed_.defined() ? yw + matmul(state.attentional, W_feed_) : yw;
  nn::StackedOutput top = decoder_.step(fed, state.layers);
  const auto [context, weights] = attention_({.state = top.h, .step = state.step}, state.memory);
  const Var attentional = dropout_(tanh(matmul(concat({context, top.h}, -1), W_c_)));
  return {attentional, weights, {std::move(top.last), attentional, state.memory, state.step + 1}};
}

Luong::Step Luong::step(const Tensor& previous, const State& state) const {
  return advance(decoder_.input(dropout_(target_(previous))), state);
}

Var Luong::logits(const Var& readout) const { return output_(readout); }

Luong::State Luong::select(const State& state, const Tensor& rows) const {
  const auto of = [&](const Var& x) { return x.defined() ? Var(gather(x.value(), rows)) : x; };
  std::vector<nn::RecurrentState> layers;
  for (const auto& [h, c] : state.layers) layers.push_back({of(h), of(c)});
  return {std::move(layers), of(state.attentional), nn::select(state.memory, rows), state.step};
}

/// The words' share of the lowest layer is one product over all steps.
Luong::Unrolled Luong::unroll(const text::Batch& batch) const {
  State state = start(batch.source, batch.source_mask);
  const Var yw = decoder_.input(dropout_(target_(batch.previous)));  // (T, B, gates · H)
  Unrolled unrolled;
  for (Index t = 0; t < yw.dim(0); ++t) {
    Step next = advance(yw[t], state);
    unrolled.readouts.push_back(next.readout);
    unrolled.weights.push_back(next.weights);
    state = std::move(next.state);
  }
  return unrolled;
}

Luong::Forced Luong::force(const text::Batch& batch) const {
  const Unrolled unrolled = unroll(batch);
  return {logits(stack(unrolled.readouts)), stack(unrolled.weights)};
}

Var Luong::loss(const text::Batch& batch) const {
  return cross_entropy(logits(stack(unroll(batch).readouts)), batch.next, batch.target_mask);
}

}  // namespace attune::models
