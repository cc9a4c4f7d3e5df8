// What an encoder makes of a source, and all that a decoder knows of it.
#pragma once

#include <vector>

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

}  // namespace attune::models
