// The words that a model reads, as vectors.
#pragma once

#include <attune/nn/dropout.hpp>
#include <attune/nn/embedding.hpp>

namespace attune::models {

/// An embedding and its dropout: ids (...) -> (..., E)
class WordVectors {
 public:
  WordVectors(const nn::Scope& scope, Index vocabulary, Index size, double dropout)
      : table_(scope, vocabulary, size), dropout_(dropout) {}

  Var operator()(const Tensor& ids) const { return dropout_(table_(ids)); }

 private:
  nn::Embedding table_;
  nn::Dropout dropout_;
};

/// The words that go before, as a decoder with one cell reads them.
struct ReadWords {
  Var y;      // E y: (T, B, E)
  Var share;  // what it adds to the cell's gates: (T, B, gates · H)

  Var operator[](Index t) const { return share[t]; }
};

}  // namespace attune::models
