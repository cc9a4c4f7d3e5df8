// An encoded source, which every decoder of the library starts from.
#pragma once

#include <vector>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/tensor/errors.hpp>

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
inline nn::RecurrentState last_state(const Encoded& source, const char* model) {
  if (source.last.empty()) fail(model, "the source has no final state: Encoded::last is empty");
  return source.last.back();
}

/// The initial states of decoder layers: the source's final states, without c if `cell` is a GRU.
/// Throws as last_state does.
inline std::vector<nn::RecurrentState> initial_states(const Encoded& source,
                                                      const nn::CellType& cell, const char* model) {
  last_state(source, model);
  std::vector<nn::RecurrentState> layers = source.last;
  if (!cell.own && cell != nn::Cell::lstm)
    for (nn::RecurrentState& layer : layers) layer.c = {};
  return layers;
}

/// The mean of each sentence's annotations: (B, D), zeros for a sentence without tokens.
inline Var mean_annotation(const Encoded& source) {
  const Tensor tokens = source.mask.to(source.h.dtype());
  return weighted_sum(tokens / maximum(sum(tokens, {0}), 1.0), source.h);
}

/// Gathers sentences by index (i32, repetition allowed), for the `select` of a decoder.
inline Encoded select(const Encoded& encoded, const Tensor& rows) {
  return {nn::select_columns(encoded.h, rows), nn::select(encoded.last, rows),
          Mask::unchecked(gather(encoded.mask, rows, 1))};
}

/// An empty source for n sentences, for a decoder that has no source, such as a language model.
inline Encoded no_source(Integer n) { return {.h = {}, .last = {}, .mask = ones({1, n})}; }

/// The sizes of an Encoded, for the constructor of a decoder.
struct EncodedSizes {
  Index h;     // D
  Index last;  // H of the final states
};

}  // namespace attune::models
