#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/text/metrics.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/random.hpp>

namespace attune::metrics {
namespace {

/// Number of occurrences of each n-gram. The keys are views into a Units object.
using NgramCounts = std::unordered_map<std::string_view, std::int64_t>;

/// The units (words or characters) of a text, for n-grams.
class Units {
 public:
  /// Each word is followed by a blank, and contains none, so different n-grams are different
  /// strings.
  explicit Units(const auto& units, std::string_view behind = " ") {
    for (const std::string_view unit : units) {
      text_.append(unit).append(behind);
      begins_.push_back(text_.size());
    }
  }

  std::int64_t size() const { return std::ssize(begins_) - 1; }
  /// The number of n-grams, 0 if the text has fewer than n units.
  std::int64_t ngrams(std::size_t n) const {
    return std::max<std::int64_t>(0, size() - static_cast<std::int64_t>(n) + 1);
  }
  NgramCounts count_ngrams(std::size_t n) const {
    NgramCounts counts;
    for (std::size_t i = 0; i + n < begins_.size(); ++i)
      ++counts[std::string_view(text_).substr(begins_[i], begins_[i + n] - begins_[i])];
    return counts;
  }

 private:
  std::string text_;
  std::vector<std::size_t> begins_{0};  // the start of each unit, then the end
};

/// The number of n-grams in both texts (the sum of the minimum counts).
std::int64_t count_matches(const NgramCounts& a, const NgramCounts& b) {
  std::int64_t matches = 0;
  for (const auto& [ngram, count] : a) {
    if (const auto other = b.find(ngram); other != b.end())
      matches += std::min(count, other->second);
  }
  return matches;
}

void check_references(const char* operation, std::span<const std::string> hypotheses,
                      std::span<const References> references) {
  if (hypotheses.size() != references.size())
    fail(operation, "{} hypotheses, but references of {} sentences", hypotheses.size(),
         references.size());
  if (std::ranges::any_of(references, &References::empty))
    fail(operation, "a sentence has no reference");
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_point(char c) { return c == '.' || c == ','; }
/// ASCII symbols and the blank, except ' - . and ,
bool is_symbol(char c) {
  return c >= ' ' && c <= '~' && !std::isalnum(static_cast<unsigned char>(c)) && c != '\'' &&
         c != '-' && !is_point(c);
}

enum class Apart { first, second };

/// Puts blanks around the first or the second of two adjacent characters, as replacing a regular
/// expression of both does: from left to right, without overlaps.
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

Units units_of(std::string_view line, BleuTokens tokens) {
  return tokens == BleuTokens::none ? Units(text::words(line)) : Units(tokenize_13a(line));
}

BleuStatistics statistics_of(std::string_view hypothesis, const References& references,
                             BleuTokens tokens) {
  const Units written = units_of(hypothesis, tokens);
  std::vector<Units> expected;
  for (const std::string& reference : references) expected.push_back(units_of(reference, tokens));
  BleuStatistics statistics{.length = written.size()};
  statistics.reference_length =
      std::ranges::min_element(expected, {}, [&](const Units& reference) {
        return std::pair(std::abs(reference.size() - statistics.length), reference.size());
      })->size();
  for (std::size_t n = 1; n <= statistics.ngrams.size(); ++n) {
    NgramCounts most;
    for (const Units& reference : expected) {
      for (const auto& [ngram, count] : reference.count_ngrams(n))
        most[ngram] = std::max(most[ngram], count);
    }
    statistics.matches[n - 1] = count_matches(written.count_ngrams(n), most);
    statistics.ngrams[n - 1] = written.ngrams(n);
  }
  return statistics;
}

double score(const BleuStatistics& sum) {
  const auto c = static_cast<double>(sum.length), r = static_cast<double>(sum.reference_length);
  const double brevity_penalty = c >= r ? 1 : c == 0 ? 0 : std::exp(1 - r / c);
  if (std::ranges::all_of(sum.matches, [](auto n) { return n == 0; })) return 0;
  double smoothed = 1, logarithms = 0;
  for (std::size_t n = 0; n < sum.ngrams.size(); ++n) {
    if (sum.ngrams[n] == 0) return 0;
    double matches = static_cast<double>(sum.matches[n]);
    if (matches == 0) matches = smoothed /= 2;
    logarithms += std::log(100 * matches / static_cast<double>(sum.ngrams[n]));
  }
  return brevity_penalty * std::exp(logarithms / static_cast<double>(sum.ngrams.size()));
}

constexpr std::size_t samples = 1000;  // of a bootstrap

/// BLEU of `first`, minus that of `second` if there is one, for each bootstrap sample, in ascending
/// order.
std::vector<double> resampled(std::span<const BleuStatistics> first,
                              std::span<const BleuStatistics> second) {
  if (first.empty()) fail("bootstrap", "there is no sentence");
  Random random(1, "bootstrap");
  std::vector<double> scores(samples);
  for (double& sample : scores) {
    BleuStatistics sums[2];
    for (std::size_t n = 0; n < first.size(); ++n) {
      const Index i = random.below(std::ssize(first));
      sums[0] += first[i];
      if (!second.empty()) sums[1] += second[i];
    }
    sample = score(sums[0]) - score(sums[1]);
  }
  std::ranges::sort(scores);
  return scores;
}

/// The middle 95 % of the ascending values.
Interval middle(const std::vector<double>& values) {
  const std::size_t outside = values.size() / 40;
  return {values[outside], values[values.size() - 1 - outside]};
}

/// Counts of the character n-grams of one order n.
struct ChrfOrder {
  std::int64_t ngrams = 0;            // of the hypothesis
  std::int64_t reference_ngrams = 0;  // of the reference
  std::int64_t matches = 0;
};
using ChrfStatistics = std::array<ChrfOrder, 6>;

double score(const ChrfStatistics& sum) {
  double precision = 0, recall = 0;
  int orders = 0;
  for (const ChrfOrder& order : sum) {
    if (order.ngrams == 0 || order.reference_ngrams == 0) continue;
    precision += static_cast<double>(order.matches) / static_cast<double>(order.ngrams);
    recall += static_cast<double>(order.matches) / static_cast<double>(order.reference_ngrams);
    ++orders;
  }
  if (precision == 0) return 0;
  precision /= orders, recall /= orders;
  constexpr double weight = 4;  // β²
  return 100 * (1 + weight) * precision * recall / (weight * precision + recall);
}

/// Code points without blanks. Throws on invalid UTF-8.
Units characters_of(std::string_view text) {
  std::vector<std::string> characters = text::code_points(text);
  std::erase_if(characters, [](const std::string& c) { return text::words(c).empty(); });
  return Units(characters, "");
}

/// The statistics of a sentence with its best-scoring reference.
ChrfStatistics chrf_statistics(std::string_view hypothesis, const References& references) {
  const Units written = characters_of(hypothesis);
  ChrfStatistics best;
  double best_score = -1;
  for (const std::string& reference : references) {
    const Units expected = characters_of(reference);
    ChrfStatistics own;
    for (std::size_t n = 1; n <= own.size(); ++n) {
      const std::int64_t ngrams = expected.ngrams(n);
      own[n - 1] = {.ngrams = ngrams == 0 ? 0 : written.ngrams(n),  // as in sacreBLEU
                    .reference_ngrams = ngrams,
                    .matches = count_matches(written.count_ngrams(n), expected.count_ngrams(n))};
    }
    if (const double now = score(own); now > best_score) best = own, best_score = now;
  }
  return best;
}

std::size_t in_both(const text::Alignment& a, const text::Alignment& b) {
  text::Alignment links;
  std::ranges::set_intersection(a, b, std::back_inserter(links));
  return links.size();
}

double share(std::size_t part, std::size_t whole) {
  return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

// ---- BLEU

std::vector<std::string> tokenize_13a(std::string_view line) {
  std::string plain(line);
  constexpr std::pair<std::string_view, std::string_view> replacements[] = {
      {"<skipped>", ""}, {"-\n", ""},   {"\n", " "},  {"&quot;", "\""},
      {"&amp;", "&"},    {"&lt;", "<"}, {"&gt;", ">"}};  // "&amp;lt;" ends as "<"
  for (const auto& [from, to] : replacements) {
    for (std::size_t at = 0; (at = plain.find(from, at)) != plain.npos; at += to.size())
      plain.replace(at, from.size(), to);
  }
  std::string spaced = " ";
  for (const char c : plain) spaced += is_symbol(c) ? std::string{' ', c, ' '} : std::string{c};
  spaced += ' ';
  spaced = set_apart(spaced, std::not_fn(is_digit), is_point, Apart::second);
  spaced = set_apart(spaced, is_point, std::not_fn(is_digit), Apart::first);
  spaced = set_apart(
      spaced, is_digit, [](char c) { return c == '-'; }, Apart::second);
  const std::vector<std::string_view> words = text::words(spaced);
  return {words.begin(), words.end()};
}

BleuStatistics& BleuStatistics::operator+=(const BleuStatistics& other) {
  length += other.length;
  reference_length += other.reference_length;
  for (std::size_t n = 0; n < ngrams.size(); ++n) {
    matches[n] += other.matches[n];
    ngrams[n] += other.ngrams[n];
  }
  return *this;
}

std::vector<BleuStatistics> bleu_statistics(std::span<const std::string> hypotheses,
                                            std::span<const References> references,
                                            BleuTokens tokens) {
  check_references("bleu", hypotheses, references);
  std::vector<BleuStatistics> statistics;
  for (std::size_t i = 0; i < hypotheses.size(); ++i)
    statistics.push_back(statistics_of(hypotheses[i], references[i], tokens));
  return statistics;
}

double bleu(std::span<const BleuStatistics> sentences) {
  BleuStatistics sum;
  for (const BleuStatistics& sentence : sentences) sum += sentence;
  return score(sum);
}

double corpus_bleu(std::span<const std::string> hypotheses, std::span<const References> references,
                   BleuTokens tokens) {
  return bleu(bleu_statistics(hypotheses, references, tokens));
}

std::vector<LengthBucket> bleu_by_length(std::span<const BleuStatistics> sentences,
                                         std::span<const std::int64_t> lengths,
                                         std::span<const std::int64_t> limits) {
  if (lengths.size() != sentences.size())
    fail("bleu_by_length", "{} sentences, but {} lengths", sentences.size(), lengths.size());
  if (std::ranges::adjacent_find(limits, std::greater_equal()) != limits.end())
    fail("bleu_by_length", "the limits {} do not ascend", fmt::join(limits, ", "));
  std::vector<std::vector<BleuStatistics>> parts(limits.size() + 1);
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    const auto bucket = std::ranges::lower_bound(limits, lengths[i]) - limits.begin();
    parts[bucket].push_back(sentences[i]);
  }
  std::vector<LengthBucket> buckets;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    buckets.push_back({i == 0 ? 0 : limits[i - 1] + 1,
                       i < limits.size() ? std::optional(limits[i]) : std::nullopt,
                       std::ssize(parts[i]), bleu(parts[i])});
  }
  return buckets;
}

// ---- Bootstrap

Interval bleu_interval(std::span<const BleuStatistics> sentences) {
  return middle(resampled(sentences, {}));
}

PairedBootstrap paired_bootstrap(std::span<const BleuStatistics> first,
                                 std::span<const BleuStatistics> second) {
  if (first.size() != second.size())
    fail("bootstrap", "{} sentences of the first system, but {} of the second", first.size(),
         second.size());
  PairedBootstrap result;
  result.difference = bleu(first) - bleu(second);
  const std::vector<double> differences = resampled(first, second);
  const auto not_better = std::ranges::count_if(
      differences, [&](double sample) { return sample * result.difference <= 0; });
  result.p_value = (1 + static_cast<double>(not_better)) / (1 + static_cast<double>(samples));
  result.interval = middle(differences);
  return result;
}

double corpus_chrf(std::span<const std::string> hypotheses,
                   std::span<const References> references) {
  check_references("chrf", hypotheses, references);
  ChrfStatistics sum;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    const ChrfStatistics sentence = chrf_statistics(hypotheses[i], references[i]);
    for (std::size_t n = 0; n < sum.size(); ++n) {
      sum[n].ngrams += sentence[n].ngrams;
      sum[n].reference_ngrams += sentence[n].reference_ngrams;
      sum[n].matches += sentence[n].matches;
    }
  }
  return score(sum);
}

// ---- Error rates

double Edits::rate() const {
  return static_cast<double>(count()) / static_cast<double>(std::max<std::int64_t>(1, expected));
}

Edits& Edits::operator+=(const Edits& other) {
  substitutions += other.substitutions;
  deletions += other.deletions;
  insertions += other.insertions;
  expected += other.expected;
  return *this;
}

std::vector<TokenPair> edit_alignment(std::span<const std::int32_t> written,
                                      std::span<const std::int32_t> expected) {
  // cost[i][j] of the first i and j tokens. A substitution costs slightly less than other edits, so
  // ties are resolved in favour of substitutions.
  const std::size_t rows = written.size() + 1, columns = expected.size() + 1;
  const auto other = static_cast<std::int64_t>(rows + columns - 1);
  std::vector<std::int64_t> cost(rows * columns);
  const auto kept = [&](std::size_t i, std::size_t j) {
    return cost[(i - 1) * columns + j - 1] + (written[i - 1] == expected[j - 1] ? 0 : other - 1);
  };
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      cost[i * columns + j] = i == 0 || j == 0
                                  ? static_cast<std::int64_t>(i + j) * other
                                  : std::min({kept(i, j), cost[(i - 1) * columns + j] + other,
                                              cost[i * columns + j - 1] + other});
    }
  }
  std::vector<TokenPair> pairs;
  for (std::size_t i = written.size(), j = expected.size(); i > 0 || j > 0;) {
    const std::int64_t best = cost[i * columns + j];
    const bool both = i > 0 && j > 0 && best == kept(i, j);
    const bool insertion = !both && i > 0 && best == cost[(i - 1) * columns + j] + other;
    pairs.push_back({both || insertion ? written[--i] : TokenPair::no_token,
                     insertion ? TokenPair::no_token : expected[--j]});
  }
  std::ranges::reverse(pairs);
  return pairs;
}

