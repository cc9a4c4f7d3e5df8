#include "evaluation.hpp"

#include <algorithm>
#include <unordered_map>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/reduce.hpp>

#include "processes.hpp"

namespace attune::pairs {
namespace {

/// The id of a reference token that is not in the vocabulary, so no prediction contains it.
constexpr std::int32_t unwritable = -2;

/// Mean cross-entropy per target token under teacher forcing, of the pairs with tokens on both
/// sides.
double mean_loss(Models models, const TestPairs& test) {
  const NoGrad no_grad;
  const models::Model network = network_of(models);
  std::vector<text::Pair> pairs;
  std::vector<text::PairLengths> lengths;
  for (std::size_t i = 0; i < test.size(); ++i) {
    if (test.sources[i].empty() || test.targets[i].empty()) continue;
    pairs.push_back({test.sources[i], test.targets[i]});
    lengths.push_back(lengths_of(pairs.back()));
  }
  const auto batches =
      padded_batches(lengths, {.sentences = 64}, /*seed=*/0, /*epoch=*/0, /*most=*/64 * 256);
  const auto [begin, end] = workers().shards_of(workers().rank(), std::ssize(batches));
  const Numbers losses = all_gather([&, begin = begin, end = end] {
    Numbers some;  // of each batch: mean loss, number of tokens
    for (Index i = begin; i < end; ++i) {
      stop_if_interrupted();
      const text::Batch batch = text::make_batch(pairs, batches[i]);
      some.push_back(models::loss(network, batch).item());
      some.push_back(sum(batch.target_mask).item());
    }
    return some;
  });
  double total = 0, tokens = 0;
  for (std::size_t i = 0; i < losses.size(); i += 2)
    total += losses[i] * losses[i + 1], tokens += losses[i + 1];
  if (tokens == 0) fail(test.name, "no pair has tokens on both sides");
  return total / tokens;
}

std::vector<Written> predictions(Models models, const TestPairs& pairs,
                                 models::SearchOptions search) {
  search.weights = false;
  search.before_step = stop_if_interrupted;
  const models::Model network = network_of(models);
  const auto [begin, end] = workers().shards_of(workers().rank(), std::ssize(pairs.sources));
  const Numbers numbers = all_gather([&, begin = begin, end = end] {
    Numbers some;  // of each source: log-probability, completeness, number of tokens, tokens
    const auto sources = std::span(pairs.sources).subspan(begin, end - begin);
    for (const models::Translation& t : models::translate(network, sources, {.how = search})) {
      const models::Hypothesis& best = t.front();
      some.insert(some.end(), {best.log_probability, best.complete ? 1.0 : 0.0,
                               static_cast<double>(best.words.size())});
      some.insert(some.end(), best.words.begin(), best.words.end());
    }
    return some;
  });
  std::vector<Written> all;
  for (auto at = numbers.begin(); at != numbers.end();) {
    Written& one = all.emplace_back();
    one.log_probability = at[0], one.complete = at[1] != 0;
    const auto begin = at + 3, end = begin + static_cast<std::ptrdiff_t>(at[2]);
    one.tokens.assign(begin, end);
    one.text = models.front().target().decode(one.tokens);
    at = end;
  }
  return all;
}

void compare_tokens(Evaluation& result, const TestPairs& pairs, bool subwords) {
  std::unordered_map<std::string, std::int32_t> known;
  const auto numbers = [&](const std::string& line) {  // equal words have equal numbers
    text::Sentence all;
    for (const std::string_view word : text::words(line))
      all.push_back(known.emplace(word, static_cast<std::int32_t>(known.size())).first->second);
    return all;
  };
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    Written& one = result.written[i];
    text::Sentence expected = subwords ? numbers(pairs.references[i].front()) : pairs.targets[i];
    if (!subwords) std::ranges::replace(expected, text::Vocabulary::unknown, unwritable);
    const text::Sentence written = subwords ? numbers(one.text) : one.tokens;
    const metrics::Edits edits = metrics::edits(written, expected);
    one.right = edits.count() == 0;
    result.counts[expected.size()] += {edits, 1, one.right};
    if (one.right || subwords) continue;
    for (const metrics::TokenPair& pair : metrics::edit_alignment(written, expected))
      if (pair.written != pair.expected) ++result.confusions[pair];
  }
}

}  // namespace

Counts& Counts::operator+=(const Counts& other) {
  edits += other.edits;
  examples += other.examples;
  right += other.right;
  return *this;
}

std::vector<std::string> row_of(const std::string& name, const Counts& c) {
  const auto percent = [](double share) { return fmt::format("{:.2f}", 100 * share); };
  const auto& [substitutions, deletions, insertions, expected] = c.edits;
  return {name,
          grouped(c.examples),
          percent(c.share_right()),
          percent(c.edits.rate()),
          grouped(substitutions),
          grouped(deletions),
          grouped(insertions)};
}

TableRows rows_by_length(const CountsByLength& counts) {
  constexpr std::size_t most_rows = 20;
  for (std::size_t width = 1;; width *= 2) {
    CountsByLength ranges;  // key: first length of the range
    for (const auto& [length, some] : counts) ranges[length / width * width] += some;
    if (ranges.size() > most_rows) continue;
    TableRows rows = {{"tokens", "pairs", "exact match, %", "token error, %", "substitutions",
                       "deletions", "insertions"}};
    for (const auto& [first, some] : ranges) {
      const std::string end = width == 1 ? "" : fmt::format(" to {}", first + width - 1);
      rows.push_back(row_of(std::to_string(first) + end, some));
    }
    return rows;
  }
}

