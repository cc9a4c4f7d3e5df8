// The functions of a decoder, which the author of a model writes.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>
#include <vector>

#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>

namespace attune::models {

/// Result of one step of a decoder.
template <class Output, class State>
struct DecoderStep {
  Output output;
  Var weights;  // (S, B), averaged over heads; undefined without attention
  State state;
};

/// Results of all steps of a decoder.
template <class Words, class Output>
struct DecoderSteps {
  Words words;                  // the result of `read`
  std::vector<Output> outputs;  // of each step, or one of all steps, computed in parallel
  std::vector<Var> weights;     // of each step; empty without attention
};

namespace detail {

template <class M, class Result, class Source>
std::remove_cvref_t<Source> source_of(Result (M::*start)(Source) const);

/// The types of a decoder class.
template <class M>
struct DecoderTypes {
  using Source = decltype(source_of(&M::start));
  using State = decltype(std::declval<const M&>().start(std::declval<const Source&>()));
  using Words = decltype(std::declval<const M&>().read(Tensor()));
  using Step = decltype(std::declval<const M&>().step(std::declval<const Words&>()[0],
                                                      std::declval<const State&>()));
  using Output = decltype(Step::output);
};

}  // namespace detail

/// A class that generates a sequence token by token, given an encoded source. It needs no base
/// class. Its state is a value, so that a search can store copies. Functions of a const object:
///     start(source)              initial state, by value. `source` is a struct with the member
///                                `mask` (S, B), such as Encoded. Not overloaded.
///     words = read(previous)     embeds the previous tokens, (T, B) i32, of all T steps
///     step(words[t], state)      DecoderStep: output, weights and next state of one step. An
///                                output is whatever the logits of a step are computed from.
///     logits(words, outputs)     (T, B, V), from a vector with the outputs of all T steps. The
///                                result is a Var, a Tensor, or AffineLogits.
///     select(state, rows)        gathers columns of the batch by index (i32, repetition allowed),
///                                by nn::select of each member
/// A decoder that can compute all steps in parallel also has, for teacher forcing,
///     unroll(source, previous, mask, weights)    DecoderSteps; weights only if `weights` is true
/// A model with an encoder of token ids also has
///     encode(source, mask)       (S, B) i32, (S, B) -> source of `start`
template <class M>
concept Decoder = requires(const M& model, const Tensor& ids,
                           const typename detail::DecoderTypes<M>::Source& source,
                           const typename detail::DecoderTypes<M>::State& state,
                           const std::vector<typename detail::DecoderTypes<M>::Output>& outputs) {
  { source.mask } -> std::convertible_to<Tensor>;
  { model.step(model.read(ids)[0], state).weights } -> std::convertible_to<Var>;
  { model.step(model.read(ids)[0], state).state } -> std::convertible_to<decltype(state)>;
  AffineLogits{model.logits(model.read(ids), outputs)};
  { model.select(state, ids) } -> std::convertible_to<decltype(state)>;
};

/// A decoder with an encoder of token ids.
template <class M>
concept WordModel = Decoder<M> && requires(const M& model, const Tensor& ids) {
  model.start(model.encode(ids, ids));
};

}  // namespace attune::models
