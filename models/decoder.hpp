// The interface of encoders and decoders, for training, search, sampling and ensembles.
#pragma once

#include <concepts>
#include <vector>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune::models {

/// An encoded source, such as a sentence, frames of speech, or a time series.
struct Encoded {
  Var h;  // (S, B, D): annotations
  /// Final states (B, H) of the encoder layers, layer1 first. For a bidirectional layer, the final
  /// state of its backward direction.
  std::vector<nn::RecurrentState> last;
  Mask mask;  // (S, B): 1 on source positions, 0 on padding
};

/// The final state of the last layer. Throws if there is none; the message begins with `model`.
inline const nn::RecurrentState& last_state(const Encoded& source, const char* model) {
  if (source.last.empty()) fail(model, "the source has no final state: Encoded::last is empty");
  return source.last.back();
}

/// The initial states of decoder layers: the source's final states, without c unless `cell` is an
/// LSTM. Throws as last_state does.
inline std::vector<nn::RecurrentState> initial_states(const Encoded& source, nn::Cell cell,
                                                      const char* model) {
  last_state(source, model);
  std::vector<nn::RecurrentState> layers = source.last;
  if (cell != nn::Cell::lstm)
    for (nn::RecurrentState& layer : layers) layer.c = {};
  return layers;
}

/// The mean of each sentence's annotations: (B, D), zeros for a sentence without tokens.
inline Var mean_annotation(const Encoded& source) {
  const Tensor words = source.mask.to(source.h.dtype());
  return weighted_sum(words / maximum(sum(words, {0}), 1.0), source.h);
}

/// Gathers sentences by index (i32, repetition allowed), for the `select` of a decoder.
inline Encoded select(const Encoded& encoded, const Tensor& rows) {
  return {nn::select_columns(encoded.h, rows), nn::select(encoded.last, rows),
          Mask::unchecked(gather(encoded.mask, rows, 1))};
}

/// An empty source for n sentences, for a decoder that has no source, such as a language model.
inline Encoded no_source(Index n) { return {.h = {}, .last = {}, .mask = ones({1, n})}; }

/// The sizes of an Encoded, for the constructor of a decoder.
struct EncodedSizes {
  Index h;     // D
  Index last;  // H of the final states
};

/// An encoded source of a decoder: Encoded, or another type with the source's mask (S, B).
template <class E>
concept Source = requires(const E& encoded) {
  { encoded.mask } -> std::convertible_to<Tensor>;
};

namespace detail {

/// Scope guard: disables gradient recording and training mode during decoding.
struct Inference {
  NoGrad no_grad;
  nn::Training not_training{nullptr};
};

}  // namespace detail

/// A decoder generates a sequence token by token. Its State is a value, so a search can store
/// copies.
///     State start(encoded)             initial state; `encoded` satisfies Source
///     words = read(previous)           embeds the previous tokens, (T, B) i32, of all T steps
///     step(words[t], state)            one step: output, attention weights and next state
///     logits(words, outputs)           (T, B, V), from the outputs of all T steps
///     select(state, rows)              gathers columns of the batch by index (i32, repetition
///                                      allowed), by nn::select of each member
/// A decoder that can compute all steps in parallel also has, for teacher forcing,
///     unroll(encoded, previous, mask, weights)   DecoderSteps; weights only if `weights` is true
/// An output is whatever the logits of a step are computed from. Weights are (S, B), averaged over
/// heads, or undefined without attention.
template <class M>
concept Decoder = requires(const M& model, const Tensor& ids, const typename M::State& state,
                           const std::vector<typename M::Output>& outputs) {
  { model.step(model.read(ids)[0], state).output } -> std::convertible_to<typename M::Output>;
  { model.step(model.read(ids)[0], state).weights } -> std::convertible_to<Var>;
  { model.step(model.read(ids)[0], state).state } -> std::convertible_to<typename M::State>;
  Var(model.logits(model.read(ids), outputs));
  { model.select(state, ids) } -> std::convertible_to<typename M::State>;
};

/// A decoder with an encoder for token ids: encode(source (S, B) i32, mask (S, B)) -> Source.
template <class M>
concept WordModel = Decoder<M> && requires(const M& model, const Tensor& ids) {
  { model.start(model.encode(ids, ids)) } -> std::convertible_to<typename M::State>;
};

/// Return type of step() in the decoders of this library.
template <class Output, class State>
struct DecoderStep {
  Output output;
  Var weights;  // (S, B), averaged over heads; undefined without attention
  State state;
};

/// The words, outputs and weights of all steps. `outputs` has one element per step, or a single
/// element for all steps if the decoder computes them in parallel.
template <class Words, class Output>
struct DecoderSteps {
  Words words;
  std::vector<Output> outputs;
  std::vector<Var> weights;  // of each step; empty without attention
};

}  // namespace attune::models
