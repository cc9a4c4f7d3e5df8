#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <attune/tensor/cxx20.hpp>

namespace attune::metrics {

/// The edits that turn what was written into what was expected, and the length of the latter.
struct Edits {
  std::int64_t substitutions = 0, deletions = 0, insertions = 0;
  std::int64_t expected = 0;  // tokens

  std::int64_t count() const { return substitutions + deletions + insertions; }
  /// Edits per expected token: the word error rate, where tokens are words. Above 1 where too much was
  /// written; 0 of nothing expected and nothing written, infinite of nothing expected.
  double rate() const;
  Edits& operator+=(const Edits& other);
};

/// The fewest edits (Levenshtein, 1966). A deletion is an expected token that is missing, an insertion
/// a written one too many. Among equally few, those with the most substitutions.
Edits edits(std::span<const std::int32_t> written, std::span<const std::int32_t> expected);

}  // namespace attune::metrics
