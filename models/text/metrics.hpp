// Evaluation metrics: BLEU with confidence intervals, chrF, token error rates, and alignment error
// rate. BLEU and chrF are equal to those of sacreBLEU.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <attune/models/text/corpus.hpp>

namespace attune::metrics {

/// The reference translations of a sentence. Their number may differ between sentences. An empty
/// string is a reference without tokens.
using References = std::vector<std::string>;

enum class BleuTokens {
  mteval_13a,  ///< tokenize_13a, for plain text
  none,        ///< split at blanks, for tokenised text
};

/// Sufficient statistics of BLEU for a sentence. Those of a corpus are the sum over its sentences.
struct BleuStatistics {
  std::int64_t length = 0;            ///< number of tokens of the hypothesis
  std::int64_t reference_length = 0;  ///< tokens of the reference closest in length (ties: shorter)
  std::array<std::int64_t, 4> matches{}, ngrams{};  ///< counts of n-grams, n = 1 to 4

  BleuStatistics& operator+=(const BleuStatistics& other);
  bool operator==(const BleuStatistics&) const = default;
};

/// The statistics of each sentence. Matches of an n-gram are clipped at its maximum count in one
/// reference. Throws unless both have the same size and each sentence has a reference.
std::vector<BleuStatistics> bleu_statistics(std::span<const std::string> hypotheses,
                                            std::span<const References> references,
                                            BleuTokens tokens = BleuTokens::mteval_13a);

/// Corpus BLEU (Papineni et al., 2002), from 0 to 100, of the summed statistics:
///
///     BLEU = 100 min(1, exp(1 - r / c)) · exp(1/4 Σ_n log p_n),   p_n = matches_n / ngrams_n
///
/// with c the length of the hypotheses and r that of the references. The k-th order n without a
/// match counts as 1 / 2^k matches (Chen and Cherry, 2014, method 3; sacreBLEU's smoothing "exp").
/// BLEU is 0 if nothing matches. Equal to sacreBLEU (Post, 2018).
double bleu(std::span<const BleuStatistics> sentences);

double corpus_bleu(std::span<const std::string> hypotheses, std::span<const References> references,
                   BleuTokens tokens = BleuTokens::mteval_13a);

/// Tokenises a line as NIST's mteval-v13a does: decodes &quot; &amp; &lt; &gt;, and separates ASCII
/// symbols except apostrophes, . and , between digits, and hyphens not after a digit.
std::vector<std::string> tokenize_13a(std::string_view line);

/// BLEU of the sentences in a range of lengths.
struct LengthBucket {
  std::int64_t shortest = 0;
  std::optional<std::int64_t> longest;  ///< nullopt: no upper bound
  std::int64_t sentences = 0;
  double bleu = 0;  ///< 0 without sentences
};

/// BLEU by sentence length; `lengths` has one for each sentence, for example that of the source.
/// With the limits 10 and 20, the buckets are 0-10, 11-20 and >= 21. Throws unless there are as
/// many lengths as sentences and the limits are ascending.
std::vector<LengthBucket> bleu_by_length(std::span<const BleuStatistics> sentences,
                                         std::span<const std::int64_t> lengths,
                                         std::span<const std::int64_t> limits);

// ---- Bootstrap resampling (Koehn, 2004)

struct Interval {
  double low = 0, high = 0;
};

/// Bootstrap confidence interval (95 %, percentile method) of corpus BLEU, from 1,000 samples of
/// the sentences with replacement, the same in every call. Throws if there is no sentence.
Interval bleu_interval(std::span<const BleuStatistics> sentences);

/// Comparison of two systems.
struct PairedBootstrap {
  double difference = 0;  ///< corpus BLEU of the first system minus that of the second
  Interval interval;      ///< 95 % confidence interval of the difference
  /// (1 + m) / (1 + n), where the better system is not better in m of n samples; 1 if BLEU is
  /// equal.
  double p_value = 1;
};

/// Paired bootstrap resampling (Koehn, 2004, "Statistical significance tests for machine
/// translation evaluation"): evaluates both systems on the same samples of sentences. Throws unless
/// both have the same number of sentences, at least 1.
PairedBootstrap paired_bootstrap(std::span<const BleuStatistics> first,
                                 std::span<const BleuStatistics> second);

/// chrF2 of a corpus (Popović, 2015), from 0 to 100, equal to sacreBLEU. P and R are the precision
/// and recall of character n-grams, averaged over n = 1 to 6, and β = 2:
///
///     chrF = 100 (1 + β²) P R / (β² P + R)
///
/// Counts are summed over the sentences, each with its best-scoring reference, without blanks.
/// Orders n without n-grams on both sides are omitted. Throws as bleu_statistics does.
double corpus_chrf(std::span<const std::string> hypotheses, std::span<const References> references);

// ---- Error rates: tokens (edit distance) and word alignments

/// Edit operations between a hypothesis and its reference, and the length of the reference.
struct Edits {
  std::int64_t substitutions = 0, deletions = 0, insertions = 0;
  std::int64_t expected = 0;  // tokens of the reference

  std::int64_t count() const { return substitutions + deletions + insertions; }
  /// count() / expected: the word error rate if tokens are words; it may exceed 1. For an empty
  /// reference it is the number of insertions, as in jiwer 4.
  double rate() const;
  Edits& operator+=(const Edits& other);
};

/// The minimum number of edits (Levenshtein, 1966) from `expected` (reference) to `written`
/// (hypothesis). If several alignments have it, counts those of one with the most substitutions.
/// Token ids must be >= 0. Memory is proportional to the product of the lengths.
Edits edits(std::span<const std::int32_t> written, std::span<const std::int32_t> expected);

/// A pair of aligned tokens. `expected` is no_token for an insertion, `written` for a deletion.
struct TokenPair {
  static constexpr std::int32_t no_token = -1;
  std::int32_t written = no_token, expected = no_token;
  auto operator<=>(const TokenPair&) const = default;
};

/// The alignment of both sentences with the edits that `edits` counts, for example for a confusion
/// matrix. Requirements as for `edits`.
std::vector<TokenPair> edit_alignment(std::span<const std::int32_t> written,
                                      std::span<const std::int32_t> expected);

/// Counts of links A, sure gold links S and possible gold links P, and scores between 0 and 1.
struct AlignmentScore {
  std::size_t links = 0;        ///< |A|
  std::size_t sure = 0;         ///< |S|
  std::size_t in_sure = 0;      ///< |A ∩ S|
  std::size_t in_possible = 0;  ///< |A ∩ P|

  double error_rate() const;  ///< 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|); 0 if both are empty
  double precision() const;   ///< |A ∩ P| / |A|; 1 if A is empty
  double recall() const;      ///< |A ∩ S| / |S|; 1 if S is empty
};

/// Alignment error rate of a corpus (Och and Ney, 2003, "A systematic comparison of various
/// statistical alignment models", section 5):
///
///     AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)
///
/// with the found links A, the sure links S and the possible links P ⊇ S of `gold`. The four counts
/// are summed over all sentences before the division. Throws unless `found` and `gold` have the
/// same number of sentences.
AlignmentScore alignment_error_rate(std::span<const text::Alignment> found,
                                    std::span<const text::GoldAlignment> gold);

}  // namespace attune::metrics
