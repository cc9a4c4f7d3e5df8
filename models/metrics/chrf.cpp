#include <cctype>
#include <optional>

#include <fmt/format.h>

#include <attune/models/metrics/chrf.hpp>
#include <attune/models/metrics/ngrams.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::metrics {
namespace {

bool is_punctuation(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x80 && std::ispunct(byte);
}

Units words_of(std::string_view text) {
  std::vector<std::string_view> found;
  for (const std::string_view word : text::words(text)) {
    const bool at_end = word.size() > 1 && is_punctuation(word.back());
    const bool at_start = word.size() > 1 && !at_end && is_punctuation(word.front());
    const std::size_t cut = at_end ? word.size() - 1 : at_start ? 1 : word.size();
    found.push_back(word.substr(0, cut));
    if (cut < word.size()) found.push_back(word.substr(cut));
  }
  return Units::of_words(found);
}

/// What n-grams are counted in.
struct Line {
  explicit Line(std::string_view line)
      : characters(Units::of_characters(line)), words(words_of(line)) {}
  Units characters, words;
};

void add_orders(ChrfStatistics& statistics, const Units& written, const Units& expected,
                int longest) {
  for (std::size_t n = 1; n <= static_cast<std::size_t>(longest); ++n) {
    const std::int64_t references = ngrams_in(expected, n);
    statistics.push_back(
        {.ngrams = references == 0 ? 0 : ngrams_in(written, n),  // none, where none can match
         .reference_ngrams = references,
         .matches = count_matches(count_ngrams(written, n), count_ngrams(expected, n))});
  }
}

double share(std::int64_t part, std::int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

ChrfStatistics chrf_statistics(std::string_view hypothesis, std::span<const std::string> references,
                               const ChrfOptions& options) {
  if (options.characters < 0 || options.words < 0 || options.characters + options.words == 0) {
    fail("chrf", fmt::format("n-grams of {} characters and {} words, expected positive numbers",
                             options.characters, options.words));
  }
  const Line written(hypothesis);
  std::optional<ChrfStatistics> best;
  double best_score = 0;
  for (const std::string_view reference : given("chrf", references)) {
    const Line expected(reference);
    ChrfStatistics statistics;
    add_orders(statistics, written.characters, expected.characters, options.characters);
    add_orders(statistics, written.words, expected.words, options.words);
    const double score = chrf(std::span(&statistics, 1), options);
    if (best && score <= best_score) continue;
    best = std::move(statistics);
    best_score = score;
  }
  return *best;
}

double chrf(std::span<const ChrfStatistics> sentences, const ChrfOptions& options) {
  ChrfStatistics sum;
  for (const ChrfStatistics& sentence : sentences) {
    sum.resize(sentence.size());
    for (std::size_t i = 0; i < sentence.size(); ++i) {
      sum[i].ngrams += sentence[i].ngrams;
      sum[i].reference_ngrams += sentence[i].reference_ngrams;
      sum[i].matches += sentence[i].matches;
    }
  }
  double precision = 0, recall = 0;
  int orders = 0;
  for (const ChrfOrder& order : sum) {
    if (order.ngrams == 0 || order.reference_ngrams == 0) continue;
    precision += share(order.matches, order.ngrams);
    recall += share(order.matches, order.reference_ngrams);
    ++orders;
  }
  if (precision == 0) return 0;
  precision /= orders, recall /= orders;
  const double weight = options.beta * options.beta;
  return 100 * (1 + weight) * precision * recall / (weight * precision + recall);
}

double corpus_chrf(std::span<const std::string> hypotheses, std::span<const References> references,
                   const ChrfOptions& options) {
  check_as_many("chrf", hypotheses.size(), references.size());
  std::vector<ChrfStatistics> statistics;
  for (std::size_t i = 0; i < hypotheses.size(); ++i)
    statistics.push_back(chrf_statistics(hypotheses[i], references[i], options));
  return chrf(statistics, options);
}

}  // namespace attune::metrics
