// The layer whose softmax is over a vocabulary.
#pragma once

#include <attune/nn/linear.hpp>

namespace attune::models {

/// Weights N(0, 0.1²), as those of embeddings. Glorot's bound of √(6 / (R + V)) is 0.027 at V = 8000:
/// logits, and the gradient that reaches what is below, then start near nothing.
inline nn::Linear output_layer(const nn::Scope& scope, Index readout, Index vocabulary) {
  return nn::Linear(scope, readout, vocabulary, {.weight_init = nn::init::normal(0.1)});
}

}  // namespace attune::models
