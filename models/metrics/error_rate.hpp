// Error rates: of words and other tokens, by edit distance, and of word alignments.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <attune/models/text/corpus.hpp>
#include <attune/tensor/shape.hpp>

namespace attune::metrics {

/// The edits between a hypothesis and its reference, and the length of the reference.
struct Edits {
  std::int64_t substitutions = 0, deletions = 0, insertions = 0;
  std::int64_t expected = 0;  // tokens

  std::int64_t count() const { return substitutions + deletions + insertions; }
  /// Edits per expected token: the word error rate, where tokens are words. It may exceed 1. An
  /// empty reference gives 0 for an empty hypothesis, else infinity.
  double rate() const;
  Edits& operator+=(const Edits& other);
};

/// The fewest edits (Levenshtein, 1966). A deletion is an expected token that is missing, an
/// insertion a written one too many. Among equally few, those with the most substitutions. Tokens
/// are not negative; the memory is that of a table of both lengths, here and in side_by_side.
Edits edits(std::span<const std::int32_t> written, std::span<const std::int32_t> expected);

/// Aligned tokens; `no_token` beside an insertion or deletion.
struct TokenPair {
  static constexpr std::int32_t no_token = -1;
  std::int32_t written = no_token, expected = no_token;
  auto operator<=>(const TokenPair&) const = default;
};

/// Both sentences side by side, with the edits that `edits` counts: which token was taken for
/// which.
std::vector<TokenPair> side_by_side(std::span<const std::int32_t> written,
                                    std::span<const std::int32_t> expected);

/// All shares are between 0 and 1; published tables have per cent.
struct AlignmentScore {
  std::size_t links = 0;        ///< |A|
  std::size_t sure = 0;         ///< |S|
  std::size_t in_sure = 0;      ///< |A ∩ S|
  std::size_t in_possible = 0;  ///< |A ∩ P|

  double error_rate() const;  ///< 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|); 0 for nothing over nothing
  double precision() const;  ///< |A ∩ P| / |A|; 1 without links
  double recall() const;     ///< |A ∩ S| / |S|; 1 without sure links
};

/// Alignment error rate of a corpus (Och and Ney, 2003, "A systematic comparison of various
/// statistical alignment models", section 5). With A the links found, S the sure and P ⊇ S the
/// possible ones,
///
///     AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)
///
/// where each of the four numbers is summed over all sentences before anything is divided: it is
/// not the mean over sentences. Throws when there are not as many sentences of one as of the other
/// and when a position is negative.
AlignmentScore alignment_error_rate(std::span<const text::Alignment> found,
                                    std::span<const text::GoldAlignment> gold);

}  // namespace attune::metrics
