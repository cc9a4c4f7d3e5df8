#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <attune/models/metrics/bootstrap.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/random.hpp>

namespace attune::metrics {
namespace {

void check_sample(std::size_t sentences, const BootstrapOptions& options) {
  if (sentences == 0) fail("bootstrap", "there is no sentence");
  if (options.samples < 1 || !(options.confidence > 0 && options.confidence < 1)) {
    fail("bootstrap",
         fmt::format(
             "{} samples, confidence {}: expected a positive number, and one between 0 and 1",
             options.samples, options.confidence));
  }
}

double bleu_of(const BleuStatistics& corpus, const BleuOptions& options) {
  return bleu(std::span(&corpus, 1), options).bleu;
}

/// Calls `resampled` with the sums over each sample's sentences.
template <std::size_t systems, class Resampled>
void resample(const std::array<std::span<const BleuStatistics>, systems>& sentences,
              const BootstrapOptions& options, Resampled resampled) {
  const auto count = static_cast<Index>(sentences[0].size());
  Random random(options.seed, "bootstrap");
  for (std::int64_t sample = 0; sample < options.samples; ++sample) {
    std::array<BleuStatistics, systems> sums;
    for (Index i = 0; i < count; ++i) {
      const auto drawn = static_cast<std::size_t>(random.below(count));
      for (std::size_t s = 0; s < systems; ++s) sums[s] += sentences[s][drawn];
    }
    resampled(sums);
  }
}

/// As many of the values below as above.
Interval middle(std::vector<double> values, double confidence) {
  std::ranges::sort(values);
  const auto outside =
      static_cast<std::size_t>((1 - confidence) / 2 * static_cast<double>(values.size()) + 1e-9);
  return {values[outside], values[values.size() - 1 - outside]};
}

}  // namespace

Interval bleu_interval(std::span<const BleuStatistics> sentences, const BootstrapOptions& bootstrap,
                       const BleuOptions& options) {
  check_sample(sentences.size(), bootstrap);
  std::vector<double> scores;
  resample(std::array{sentences}, bootstrap,
           [&](const auto& sums) { scores.push_back(bleu_of(sums[0], options)); });
  return middle(std::move(scores), bootstrap.confidence);
}

PairedBootstrap paired_bootstrap(std::span<const BleuStatistics> first,
                                 std::span<const BleuStatistics> second,
                                 const BootstrapOptions& bootstrap, const BleuOptions& options) {
  check_sample(first.size(), bootstrap);
  if (first.size() != second.size()) {
    fail("bootstrap", fmt::format("{} sentences of the first system, but {} of the second",
                                  first.size(), second.size()));
  }
  PairedBootstrap result;
  result.difference = bleu(first, options).bleu - bleu(second, options).bleu;
  std::vector<double> differences;
  resample(std::array{first, second}, bootstrap, [&](const auto& sums) {
    differences.push_back(bleu_of(sums[0], options) - bleu_of(sums[1], options));
  });
  const auto not_better = std::ranges::count_if(
      differences, [&](double sample) { return sample * result.difference <= 0; });
  result.p_value =
      (1 + static_cast<double>(not_better)) / (1 + static_cast<double>(differences.size()));
  result.interval = middle(std::move(differences), bootstrap.confidence);
  return result;
}

}  // namespace attune::metrics
