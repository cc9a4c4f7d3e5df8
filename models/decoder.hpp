// What a model must have to be trained, searched, sampled from, forced and joined in ensembles.
#pragma once

#include <concepts>
#include <vector>

#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/encoded.hpp>
#include <attune/nn/dropout.hpp>

namespace attune::models {

/// What a decoder starts from: an Encoded, or whatever else has the mask (S, B) of a source.
template <class E>
concept Source = requires(const E& encoded) {
  { encoded.mask } -> std::convertible_to<Tensor>;
};

namespace detail {

/// While a model writes or is forced nothing is recorded, and nothing is dropped, in the middle of
/// a training loop, too.
struct Inference {
  NoGrad no_grad;
  nn::Training not_training{nullptr};
};

}  // namespace detail

/// A decoder writes one word after the other. Its State is a value, so that a search may keep
/// several. Beside what is named here it has
///     State start(encoded)             before the first word; `encoded` has a mask (S, B)
/// and the calls are
///     words = read(previous)           the words that go before, (T, B) i32, all steps at once
///     step(words[t], state)            one step: its output, weights and next state
///     logits(words, outputs)           (T, B, V), of the outputs of all T steps at once
///     select(state, rows)              columns of the batch by number (i32), with repetition:
///                                      nn/recurrent.hpp has its parts
/// An output is whatever the logits are made of. Weights are (S, B), or (heads, S, B), or undefined
/// without attention.
template <class M>
concept Decoder = requires(const M& model, const Tensor& ids, const typename M::State& state,
                           const std::vector<typename M::Output>& outputs) {
  { model.step(model.read(ids)[0], state).output } -> std::convertible_to<typename M::Output>;
  { model.step(model.read(ids)[0], state).weights } -> std::convertible_to<Var>;
  { model.step(model.read(ids)[0], state).state } -> std::convertible_to<typename M::State>;
  { model.logits(model.read(ids), outputs) } -> std::convertible_to<Var>;
  { model.select(state, ids) } -> std::convertible_to<typename M::State>;
};

/// A decoder that also reads a source of words: encode(source (S, B) i32, mask (S, B)).
template <class M>
concept WordModel = Decoder<M> && requires(const M& model, const Tensor& ids) {
  { model.start(model.encode(ids, ids)) } -> std::convertible_to<typename M::State>;
};

/// One word further, for the decoders here.
template <class Output, class State>
struct DecoderStep {
  Output output;
  Var weights;  // (S, B), or (heads, S, B); undefined without attention
  State state;
};

/// One part of the outputs of all steps: T of (B, n) -> (T, B, n). Undefined where they are.
template <class Output>
Var stack(const std::vector<Output>& outputs, Var Output::*part) {
  if (outputs.empty() || !(outputs.front().*part).defined()) return {};
  std::vector<Var> all;
  all.reserve(outputs.size());
  for (const Output& output : outputs) all.push_back(output.*part);
  return attune::stack(all);
}

}  // namespace attune::models