models::SearchOptions search_for(Models models, const UseOptions& o) {
  const Model& first = models.front();
  models::SearchOptions search = o.search;
  if (o.shortlist && !first.shortlist.defined())
    fail("--shortlist", "the model has no table, expected one trained with --shortlist yes");
  if (o.shortlist) search.shortlist = &first.shortlist;
  if (search.length_penalty < 0) search.length_penalty = first.of_sentences() ? 1 : 0;
  if (search.max_length == 0) search.max_length = first.most_tokens();
  search.beam = std::max(search.beam, search.best);
  search.before_step = stop_if_interrupted;
  return search;
}

Counts Evaluation::total() const {
  Counts sum;
  for (const auto& [length, some] : counts) sum += some;
  return sum;
}

std::vector<std::string> Evaluation::lines() const {
  std::vector<std::string> all;
  for (const Written& one : written) all.push_back(one.text);
  return all;
}

Evaluation evaluate(Models models, const TestPairs& pairs, const models::SearchOptions& search,
                    metrics::BleuTokens bleu) {
  Evaluation result;
  result.loss = mean_loss(models, pairs);
  result.written = predictions(models, pairs, search);
  compare_tokens(result, pairs, models.front().target().tokenizer.pieces() != nullptr);
  const std::vector<std::string> lines = result.lines();
  result.bleu = metrics::corpus_bleu(lines, pairs.references, bleu);
  result.chrf = metrics::corpus_chrf(lines, pairs.references);
  return result;
}

namespace {

/// Adds one more reference per source, from the lines of a file.
void add_references(TestPairs& pairs, const std::filesystem::path& file, bool nfc) {
  std::vector<std::string> lines = text::read_lines(text::LineReader(file));
  if (lines.size() != pairs.size())
    fail(file.string(), "{} lines, expected one for each of {} pairs", lines.size(), pairs.size());
  if (!lines.empty() && lines.front().find('\t') != std::string::npos)
    fail(file.string() + ":1", "contains a TAB, expected one text per line");
  for (std::size_t i = 0; i < lines.size(); ++i)
    pairs.references[i].push_back(normalized(lines[i], nfc));
}

metrics::BleuTokens bleu_for(const Model& model, BleuChoice choice) {
  const bool none =
      choice == BleuChoice::trained ? model.entry("bleu") == "none" : choice == BleuChoice::none;
  return none ? metrics::BleuTokens::none : metrics::BleuTokens::mteval_13a;
}

}  // namespace

Measured::Measured(const UseOptions& o, std::vector<std::filesystem::path> from)
    : files(std::move(from)),
      models(load_equal_models(files)),
      pairs(pairs_for(o, models)),
      search(search_for(models, o)),
      bleu(bleu_for(first(), o.bleu)) {
  for (const auto& file : o.references) add_references(pairs, file, first().nfc());
  require_equal(pairs.name, {"the fingerprint " + pairs.fingerprint().text()});
  UnknownTokens unknown;
  for (const std::string& line : pairs.lines)
    unknown.add(first().source(), first().source().tokenizer.encode(line));
  if (!o.trained) unknown.warn(pairs.name, "source");
  const auto start = std::chrono::steady_clock::now();
  result = evaluate(models, pairs, search, bleu);
  seconds = seconds_since(start);
  if (!o.trained && result.token_error() > 1)
    complain(
        "warning: {}: the token error exceeds 100 %: are the targets tokenised (blanks, case, "
        "--swap) as in training?\n",
        pairs.name);
  const auto cut = std::ranges::count(result.written, false, &Written::complete);
  if (cut > 0 && !o.trained)
    complain("warning: {} of {} predictions were truncated at --max-length {}\n", cut, pairs.size(),
             search.max_length);
}

std::vector<metrics::BleuStatistics> Measured::statistics() const {
  return metrics::bleu_statistics(result.lines(), pairs.references, bleu);
}

metrics::PairedBootstrap Measured::change_from(const Measured& other) const {
  const auto outcomes = [&](const Measured& m) {
    if (sentences()) return m.statistics();
    std::vector<metrics::BleuStatistics> all;  // their BLEU is the percentage of exact matches
    for (const Written& one : m.result.written)
      all.push_back({.length = 1, .reference_length = 1, .matches = {}, .ngrams = {1, 1, 1, 1}}),
          all.back().matches.fill(one.right);
    return all;
  };
  return metrics::paired_bootstrap(outcomes(*this), outcomes(other));
}

std::vector<metrics::LengthBucket> Measured::by_length(std::span<const std::int64_t> limits) const {
  std::vector<std::int64_t> lengths;  // in words
  for (const std::string& line : pairs.lines) lengths.push_back(std::ssize(text::words(line)));
  return metrics::bleu_by_length(statistics(), lengths, limits);
}

std::vector<Confusion> Measured::confusions(std::size_t most) const {
  std::vector<std::pair<metrics::TokenPair, Index>> order(result.confusions.begin(),
                                                          result.confusions.end());
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [](const auto& one) { return one.second; });
  order.resize(std::min(most, order.size()));
  const auto name = [&](std::int32_t token) -> std::string {
    if (token == metrics::TokenPair::no_token) return "∅";
    if (token == unwritable) return "(not in the vocabulary)";
    const std::string& text = first().target().vocabulary.token(token);
    return text == " " ? "␣" : text;
  };
  std::vector<Confusion> all;
  for (const auto& [pair, times] : order)
    all.push_back({name(pair.expected), name(pair.written), times});
  return all;
}

std::string summary(const Evaluation& r, bool sentences) {
  const std::string text = sentences ? fmt::format("BLEU {:.2f}, chrF {:.2f}", r.bleu, r.chrf)
                                     : fmt::format("exact match {:.2f} %, token error {:.2f} %",
                                                   100 * r.exact_match(), 100 * r.token_error());
  return fmt::format("{}, perplexity {:.2f}", text, r.perplexity());
}

}  // namespace attune::pairs
