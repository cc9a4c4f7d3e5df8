// Scores of written text: BLEU with confidence intervals, chrF, error rates of tokens and of word
// alignments. BLEU and chrF equal sacreBLEU's.
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
#include <attune/tensor/shape.hpp>

namespace attune::metrics {

/// The reference translations of a sentence; some sentences may have fewer than others. An empty
/// string is a reference without tokens.
using References = std::vector<std::string>;

enum class BleuTokens {
  mteval_13a,  ///< for plain text
  none,        ///< for text with blanks between its tokens
};

/// The sufficient statistics of a sentence; those of a corpus are their sum.
struct BleuStatistics {
  std::int64_t length = 0;            ///< tokens of the hypothesis
  std::int64_t reference_length = 0;  ///< of the reference closest in length, else the shorter
  std::array<std::int64_t, 4> matches{}, ngrams{};  ///< of 1 to 4 tokens

  BleuStatistics& operator+=(const BleuStatistics& other);
  bool operator==(const BleuStatistics&) const = default;
};

/// Of each sentence of a corpus. An n-gram matches at most as often as in the reference that has it
/// most often. Throws when there are not as many references as hypotheses, and for a sentence
/// without any.
std::vector<BleuStatistics> bleu_statistics(std::span<const std::string> hypotheses,
                                            std::span<const References> references,
                                            BleuTokens tokens = BleuTokens::mteval_13a);

/// BLEU (Papineni et al., 2002), from 0 to 100: with p_n the share of n-grams of the hypotheses that
/// match, c their length and r that of the references,
///
///     BLEU = 100 min(1, exp(1 - r / c)) · exp(1/4 Σ_n log p_n)
///
/// over the sums of the statistics. The k-th order without a match counts as 1 / 2^k matches (Chen
/// and Cherry, 2014, method 3; in sacreBLEU "exp"); without any match BLEU is 0. Equal to
/// sacreBLEU's (Post, 2018).
double bleu(std::span<const BleuStatistics> sentences);

double corpus_bleu(std::span<const std::string> hypotheses, std::span<const References> references,
                   BleuTokens tokens = BleuTokens::mteval_13a);

/// The tokens of a line as of NIST's mteval-v13a: &quot; &amp; &lt; &gt; are read as what they
/// stand for, and ASCII's symbols are tokens of their own, but for apostrophes, full stops and
/// commas between digits, and hyphens that follow no digit.
std::vector<std::string> tokenize_13a(std::string_view line);

/// The sentences within a range of lengths.
struct LengthBucket {
  std::int64_t shortest = 0;
  std::optional<std::int64_t> longest;  ///< nothing: any
  std::int64_t sentences = 0;
  double bleu = 0;  ///< 0 without sentences
};

/// BLEU by the length of the source or the reference, which is given for each sentence. With the
/// limits 10 and 20 the buckets are 0-10, 11-20 and from 21 on. Throws when there are not as many
/// lengths as sentences and when the limits do not ascend.
std::vector<LengthBucket> bleu_by_length(std::span<const BleuStatistics> sentences,
                                         std::span<const std::int64_t> lengths,
                                         std::span<const std::int64_t> limits);

// ---- Resampled sentences (Koehn, 2004)

struct Interval {
  double low = 0, high = 0;
};

/// The percentile interval of corpus BLEU: the middle 95 % of the scores of 1,000 corpora, each of as
/// many sentences, drawn from these with replacement, the same in every call. Throws without
/// sentences.
Interval bleu_interval(std::span<const BleuStatistics> sentences);

/// Comparison of two systems.
struct PairedBootstrap {
  double difference = 0;  ///< of BLEU on the whole corpus: the first's less the second's
  Interval interval;      ///< of the difference
  /// (1 + the samples in which the better system is not better) / (1 + the samples): small when the
  /// better one is better on nearly any such corpus. 1 when both have the same BLEU.
  double p_value = 1;
};

/// Paired bootstrap resampling (Koehn, 2004, "Statistical significance tests for machine
/// translation evaluation"): both systems on the same resampled sentences. Throws as
/// above, and when the two have not as many sentences.
PairedBootstrap paired_bootstrap(std::span<const BleuStatistics> first,
                                 std::span<const BleuStatistics> second);

/// chrF2 (Popović, 2015), from 0 to 100, as sacreBLEU's: with P and R the means over n-grams of 1 to 6
/// characters of matches per n-gram of the hypotheses and of the references, and β = 2,
///
///     chrF = 100 (1 + β²) P R / (β² P + R)
///
/// over the sums of the sentences, each with the reference that it scores best with. Blanks are not
/// characters; orders that are not in both are left out. Throws as bleu_statistics does.
double corpus_chrf(std::span<const std::string> hypotheses, std::span<const References> references);

// ---- Error rates: of words and other tokens, by edit distance, and of word alignments

/// The edits between a hypothesis and its reference, and the length of the reference.
struct Edits {
  std::int64_t substitutions = 0, deletions = 0, insertions = 0;
  std::int64_t expected = 0;  // tokens

  std::int64_t count() const { return substitutions + deletions + insertions; }
  /// Edits per expected token: the word error rate, where tokens are words. It may exceed 1. Of an
  /// empty reference it is the number of insertions, as jiwer 4 counts them.
  double rate() const;
  Edits& operator+=(const Edits& other);
};

/// The fewest edits (Levenshtein, 1966). A deletion is an expected token that is missing, an
/// insertion a written one too many. Among equally few, those with the most substitutions. Tokens
/// are not negative; the memory is that of a table of both lengths, here and in edit_alignment.
Edits edits(std::span<const std::int32_t> written, std::span<const std::int32_t> expected);

/// A pair of aligned tokens. In an insertion or a deletion, the missing one is `no_token`.
struct TokenPair {
  static constexpr std::int32_t no_token = -1;
  std::int32_t written = no_token, expected = no_token;
  auto operator<=>(const TokenPair&) const = default;
};

/// Both sentences side by side, with the edits that `edits` counts: which token was taken for
/// which.
std::vector<TokenPair> edit_alignment(std::span<const std::int32_t> written,
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
/// not the mean over sentences. Throws when there are not as many sentences of one as of the other.
AlignmentScore alignment_error_rate(std::span<const text::Alignment> found,
                                    std::span<const text::GoldAlignment> gold);

}  // namespace attune::metrics
