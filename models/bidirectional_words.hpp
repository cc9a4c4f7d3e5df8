// An encoder of words that reads in both directions.
#pragma once

#include <attune/models/encoded.hpp>
#include <attune/models/word_vectors.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/nn/stacked.hpp>

namespace attune::models {

/// h_j = [→h_j; ←h_j]   (Bahdanau et al., 2014, equation 7), and the last state ←h_1, with the
/// parameters "source.E" and "encoder.layer1.*". Options are BahdanauOptions.
class BidirectionalWords {
 public:
  template <class Options>
  BidirectionalWords(const nn::Scope& scope, const Options& o)
      : source_(scope / "source", o.source_vocabulary, o.embedding, o.cell, o.dropout),
        encoder_(scope / "encoder" / "layer1", o.embedding, o.hidden, {.cell = o.cell}) {}

  /// source (S, B) i32, mask (S, B)
  Encoded operator()(const Tensor& source, const Tensor& mask) const {
    const auto [h, last] = encoder_(source_(source), {.mask = mask});
    return {h, {last.backward}, mask};
  }

 private:
  WordVectors source_;
  nn::Bidirectional<nn::Recurrent> encoder_;
};

}  // namespace attune::models
