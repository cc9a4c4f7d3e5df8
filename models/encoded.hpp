// What an encoder makes of a source, and all that a decoder knows of it.
#pragma once

#include <vector>

#include <attune/nn/recurrent_layer.hpp>

namespace attune::models {

/// A source that was read: words, frames of speech, hours of load.
struct Encoded {
  Var h;  // (S, B, D): annotations
  /// Of each layer, the lowest first, after all places were read: that of the backward direction,
  /// which ends on the first, where there is one. (B, H)
  std::vector<nn::RecurrentState> last;
  Tensor mask;  // (S, B): 1 on places of the source, 0 on padding
};

/// The sizes that a decoder is made for.
struct EncodedSizes {
  Index h;     // D
  Index last;  // H of each last state
};

}  // namespace attune::models
