#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/metrics/bleu_by_length.hpp>
#include <attune/tensor/check.hpp>

namespace attune::metrics {

std::vector<LengthBucket> bleu_by_length(std::span<const BleuStatistics> sentences,
                                         std::span<const std::int64_t> lengths,
                                         std::span<const std::int64_t> limits,
                                         const BleuOptions& options) {
  if (lengths.size() != sentences.size()) {
    fail("bleu_by_length",
         fmt::format("{} sentences, but {} lengths", sentences.size(), lengths.size()));
  }
  if (std::ranges::adjacent_find(limits, std::greater_equal()) != limits.end())
    fail("bleu_by_length", fmt::format("the limits {} do not ascend", fmt::join(limits, ", ")));
  std::vector<std::vector<BleuStatistics>> parts(limits.size() + 1);
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    const auto bucket = std::ranges::lower_bound(limits, lengths[i]) - limits.begin();
    parts[bucket].push_back(sentences[i]);
  }
  std::vector<LengthBucket> buckets;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    LengthBucket bucket{.shortest = i == 0 ? 0 : limits[i - 1] + 1,
                        .longest = {},
                        .sentences = static_cast<std::int64_t>(parts[i].size()),
                        .score = bleu(parts[i], options)};
    if (i < limits.size()) bucket.longest = limits[i];
    buckets.push_back(bucket);
  }
  return buckets;
}

}  // namespace attune::metrics
