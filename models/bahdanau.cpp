#include <fmt/format.h>

#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/bahdanau.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {
namespace {

const BahdanauOptions& checked(const BahdanauOptions& o) {
  const auto require = [](const char* name, Index value, Index least) {
    if (value < least) fail("Bahdanau", fmt::format("{} = {} is less than {}", name, value, least));
  };
  require("source_vocabulary", o.source_vocabulary, 5);
  require("target_vocabulary", o.target_vocabulary, 5);
  require("embedding", o.embedding, 1);
  require("hidden", o.hidden, 1);
  require("attention", o.attention, 1);
  require("readout", o.readout, 1);
  return o;
}

std::optional<nn::Linear> make_bridge(const nn::Scope& scope, const BahdanauOptions& o) {
  if (o.start == Start::zero) return std::nullopt;
  return nn::Linear(scope / "bridge", o.hidden, o.hidden);
}

Index readout_columns(const BahdanauOptions& o) {
  return o.readout_kind == ReadoutKind::maxout ? 2 * o.readout : o.readout;
}

}  // namespace

/// One step of the recurrence: what the readout of all steps is made from afterwards.
struct Bahdanau::Advance {
  Var context;  // (B, 2H)
  Var weights;  // (S, B)
  nn::RecurrentState cell;
};

/// The recurrence over all steps of a batch.
struct Bahdanau::Unrolled {
  Var readouts;  // (T, B, R)
  std::vector<Var> weights;
};

Bahdanau::Bahdanau(const nn::Scope& scope, const BahdanauOptions& o)
    : options_(checked(o)),
      source_(scope / "source", o.source_vocabulary, o.embedding),
      target_(scope / "target", o.target_vocabulary, o.embedding),
      encoder_(scope / "encoder", o.embedding, o.hidden, o.encoder_cell),
      bridge_(make_bridge(scope, o)),
      attention_(nn::AdditiveScore(scope / "attention", o.hidden, 2 * o.hidden, o.attention)),
      decoder_(scope / "decoder", o.embedding, o.hidden, o.decoder_cell),
      W_c_((scope / "decoder")
               .add("W_c", {2 * o.hidden, decoder_.gates() * o.hidden},
                    nn::init::glorot(decoder_.gates()))),
      U_o_((scope / "readout").add("U_o", {o.hidden, readout_columns(o)}, nn::init::glorot())),
      V_o_((scope / "readout").add("V_o", {o.embedding, readout_columns(o)}, nn::init::glorot())),
      C_o_((scope / "readout").add("C_o", {2 * o.hidden, readout_columns(o)}, nn::init::glorot())),
      b_o_((scope / "readout").add("b_o", {readout_columns(o)}, nn::init::zeros())),
      output_(scope / "output", o.readout, o.target_vocabulary),
      dropout_(o.dropout) {}

Bahdanau::State Bahdanau::start(const Tensor& source, const Tensor& mask) const {
  const auto encoded = encoder_(dropout_(source_(source)), mask);
  // The backward direction's last state stands on the first word: it has read the whole sentence.
  Var s = bridge_ ? tanh((*bridge_)(encoded.backward.h))
                  : Var(zeros(encoded.backward.h.shape(), mask.dtype()));
  const bool has_c = options_.decoder_cell == nn::Cell::lstm;
  Var c = has_c ? Var(zeros(s.shape(), s.dtype())) : Var();
  return {.cell = {s, c}, .memory = attention_.remember(dropout_(encoded.h), mask)};
}

Bahdanau::Advance Bahdanau::advance(const Var& yw, const State& state) const {
  const auto [context, weights] = attention_({.state = state.cell.h}, state.memory);
  return {context, weights, decoder_.step(yw + matmul(context, W_c_), state.cell)};
}

Var Bahdanau::readout(const Var& y, const Var& s, const Var& c) const {
  const Var t = matmul(s, U_o_) + matmul(y, V_o_) + matmul(c, C_o_) + b_o_;
  return dropout_(options_.readout_kind == ReadoutKind::maxout ? maxout(t) : tanh(t));
}

Bahdanau::Step Bahdanau::step(const Tensor& previous, const State& state) const {
  const Var y = dropout_(target_(previous));
  const Advance next = advance(decoder_.input(y), state);
  const Var& s = options_.readout_state == ReadoutState::current ? next.cell.h : state.cell.h;
  return {readout(y, s, next.context), next.weights, {next.cell, state.memory}};
}

Var Bahdanau::logits(const Var& readout) const { return output_(readout); }

Bahdanau::State Bahdanau::select(const State& state, const Tensor& rows) const {
  const auto of = [&](const Var& x) { return x.defined() ? Var(gather(x.value(), rows)) : x; };
  return {.cell = {of(state.cell.h), of(state.cell.c)}, .memory = nn::select(state.memory, rows)};
}

/// Whatever does not wait for the step before is done for all steps at once: embeddings, the cell's
/// share of them, readouts. The loop is left with attention and the cell.
Bahdanau::Unrolled Bahdanau::unroll(const text::Batch& batch) const {
  State state = start(batch.source, batch.source_mask);
  const Var y = dropout_(target_(batch.previous));  // (T, B, E)
  const Var yw = decoder_.input(y);                 // (T, B, gates · H)
  std::vector<Var> states, contexts, weights;
  for (Index i = 0; i < y.dim(0); ++i) {
    const Advance next = advance(yw[i], state);
    states.push_back(options_.readout_state == ReadoutState::current ? next.cell.h : state.cell.h);
    contexts.push_back(next.context);
    weights.push_back(next.weights);
    state.cell = next.cell;
  }
  return {readout(y, stack(states), stack(contexts)), std::move(weights)};
}

Bahdanau::Forced Bahdanau::force(const text::Batch& batch) const {
  const Unrolled unrolled = unroll(batch);
  return {logits(unrolled.readouts), stack(unrolled.weights)};
}

Var Bahdanau::loss(const text::Batch& batch) const {
  return cross_entropy(logits(unroll(batch).readouts), batch.next, batch.target_mask);
}

}  // namespace attune::models
