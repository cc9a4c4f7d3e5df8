// Between encoder and decoder: what a source becomes, and what a model must have to be trained,
// searched, sampled from, forced and joined in ensembles.
#pragma once

#include <concepts>
#include <vector>

#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {

/// A source that was read: words, frames of speech, hours of load.
struct Encoded {
  Var h;  // (S, B, D): annotations
  /// Of each layer, the lowest first, after all places were read: that of the backward direction,
  /// which ends on the first, where there is one. (B, H)
  std::vector<nn::RecurrentState> last;
  Tensor mask;  // (S, B): 1 on places of the source, 0 on padding
};

/// The last state of the highest layer. Throws, in the name of the model, where there is none.
inline const nn::RecurrentState& last_state(const Encoded& source, const char* model) {
  if (source.last.empty()) fail(model, "the source has no last state: Encoded::last is empty");
  return source.last.back();
}

/// Sentences by number, for a decoder's `select`.
inline Encoded select(const Encoded& encoded, const Tensor& rows) {
  return {nn::select_columns(encoded.h, rows), nn::select(encoded.last, rows),
          nn::select_columns(encoded.mask, rows).value()};
}

/// For a decoder that reads no source, such as a language model: n sentences are to be written.
inline Encoded no_source(Index n) { return {.h = {}, .last = {}, .mask = ones({1, n})}; }

/// The sizes that a decoder is made for.
struct EncodedSizes {
  Index h;     // D
  Index last;  // H of each last state
};

/// What a decoder starts from: Encoded, or another type with the mask (S, B) of a source.
template <class E>
concept Source = requires(const E& encoded) {
  { encoded.mask } -> std::convertible_to<Tensor>;
};

namespace detail {

/// Disables recording and dropout while a model decodes, in the middle of a training loop too.
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
/// An output is the part of a step that the logits need. Weights are (S, B), or (heads, S, B), or undefined
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
