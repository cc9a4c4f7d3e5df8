#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/metrics/bleu.hpp>
#include <attune/models/metrics/ngrams.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::metrics {
namespace {

constexpr std::size_t orders = 4;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_point(char c) { return c == '.' || c == ','; }
/// ASCII's symbols and the blank, but for ' - . and ,
bool is_symbol(char c) {
  return c >= ' ' && c <= '~' && !std::isalnum(static_cast<unsigned char>(c)) && c != '\'' &&
         c != '-' && !is_point(c);
}

enum class Apart { first, second };

/// Puts blanks around the first or the second of two characters that stand side by side, as a
/// regular expression of these two would: from the left, without overlaps.
template <class First, class Second>
std::string set_apart(std::string_view text, First first, Second second, Apart which) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !first(text[i]) || !second(text[i + 1])) {
      result += text[i];
      continue;
    }
    const char a = text[i], b = text[++i];
    result += which == Apart::first ? std::string{' ', a, ' ', b} : std::string{a, ' ', b, ' '};
  }
  return result;
}

std::vector<std::string_view> views(const std::vector<std::string>& tokens) {
  return {tokens.begin(), tokens.end()};
}

Units units_of(std::string_view line, const BleuOptions& options) {
  if (options.tokens == BleuTokens::none) return Units::of_words(text::words(line));
  return Units::of_words(views(tokenize_13a(line)));
}

/// The length closest to `length`, and of two as close the shorter.
std::int64_t closest(std::int64_t length, std::span<const Units> references) {
  std::pair<std::int64_t, std::int64_t> best;  // distance, length
  for (std::size_t i = 0; i < references.size(); ++i) {
    const auto other = static_cast<std::int64_t>(references[i].size());
    const std::pair candidate{std::abs(other - length), other};
    best = i == 0 ? candidate : std::min(best, candidate);
  }
  return best.second;
}

}  // namespace

std::vector<std::string> tokenize_13a(std::string_view line) {
  std::string plain(line);
  constexpr std::pair<const char*, const char*> replacements[] = {
      {"<skipped>", ""}, {"-\n", ""},   {"\n", " "},  {"&quot;", "\""},
      {"&amp;", "&"},    {"&lt;", "<"}, {"&gt;", ">"}};  // "&amp;lt;" ends as "<"
  for (const auto& [from, to] : replacements) replace_all(plain, from, to);
  std::string spaced = " ";
  for (const char c : plain) spaced += is_symbol(c) ? std::string{' ', c, ' '} : std::string{c};
  spaced += ' ';
  spaced = set_apart(spaced, std::not_fn(is_digit), is_point, Apart::second);
  spaced = set_apart(spaced, is_point, std::not_fn(is_digit), Apart::first);
  spaced = set_apart(
      spaced, is_digit, [](char c) { return c == '-'; }, Apart::second);
  const auto tokens = text::words(spaced);
  return {tokens.begin(), tokens.end()};
}

BleuStatistics& BleuStatistics::operator+=(const BleuStatistics& other) {
  length += other.length;
  reference_length += other.reference_length;
  for (std::size_t n = 0; n < orders; ++n) {
    matches[n] += other.matches[n];
    ngrams[n] += other.ngrams[n];
  }
  return *this;
}

BleuStatistics bleu_statistics(std::string_view hypothesis, std::span<const std::string> references,
                               const BleuOptions& options) {
  const Units written = units_of(hypothesis, options);
  std::vector<Units> expected;
  for (const std::string_view reference : given("bleu", references))
    expected.push_back(units_of(reference, options));
  BleuStatistics statistics;
  statistics.length = static_cast<std::int64_t>(written.size());
  statistics.reference_length = closest(statistics.length, expected);
  for (std::size_t n = 1; n <= orders; ++n) {
    NgramCounts most;
    for (const Units& reference : expected) {
      for (const auto& [ngram, count] : count_ngrams(reference, n))
        most[ngram] = std::max(most[ngram], count);
    }
    statistics.matches[n - 1] = count_matches(count_ngrams(written, n), most);
    statistics.ngrams[n - 1] = ngrams_in(written, n);
  }
  return statistics;
}

std::vector<BleuStatistics> bleu_statistics(std::span<const std::string> hypotheses,
                                            std::span<const References> references,
                                            const BleuOptions& options) {
  check_as_many("bleu", hypotheses.size(), references.size());
  std::vector<BleuStatistics> statistics;
  for (std::size_t i = 0; i < hypotheses.size(); ++i)
    statistics.push_back(bleu_statistics(hypotheses[i], references[i], options));
  return statistics;
}

BleuScore bleu(std::span<const BleuStatistics> sentences, const BleuOptions& options) {
  BleuStatistics sum;
  for (const BleuStatistics& sentence : sentences) sum += sentence;
  BleuScore score;
  const auto c = static_cast<double>(sum.length), r = static_cast<double>(sum.reference_length);
  score.brevity_penalty = c >= r ? 1 : c == 0 ? 0 : std::exp(1 - r / c);
  if (std::ranges::all_of(sum.matches, [](auto n) { return n == 0; })) return score;

  double smoothed = 1, logarithms = 0;
  std::size_t used = orders;
  for (std::size_t n = 0; n < orders; ++n) {
    double& p = score.precisions[n];
    if (sum.ngrams[n] == 0) {  // nor are there any longer ones
      if (options.effective_order) used = n;
      break;
    }
    double matches = static_cast<double>(sum.matches[n]);
    if (matches == 0 && options.smooth) matches = smoothed /= 2;
    p = 100 * matches / static_cast<double>(sum.ngrams[n]);
  }
  for (std::size_t n = 0; n < used; ++n) logarithms += std::log(score.precisions[n]);
  score.bleu = score.brevity_penalty * std::exp(logarithms / static_cast<double>(used));
  return score;
}

BleuScore corpus_bleu(std::span<const std::string> hypotheses,
                      std::span<const References> references, const BleuOptions& options) {
  return bleu(bleu_statistics(hypotheses, references, options), options);
}

BleuScore sentence_bleu(std::string_view hypothesis, std::span<const std::string> references,
                        BleuOptions options) {
  options.effective_order = true;
  const BleuStatistics statistics = bleu_statistics(hypothesis, references, options);
  return bleu(std::span(&statistics, 1), options);
}

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
