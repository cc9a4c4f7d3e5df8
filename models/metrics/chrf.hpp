// chrF and chrF++, as sacreBLEU computes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <attune/models/metrics/bleu.hpp>

namespace attune::metrics {

/// The defaults are chrF2; words = 2 is chrF2++.
struct ChrfOptions {
  int characters = 6;  ///< the longest n-grams of characters
  int words = 0;       ///< and of words
  double beta = 2;     ///< how much more recall weighs than precision
};

/// n-grams of one order.
struct ChrfOrder {
  std::int64_t ngrams = 0;            ///< of the hypothesis
  std::int64_t reference_ngrams = 0;  ///< of the reference
  std::int64_t matches = 0;
};
/// By order: those of characters, then those of words. Of a corpus it is the sum.
using ChrfStatistics = std::vector<ChrfOrder>;

/// Of a sentence, with the one of its references that it scores best with. Blanks are not
/// characters; words end at blanks, and one mark of ASCII's punctuation at their end, or else at
/// their start, is a word of its own. Throws when there is no reference.
ChrfStatistics chrf_statistics(std::string_view hypothesis, std::span<const std::string> references,
                               const ChrfOptions& options = {});

/// chrF (Popović, 2015) and chrF++ (2017), from 0 to 100: with P and R the means over the orders
/// of matches per n-gram of the hypotheses and of the references,
///
///     chrF = 100 (1 + β²) P R / (β² P + R)
///
/// over the sums of the statistics. Orders that are not in both are left out.
double chrf(std::span<const ChrfStatistics> sentences, const ChrfOptions& options = {});

/// Throws when there are not as many references as hypotheses.
double corpus_chrf(std::span<const std::string> hypotheses, std::span<const References> references,
                   const ChrfOptions& options = {});

}  // namespace attune::metrics
