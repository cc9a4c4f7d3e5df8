// The layer whose softmax is over a vocabulary.
#pragma once

#include <attune/nn/linear.hpp>

namespace attune::models {

/// Glorot's bound of √(6 / (R + V)) is 0.027 at V = 8000: logits, and the gradient that reaches
/// what is below, would start near nothing.
inline nn::Init output_weights() { return nn::init::normal(0.1); }

inline nn::Linear output_layer(const nn::Scope& scope, Index readout, Index vocabulary) {
  return nn::Linear(scope, readout, vocabulary, {.weight_init = output_weights()});
}

}  // namespace attune::models
