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

#include <attune/models/metrics.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/random.hpp>

namespace attune::metrics {
namespace {

/// Occurrences of each n-gram: views into the units, which must stay where they are.
using NgramCounts = std::unordered_map<std::string_view, std::int64_t>;

/// A text as units, of which n-grams are made.
class Units {
 public:
  /// Words have a blank behind them, and none inside, so no two n-grams are spelt alike.
  template <class Parts>
  explicit Units(const Parts& units, std::string_view behind = " ") {
    for (const std::string_view unit : units) {
      text_.append(unit).append(behind);
      begins_.push_back(text_.size());
    }
  }

  std::int64_t size() const { return std::ssize(begins_) - 1; }
  /// How many n-grams there are: 0 when the text is shorter than n.
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
  std::vector<std::size_t> begins_{0};  // of the units, and the end
};

/// N-grams in both, each with the smaller of its counts.
std::int64_t count_matches(const NgramCounts& a, const NgramCounts& b) {
  std::int64_t matches = 0;
  for (const auto& [ngram, count] : a) {
    if (const auto other = b.find(ngram); other != b.end())
      matches += std::min(count, other->second);
  }
  return matches;
}

/// The statistics of each sentence of a corpus.
template <class StatisticsOf>
auto of_each(const char* operation, std::span<const std::string> hypotheses,
             std::span<const References> references, StatisticsOf statistics_of) {
  if (hypotheses.size() != references.size()) {
    fail(operation, fmt::format("{} hypotheses, but references of {} sentences", hypotheses.size(),
                                references.size()));
  }
  std::vector<decltype(statistics_of(hypotheses[0], references[0]))> statistics;
  for (std::size_t i = 0; i < hypotheses.size(); ++i)
    statistics.push_back(statistics_of(hypotheses[i], references[i]));
  return statistics;
}

constexpr std::size_t orders = 4;

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

Units units_of(std::string_view line, const BleuOptions& options) {
  return options.tokens == BleuTokens::none ? Units(text::words(line)) : Units(tokenize_13a(line));
}

/// BLEU of `first`, less that of `second` where there is one, on samples of as many sentences, drawn
/// with replacement; in ascending order.
std::vector<double> resampled(std::span<const BleuStatistics> first,
                              std::span<const BleuStatistics> second,
                              const BootstrapOptions& bootstrap, const BleuOptions& options) {
  if (first.empty()) fail("bootstrap", "there is no sentence");
  if (bootstrap.samples < 1 || !(bootstrap.confidence > 0 && bootstrap.confidence < 1)) {
    fail("bootstrap",
         fmt::format(
             "{} samples, confidence {}: expected a positive number, and one between 0 and 1",
             bootstrap.samples, bootstrap.confidence));
  }
  Random random(bootstrap.seed, "bootstrap");
  std::vector<double> scores(static_cast<std::size_t>(bootstrap.samples));
  for (double& score : scores) {
    BleuStatistics sums[2];
    for (std::size_t n = 0; n < first.size(); ++n) {
      const Index i = random.below(std::ssize(first));
      sums[0] += first[i];
      if (!second.empty()) sums[1] += second[i];
    }
    score = bleu({&sums[0], 1}, options).bleu - bleu({&sums[1], 1}, options).bleu;
  }
  std::ranges::sort(scores);
  return scores;
}

/// As many of the values, which ascend, below as above.
Interval middle(const std::vector<double>& values, double confidence) {
  const auto outside =
      static_cast<std::size_t>((1 - confidence) / 2 * static_cast<double>(values.size()) + 1e-9);
  return {values[outside], values[values.size() - 1 - outside]};
}

/// Code points, without blanks. Throws when the text is not UTF-8.
Units characters_of(std::string_view text) {
  if (const auto bad = text::find_bad_byte(text))
    fail("text", fmt::format("byte {} is not UTF-8", *bad + 1));
  std::vector<std::string_view> points;
  for (const std::string_view word : text::words(text)) {
    for (std::size_t begin = 0, at = 0; at < word.size(); begin = at) {
      text::next_point(word, at);
      points.push_back(word.substr(begin, at - begin));
    }
  }
  return Units(points, "");
}

Units words_of(std::string_view text) {
  const auto is_punctuation = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x80 && std::ispunct(byte);
  };
  std::vector<std::string_view> found;
  for (const std::string_view word : text::words(text)) {
    const bool at_end = word.size() > 1 && is_punctuation(word.back());
    const bool at_start = word.size() > 1 && !at_end && is_punctuation(word.front());
    const std::size_t cut = at_end ? word.size() - 1 : at_start ? 1 : word.size();
    found.push_back(word.substr(0, cut));
    if (cut < word.size()) found.push_back(word.substr(cut));
  }
  return Units(found);
}

void add_orders(ChrfStatistics& statistics, const Units& written, const Units& expected,
                int longest) {
  for (std::size_t n = 1; n <= static_cast<std::size_t>(longest); ++n) {
    const std::int64_t references = expected.ngrams(n);
    statistics.push_back(
        {.ngrams = references == 0 ? 0 : written.ngrams(n),  // none, where none can match
         .reference_ngrams = references,
         .matches = count_matches(written.count_ngrams(n), expected.count_ngrams(n))});
  }
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
  for (const std::string& reference : references) expected.push_back(units_of(reference, options));
  if (expected.empty()) fail("bleu", "a sentence has no reference");
  BleuStatistics statistics{.length = written.size()};
  statistics.reference_length =
      std::ranges::min_element(expected, {}, [&](const Units& reference) {
        return std::pair(std::abs(reference.size() - statistics.length), reference.size());
      })->size();
  for (std::size_t n = 1; n <= orders; ++n) {
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

std::vector<BleuStatistics> bleu_statistics(std::span<const std::string> hypotheses,
                                            std::span<const References> references,
                                            const BleuOptions& options) {
  return of_each("bleu", hypotheses, references, [&](const auto& hypothesis, const auto& own) {
    return bleu_statistics(hypothesis, own, options);
  });
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
    buckets.push_back({i == 0 ? 0 : limits[i - 1] + 1,
                       i < limits.size() ? std::optional(limits[i]) : std::nullopt,
                       std::ssize(parts[i]), bleu(parts[i], options)});
  }
  return buckets;
}

// ---- Bootstrap

Interval bleu_interval(std::span<const BleuStatistics> sentences, const BootstrapOptions& bootstrap,
                       const BleuOptions& options) {
  return middle(resampled(sentences, {}, bootstrap, options), bootstrap.confidence);
}

PairedBootstrap paired_bootstrap(std::span<const BleuStatistics> first,
                                 std::span<const BleuStatistics> second,
                                 const BootstrapOptions& bootstrap, const BleuOptions& options) {
  if (first.size() != second.size()) {
    fail("bootstrap", fmt::format("{} sentences of the first system, but {} of the second",
                                  first.size(), second.size()));
  }
  PairedBootstrap result;
  result.difference = bleu(first, options).bleu - bleu(second, options).bleu;
  const std::vector<double> differences = resampled(first, second, bootstrap, options);
  const auto not_better = std::ranges::count_if(
      differences, [&](double sample) { return sample * result.difference <= 0; });
  result.p_value =
      (1 + static_cast<double>(not_better)) / (1 + static_cast<double>(differences.size()));
  result.interval = middle(differences, bootstrap.confidence);
  return result;
}

// ---- chrF

ChrfStatistics chrf_statistics(std::string_view hypothesis, std::span<const std::string> references,
                               const ChrfOptions& options) {
  if (options.characters < 0 || options.words < 0 || options.characters + options.words == 0) {
    fail("chrf", fmt::format("n-grams of {} characters and {} words, expected positive numbers",
                             options.characters, options.words));
  }
  const Units characters = characters_of(hypothesis), words = words_of(hypothesis);
  ChrfStatistics best;
  double best_score = -1;
  for (const std::string& reference : references) {
    ChrfStatistics statistics;
    add_orders(statistics, characters, characters_of(reference), options.characters);
    add_orders(statistics, words, words_of(reference), options.words);
    const double score = chrf(std::span(&statistics, 1), options);
    if (score <= best_score) continue;
    best = std::move(statistics);
    best_score = score;
  }
  if (best.empty()) fail("chrf", "a sentence has no reference");
  return best;
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
    precision += static_cast<double>(order.matches) / static_cast<double>(order.ngrams);
    recall += static_cast<double>(order.matches) / static_cast<double>(order.reference_ngrams);
    ++orders;
  }
  if (precision == 0) return 0;
  precision /= orders, recall /= orders;
  const double weight = options.beta * options.beta;
  return 100 * (1 + weight) * precision * recall / (weight * precision + recall);
}

double corpus_chrf(std::span<const std::string> hypotheses, std::span<const References> references,
                   const ChrfOptions& options) {
  const auto statistics_of = [&](const auto& hypothesis, const auto& own) {
    return chrf_statistics(hypothesis, own, options);
  };
  return chrf(of_each("chrf", hypotheses, references, statistics_of), options);
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

std::vector<TokenPair> side_by_side(std::span<const std::int32_t> written,
                                    std::span<const std::int32_t> expected) {
  // cost[i][j]: of the first i and j tokens. A substitution costs a little less than any other
  // edit, so that among equally few edits those with the most substitutions are taken.
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
  for (const TokenPair& pair : side_by_side(written, expected)) {
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
  constexpr const char* operation = "alignment_error_rate";
  if (found.size() != gold.size())
    fail(operation, fmt::format("{} sentences, but {} of gold", found.size(), gold.size()));
  AlignmentScore score;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto& [sure, possible] = gold[i];
    for (const auto& [which, links] : {std::pair("found", &found[i]), std::pair("sure", &sure),
                                       std::pair("possible", &possible)}) {
      for (const auto& [source, target] : *links) {
        if (source >= 0 && target >= 0) continue;
        fail(operation,
             fmt::format("sentence {}: a {} link is ({}, {}), but positions count from 0", i, which,
                         source, target));
      }
    }
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
