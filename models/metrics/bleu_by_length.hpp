// BLEU of short and of long sentences.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <attune/models/metrics/bleu.hpp>

namespace attune::metrics {

/// The sentences of some lengths.
struct LengthBucket {
  std::int64_t shortest = 0;
  std::optional<std::int64_t> longest;  ///< nothing: any
  std::int64_t sentences = 0;
  BleuScore score;  ///< 0 without sentences
};

/// BLEU by the length of the source or the reference, which is given for each sentence. With the
/// limits 10 and 20 the buckets are 0-10, 11-20 and from 21 on. Throws when there are not as many
/// lengths as sentences and when the limits do not ascend.
std::vector<LengthBucket> bleu_by_length(std::span<const BleuStatistics> sentences,
                                         std::span<const std::int64_t> lengths,
                                         std::span<const std::int64_t> limits,
                                         const BleuOptions& options = {});

}  // namespace attune::metrics
