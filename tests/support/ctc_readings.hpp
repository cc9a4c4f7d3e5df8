// Definition of CTC by enumeration of all paths.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include <attune/tensor/kernels/normalize.hpp>

namespace attune::test {

using Labels = std::vector<std::int32_t>;

/// The labels of a path: repeated symbols are merged, then blanks (0) removed.
inline Labels read(const Labels& path) {
  Labels labels;
  for (std::size_t t = 0; t < path.size(); ++t) {
    if (path[t] != 0 && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  }
  return labels;
}

/// The probability of each label sequence of logits (T, 1, V), summed over all of its paths.
inline std::map<Labels, double> readings(const Tensor& logits) {
  const Index frames = logits.dim(0), v = logits.dim(2);
  const std::vector<double> p = softmax(logits, -1).to_vector<double>();
  std::map<Labels, double> all;
  for (Index code = 0; code < static_cast<Index>(std::pow(v, frames)); ++code) {
    Labels path;
    double probability = 1;
    for (Index t = 0, rest = code; t < frames; ++t, rest /= v) {
      path.push_back(static_cast<std::int32_t>(rest % v));
      probability *= p[static_cast<std::size_t>(t * v + rest % v)];
    }
    all[read(path)] += probability;
  }
  return all;
}

}  // namespace attune::test
