// Vectors for words.
#pragma once

#include <attune/nn/parameters.hpp>

namespace attune::nn {

/// A row of a table for each word.
class Embedding {
 public:
  Embedding(const Scope& scope, Index vocabulary, Index size, const Init& init = init::normal(0.1));

  /// ids i32 (...) -> (..., size)
  Var operator()(const Tensor& ids) const;

  const Var& table() const { return E_; }

 private:
  Var E_;  // (V, size)
  std::string path_;
};

}  // namespace attune::nn
