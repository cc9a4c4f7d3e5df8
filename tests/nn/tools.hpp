// Common code of the tests of layers.
#pragma once

#include <cmath>
#include <initializer_list>
#include <vector>

#include <attune/autograd/ops.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/tensor.hpp>

#include "support/naive.hpp"

namespace attune::test {

/// (T, B, ...) -> (length, 1, ...): the tokens of one sentence of a padded batch.
inline Tensor sentence(const Tensor& x, Index column, Index length) {
  return slice(slice(x, 0, 0, length), 1, column, column + 1);
}

/// Calls check(seed) with the first seed in `first` .. `last` whose values are not near a kink of
/// maxout, sparsemax or a window.
template <class Check>
GradcheckResult gradcheck_off_kinks(std::uint64_t first, std::uint64_t last, Check check) {
  for (std::uint64_t seed = first; seed < last; ++seed) {
    GradcheckResult result = check(seed);
    if (result || !result.rough) return result;
  }
  return check(last);
}

/// w *= factor for every parameter. Embeddings are scaled to a mean magnitude of 1, whatever the
/// factor: smaller values make attention's gradients too small, larger ones saturate cells.
inline void scale_parameters(nn::Parameters& parameters, double factor) {
  for (const auto& [name, w] : parameters) {
    Tensor values = w.value();
    const double mean_square = sum_of_squares(values) / static_cast<double>(values.size());
    scale_in_place(values, name.ends_with(".E") ? 1 / std::sqrt(mean_square) : factor);
  }
}

/// Overwrites a parameter, whose shape and dtype must agree.
inline void set(const nn::Parameters& parameters, const std::string& path, const Tensor& values) {
  Tensor to = parameters[path].value();
  copy(values, to);
}

/// Concatenates all defined results, so that one gradcheck covers them.
inline Var flat(std::initializer_list<Var> parts) {
  std::vector<Var> rows;
  for (const Var& part : parts) {
    if (part.defined()) rows.push_back(reshape(part, {-1}));
  }
  return concat(rows, 0);
}

/// Σ y ⊙ g
inline Var weighted(const Var& y, const Tensor& g) { return sum(y * Var(g)); }

}  // namespace attune::test