Edits edits(std::span<const std::int32_t> written, std::span<const std::int32_t> expected) {
  Edits edits{.expected = std::ssize(expected)};
  for (const TokenPair& pair : edit_alignment(written, expected)) {
    const bool insertion = pair.expected == TokenPair::no_token;
    const bool deletion = pair.written == TokenPair::no_token;
    edits.insertions += insertion;
    edits.deletions += deletion;
    edits.substitutions += !insertion && !deletion && pair.written != pair.expected;
  }
  return edits;
}

double AlignmentScore::error_rate() const { return 1 - share(in_sure + in_possible, links + sure); }
double AlignmentScore::precision() const { return share(in_possible, links); }
double AlignmentScore::recall() const { return share(in_sure, sure); }

AlignmentScore alignment_error_rate(std::span<const text::Alignment> found,
                                    std::span<const text::GoldAlignment> gold) {
  if (found.size() != gold.size())
    fail("alignment_error_rate", "{} sentences, but {} of gold", found.size(), gold.size());
  AlignmentScore score;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& [sure, possible] = gold[i];
    const text::Alignment a = text::sorted(found[i]), s = text::sorted(sure);
    text::Alignment p = possible;
    p.insert(p.end(), s.begin(), s.end());
    score.links += a.size();
    score.sure += s.size();
    score.in_sure += in_both(a, s);
    score.in_possible += in_both(a, text::sorted(std::move(p)));
  }
  return score;
}

}  // namespace attune::metrics
