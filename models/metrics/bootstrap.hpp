// How sure a BLEU score is: resampled sentences (Koehn, 2004).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <attune/models/metrics/bleu.hpp>

namespace attune::metrics {

struct BootstrapOptions {
  std::int64_t samples = 1000;
  double confidence = 0.95;
  std::uint64_t seed = 1;
};

struct Interval {
  double low = 0, high = 0;
};

/// The percentile interval of corpus BLEU: the middle `confidence` of the scores of `samples`
/// corpora, each of as many sentences, drawn from these with replacement. Throws without sentences,
/// and for options out of range.
Interval bleu_interval(std::span<const BleuStatistics> sentences,
                       const BootstrapOptions& bootstrap = {}, const BleuOptions& options = {});

/// The first system held against the second.
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
                                 std::span<const BleuStatistics> second,
                                 const BootstrapOptions& bootstrap = {},
                                 const BleuOptions& options = {});

}  // namespace attune::metrics
