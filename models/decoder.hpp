// The interface of encoders and decoders for training, search, sampling and ensembles.
#pragma once

#include <concepts>
#include <vector>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune::models {

/// An encoded source: words, frames of speech, hours of load.
struct Encoded {
  Var h;  // (S, B, D): annotations
  /// Final states of the layers, the lowest first, (B, H) each: of the backward direction where
  /// there are two.
  std::vector<nn::RecurrentState> last;
  Mask mask;  // (S, B): 1 on places of the source, 0 on padding
};

/// The final state of the highest layer. Throws, in the name of the model, where there is none.
inline const nn::RecurrentState& last_state(const Encoded& source, const char* model) {
  if (source.last.empty()) fail(model, "the source has no last state: Encoded::last is empty");
  return source.last.back();
}

/// The mean annotation of each sentence, (B, D); 0 of one without words.
inline Var mean_annotation(const Encoded& source) {
  const Tensor words = source.mask.to(source.h.dtype());
  return weighted_sum(words / maximum(sum(words, {0}), 1.0), source.h);
}

/// Sentences by number, for a decoder's `select`.
inline Encoded select(const Encoded& encoded, const Tensor& rows) {
  return {nn::select_columns(encoded.h, rows), nn::select(encoded.last, rows),
          Mask::unchecked(gather(encoded.mask, rows, 1))};
}

/// For a decoder without a source, such as a language model, to write n sentences.
inline Encoded no_source(Index n) { return {.h = {}, .last = {}, .mask = ones({1, n})}; }

/// The sizes of an encoded source, which a decoder's constructor takes.
struct EncodedSizes {
  Index h;     // D
  Index last;  // H of each final state
};

/// What a decoder starts from: Encoded, or another type with the mask (S, B) of a source.
template <class E>
concept Source = requires(const E& encoded) {
  { encoded.mask } -> std::convertible_to<Tensor>;
};

namespace detail {

/// Disables recording and dropout while a model decodes, even within a training loop.
struct Inference {
  NoGrad no_grad;
  nn::Training not_training{nullptr};
};

}  // namespace detail

/// A decoder writes one word after the other. Its State is a value, so a search may keep several.
///     State start(encoded)             before the first word; `encoded` has a mask (S, B)
///     words = read(previous)           the words that go before, (T, B) i32, all steps at once
///     step(words[t], state)            one step: its output, weights and next state
///     logits(words, outputs)           (T, B, V), of the outputs of all T steps at once
///     select(state, rows)              columns of the batch by number (i32), with repetition, by
///                                      nn::select of each part
/// and, where all steps can be computed at once, which teacher forcing then does,
///     unroll(encoded, previous, mask, weights)   an DecoderSteps, with the weights if asked for
/// An output is the part of a step that the logits need. Weights are (S, B), the mean of several
/// heads, or undefined without attention.
template <class M>
concept Decoder = requires(const M& model, const Tensor& ids, const typename M::State& state,
                           const std::vector<typename M::Output>& outputs) {
  { model.step(model.read(ids)[0], state).output } -> std::convertible_to<typename M::Output>;
  { model.step(model.read(ids)[0], state).weights } -> std::convertible_to<Var>;
  { model.step(model.read(ids)[0], state).state } -> std::convertible_to<typename M::State>;
  { model.logits(model.read(ids), outputs) } -> std::convertible_to<Var>;
  { model.select(state, ids) } -> std::convertible_to<typename M::State>;
};

/// A decoder with an encoder of words: encode(source (S, B) i32, mask (S, B)).
template <class M>
concept WordModel = Decoder<M> && requires(const M& model, const Tensor& ids) {
  { model.start(model.encode(ids, ids)) } -> std::convertible_to<typename M::State>;
};

/// What the decoders here return from step().
template <class Output, class State>
struct DecoderStep {
  Output output;
  Var weights;  // (S, B), the mean of several heads; undefined without attention
  State state;
};

/// The words, outputs and weights of all steps: `outputs` has one for each, or that of all of them
/// where a decoder computes them at once.
template <class Words, class Output>
struct DecoderSteps {
  Words words;
  std::vector<Output> outputs;
  std::vector<Var> weights;  // of each step; none without attention
};

}  // namespace attune::models
