// Edit distances: word and token error rates.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::metrics {

/// The edits that turn what was written into what was expected, and the length of the latter.
struct Edits {
  std::int64_t substitutions = 0, deletions = 0, insertions = 0;
  std::int64_t expected = 0;  // tokens

  std::int64_t count() const { return substitutions + deletions + insertions; }
  /// Edits per expected token: the word error rate, where tokens are words. Above 1 where too much
  /// was written; 0 of nothing expected and nothing written, infinite of nothing expected.
  double rate() const;
  Edits& operator+=(const Edits& other);
};

/// The fewest edits (Levenshtein, 1966). A deletion is an expected token that is missing, an
/// insertion a written one too many. Among equally few, those with the most substitutions.
Edits edits(std::span<const std::int32_t> written, std::span<const std::int32_t> expected);

/// Tokens that stand for each other; `no_token` where one was inserted or deleted.
struct TokenPair {
  static constexpr std::int32_t no_token = -1;
  std::int32_t written = no_token, expected = no_token;
  auto operator<=>(const TokenPair&) const = default;
};

/// Both sentences side by side, with the edits that `edits` counts: which token was taken for
/// which. No token is -1. The memory is that of a table of both lengths.
std::vector<TokenPair> side_by_side(std::span<const std::int32_t> written,
                                    std::span<const std::int32_t> expected);

/// Characters (tokens) that agree, position by position, over the length of the longer of the two;
/// 1 for two empty ones.
double position_accuracy(std::span<const std::string> written,
                         std::span<const std::string> expected);

}  // namespace attune::metrics
