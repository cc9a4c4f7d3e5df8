#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <attune/models/papers.hpp>
#include <attune/models/search.hpp>
#include <attune/tensor/errors.hpp>

#include "models/decoders.hpp"
#include "support/errors.hpp"
#include "support/models_batches.hpp"

namespace {

using namespace attune;
using models::OutputTokens;
using models::SearchOptions;
using models::Translation;
using text::Sentence;
using namespace test;

static_assert(models::Decoder<TableDecoder>);

/// The best hypotheses for sources with these first tokens, of one to three tokens. All tokens of
/// the tables can be generated.
std::vector<Translation> search(const TableDecoder& decoder, const Words& first_words,
                                SearchOptions options) {
  options.output_tokens = kAll;
  std::vector<Sentence> sources;
  for (std::int32_t word : first_words) {
    Sentence& source = sources.emplace_back(1 + sources.size() % 3, 3);
    source[0] = word;
  }
  const auto [source, mask] = text::make_source_batch(sources);
  return models::search(decoder, decoder.encode(source, mask), options);
}

Hypothesis best(const TableDecoder& decoder, const SearchOptions& options) {
  const auto found = search(decoder, {4}, options);
  REQUIRE(found.size() == 1);
  REQUIRE(found[0].size() >= 1);
  return found[0][0];
}

/// The table decoder with other attention weights.
class OtherWeights : public TableDecoder {
 public:
  using Change = std::function<Var(const Var& weights)>;

  explicit OtherWeights(Change change)
      : TableDecoder(random_table(4, 3)), change_(std::move(change)) {}
  Step step(const Tensor& previous, const State& state) const {
    Step step = TableDecoder::step(previous, state);
    step.weights = change_(step.weights);
    return step;
  }

  /// For sources of 3 and 1 words.
  std::vector<Translation> search() const {
    const auto [source, mask] = text::make_source_batch({{Sentence{4, 3, 3}, {5}}});
    return models::search(*this, encode(source, mask),
                          {.beam = 4, .best = 4, .output_tokens = kAll});
  }

 private:
  Change change_;
};

// ---- Results

TEST_CASE("search: greedy takes the most probable token, beam 2 the better sentence") {
  // After the more probable 4 every continuation is improbable; after 5 the end is almost certain.
  const TableDecoder decoder([](std::int32_t, const Words& words) {
    if (words.empty()) return next(0.01, 0.55, 0.40);
    if (words.size() > 1) return next(0.98, 0.01, 0.01);
    return words[0] == 4 ? next(0.4, 0.3, 0.25) : next(0.9, 0.04, 0.04);
  });
  const Hypothesis greedy = best(decoder, {.beam = 1});
  CHECK(greedy.words == Words{4});
  CHECK(greedy.complete);
  CHECK(near(greedy.log_probability, std::log(0.55) + std::log(0.4)));
  const Hypothesis found = best(decoder, {.beam = 2});
  CHECK(found.words == Words{5});
  CHECK(near(found.log_probability, std::log(0.40) + std::log(0.9)));
}

struct Enumerated {
  Words words;
  double log_probability, score;
};

/// The score s of SearchOptions, for outputs of the table decoder for a source of 3 tokens.
double score_of(const Words& words, double log_probability, const SearchOptions& o) {
  const double length = static_cast<double>(words.size()) + 1;
  double log_coverage = 0;
  for (Index i = 0; i < 3; ++i) {
    double covered = TableDecoder::weight(i, 3, text::Vocabulary::begin);
    for (std::int32_t word : words) covered += TableDecoder::weight(i, 3, word);
    log_coverage += std::log(std::min(covered, 1.0));
  }
  return log_probability / std::pow(length, o.length_penalty) + o.coverage_penalty * log_coverage;
}

/// Every complete sentence of up to `max_length` tokens.
void enumerate(const TableDecoder::Table& table, const SearchOptions& options, const Words& words,
               double log_probability, std::vector<Enumerated>& all) {
  const Probabilities p = table(4, words);
  const double total = log_probability + std::log(p[kEnd]);
  all.push_back({words, total, score_of(words, total, options)});
  if (std::ssize(words) == options.max_length) return;
  for (std::int32_t word = 0; word < kVocabulary; ++word) {
    if (word == kEnd) continue;
    Words longer = words;
    longer.push_back(word);
    enumerate(table, options, longer, log_probability + std::log(p[static_cast<std::size_t>(word)]),
              all);
  }
}

/// Every combination of penalties.
std::vector<SearchOptions> scorings() {
  std::vector<SearchOptions> all;
  for (const double alpha : {-0.5, 0.0, 0.7, 2.0})
    for (const double beta : {0.0, 0.2, 3.0})
      all.push_back({.length_penalty = alpha, .coverage_penalty = beta});
  return all;
}

/// The hypotheses for a source of 3 words, 4 first.
std::vector<Hypothesis> search_one(const TableDecoder& decoder, const SearchOptions& options) {
  return search(decoder, {4, 4, 4}, options)[2];
}

TEST_CASE("search: without pruning it equals exhaustive search") {
  const auto table = random_table(3);
  for (SearchOptions options : scorings()) {
    options.beam = 1000;
    options.max_length = 3;
    options.best = 20;
    std::vector<Enumerated> all;
    enumerate(table, options, {}, 0, all);
    REQUIRE(all.size() == 1 + 5 + 25 + 125);
    std::ranges::sort(all, std::ranges::greater(), &Enumerated::score);
    const auto found = search_one(TableDecoder(table), options);
    REQUIRE(found.size() == 20);
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].words == all[i].words);
      CHECK(found[i].complete);
      CHECK(near(found[i].log_probability, all[i].log_probability));
      // Weights are f32.
      CHECK(std::abs(found[i].score - all[i].score) <
            (options.coverage_penalty > 0 ? 1e-5 : 1e-12));
    }
  }
}

TEST_CASE("search: early termination does not change the result") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto table = random_table(6, seed);
    for (SearchOptions options : scorings()) {
      options.beam = options.best = 5;  // all of them must be finished
      options.max_length = 8;
      const auto all = search_one(TableDecoder(table), options);
      for (Index best = 1; best < 5; ++best) {
        options.best = best;
        const auto found = search_one(TableDecoder(table), options);
        REQUIRE(std::ssize(found) == best);
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(same(found[i], all[i]));
      }
    }
  }
}

TEST_CASE("search: terminates when no active hypothesis can win") {
  // "" has 0.5, "4" and "5" go on with 0.3 and 0.19.
  const TableDecoder decoder([](std::int32_t, const Words&) { return next(0.5, 0.3, 0.19); });
  const auto steps = [&](const SearchOptions& options) {
    decoder.rows_of_steps.clear();
    best(decoder, options);
    return decoder.rows_of_steps.size();
  };
  CHECK(steps({.beam = 3}) == 1);
  CHECK(steps({.beam = 3, .best = 2}) == 2);
  // Of one word "4" could come to log(0.3) / 2 > log(0.5).
  CHECK(steps({.beam = 3, .max_length = 1, .length_penalty = 1}) == 2);
  // To log(0.3) / 2^0.3 = -0.98 < log(0.5) only; of a hundred words to log(0.3) / 101^0.3 = -0.30.
  CHECK(steps({.beam = 3, .max_length = 1, .length_penalty = 0.3}) == 1);
  CHECK(steps({.beam = 3, .max_length = 100, .length_penalty = 0.3}) == 2);
}

TEST_CASE("search: a source token without weight counts as 10^-10") {
  const OtherWeights decoder([](const Var& w) { return w * 0; });
  const auto [source, mask] = text::make_source_batch({{Sentence{4, 3, 3}}});
  const Hypothesis h =
      models::search(decoder, decoder.encode(source, mask), {.coverage_penalty = 0.5})[0][0];
  CHECK(near(h.score, h.log_probability + 0.5 * 3 * std::log(1e-10)));
}

TEST_CASE("search: large vocabularies: the largest logits; ties go to the smaller id") {
  constexpr Index v = 1000;
  Tensor logits = randn({3, v}, DType::f64, 7);
  double* x = logits.mutable_data<double>();
  for (Index row = 0; row < 3; ++row) {
    x[row * v + kEnd] = -100;
    for (Index word : {900, 128, 127, 256}) x[row * v + word] = 5;  // equals, in several blocks
    x[row * v + 999] = 6;
  }
  Words words;
  const ScriptedDecoder decoder{[&](const Tensor& last) -> OneStep {
    words = last.to_vector<std::int32_t>();
    return {std::ssize(words) == 3 ? logits : zeros({21, v}), {}};
  }};
  models::search(decoder, no_annotations(2, 3),
                 {.beam = 7, .max_length = 1, .output_tokens = kAll});
  REQUIRE(words.size() == 21);
  for (Index row = 0; row < 3; ++row) {
    Words expected(v);
    std::iota(expected.begin(), expected.end(), 0);
    std::ranges::stable_sort(expected, std::ranges::greater(),
                             [&](std::int32_t word) { return x[row * v + word]; });
    CHECK(Words(words.begin() + 7 * row, words.begin() + 7 * (row + 1)) ==
          Words(expected.begin(), expected.begin() + 7));
  }
}

TEST_CASE("search: tokens of probability 0 are not generated") {
  const TableDecoder decoder([](std::int32_t, const Words& words) {
    return words.empty() ? Probabilities{0, 0, 0.25, 0, 0.75, 0} : Probabilities{0, 0, 1, 0, 0, 0};
  });
  const auto found = search(decoder, {4}, {.beam = 5, .best = 5})[0];
  REQUIRE(found.size() == 2);
  CHECK(found[0].words == Words{4});
  CHECK(found[1].words.empty());
}

TEST_CASE("search: ties go to the earlier hypothesis and the smaller id") {
  const TableDecoder decoder([](std::int32_t, const Words& words) {
    if (words.size() == 2) return Probabilities{1e-30, 1e-30, 1, 1e-30, 1e-30, 1e-30};
    return Probabilities{0.24, 0.24, 0.04, 0.24, 0.24, 1e-30};
  });
  const auto found = search(decoder, {4}, {.beam = 3, .best = 3})[0];
  REQUIRE(found.size() == 3);
  CHECK(found[0].words == Words{0, 0});
  CHECK(found[1].words == Words{0, 1});
  CHECK(found[2].words == Words{0, 3});
  const auto again = search(decoder, {4}, {.beam = 3, .best = 3})[0];
  for (std::size_t i = 0; i < 3; ++i) CHECK(same(again[i], found[i]));
}

// ---- Length

TableDecoder endless() {
  return TableDecoder([](std::int32_t, const Words&) { return next(0.01, 0.3, 0.6); });
}

TEST_CASE("search: a sentence that does not end is truncated at max_length, not complete") {
  for (const Index beam : {1, 3}) {
    const Hypothesis cut = best(endless(), {.beam = beam, .max_length = 4});
    CHECK_FALSE(cut.complete);
    CHECK(cut.words == Words{5, 5, 5, 5});
    CHECK(cut.word_log_probabilities.size() == 4);
    CHECK(near(cut.log_probability, 4 * std::log(0.6)));
  }
}

TEST_CASE("search: within_source limits the length to that of the own source") {
  const auto found = search(endless(), {3, 4, 5}, {.max_length = 2, .within_source = true});
  for (const std::size_t i : {0, 1, 2})
    CHECK(found[i][0].words.size() == std::min<std::size_t>(i + 1, 2));
}

TEST_CASE("search: a sentence of max_length tokens can be complete") {
  const TableDecoder decoder([](std::int32_t, const Words& words) {
    return words.size() < 3 ? next(0.01, 0.9, 0.05) : next(0.97, 0.01, 0.01);
  });
  const Hypothesis whole = best(decoder, {.max_length = 3});
  CHECK(whole.complete);
  CHECK(whole.words == Words{4, 4, 4});
  CHECK_FALSE(best(decoder, {.max_length = 2}).complete);
}

TEST_CASE("search: a sentence may be empty") {
  const TableDecoder decoder([](std::int32_t, const Words&) { return next(0.9, 0.05, 0.01); });
  const Hypothesis empty = best(decoder, {});
  CHECK(empty.complete);
  CHECK(empty.words.empty());
  CHECK(empty.word_log_probabilities.size() == 1);
  CHECK(empty.weights.shape() == Shape{1, 1});
}

TEST_CASE("search: at max_length truncated and complete hypotheses compete by score") {
  const TableDecoder decoder = endless();
  const auto found = search(decoder, {4}, {.beam = 5, .max_length = 4, .best = 5})[0];
  REQUIRE(found.size() == 5);
  CHECK(found[0].words == Words{5, 5, 5, 5});  // "" is complete, and less likely
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(found[i].complete == (found[i].words.size() < 4));
    for (std::size_t j = 0; j < i; ++j) CHECK(found[i].words != found[j].words);
    if (i > 0) CHECK(found[i].score <= found[i - 1].score);
  }
  // log(0.3) · 1 of "" is less than log(0.4) · 1 of the truncated "4", which has no </s>.
  const TableDecoder four([](std::int32_t, const Words&) { return next(0.3, 0.4, 0.2); });
  CHECK(best(four, {.beam = 3, .max_length = 1, .length_penalty = -1}).words == Words{4});
}

// ---- Excluded tokens, and texts

/// The table's probabilities of these words, scaled to a sum of 1.
Probabilities only(const Words& allowed, const Probabilities& p) {
  Probabilities scaled(p.size());
  double total = 0;
  for (const std::int32_t word : allowed) total += p[static_cast<std::size_t>(word)];
  for (const std::int32_t word : allowed) {
    const auto w = static_cast<std::size_t>(word);
    scaled[w] = p[w] / total;
  }
  return scaled;
}

TEST_CASE("search, sample: no special tokens except </s>, <unk> only if requested") {
  const auto table = random_table(100, 2);
  const TableDecoder decoder(table);
  const std::vector<Sentence> sources(50, Sentence{4, 3});
  const auto [source, mask] = text::make_source_batch(sources);
  const auto encoded = decoder.encode(source, mask);
  for (const auto& [tokens, allowed] :
       {std::pair(OutputTokens::words, Words{2, 4, 5}), {OutputTokens::unknown, {2, 3, 4, 5}}}) {
    const auto scaled = [&, allowed = allowed](std::int32_t from, const Words& words) {
      return only(allowed, table(from, words));
    };
    auto all = models::sample(decoder, encoded, {}, {.max_length = 30, .output_tokens = tokens});
    const auto found = models::search(
        decoder, encoded, {.beam = 10, .max_length = 4, .best = 10, .output_tokens = tokens});
    all.insert(all.end(), found[0].begin(), found[0].end());
    for (const Hypothesis& h : all) check_log_probabilities(h, scaled, h.complete);
    // Without an end token, `</s>` is not generated either.
    for (const Hypothesis& h : models::sample(
             decoder, encoded, {}, {.max_length = 9, .output_tokens = tokens, .end = -1}))
      CHECK(std::ranges::none_of(h.words, [](std::int32_t word) { return word < 3; }));
  }
}

TEST_CASE("translate: of hypotheses with equal text only the best is returned") {
  // 4 and 5 have the same text, so there are five texts of at most four tokens.
  const std::vector<Sentence> sources = {{4, 3}, {5}};
  models::TranslateOptions options{
      .how = SearchOptions{.beam = 5, .max_length = 4, .best = 5},
      .text = [](const Hypothesis& h, Index) { return std::string(h.words.size(), 'x'); }};
  const models::TranslateOptions every{
      .how = SearchOptions{.beam = 100, .max_length = 4, .best = 100}};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const TableDecoder decoder(random_table(4, seed));
    const auto found = models::translate(decoder, sources, options),
               all = models::translate(decoder, sources, every);
    for (std::size_t b = 0; b < 2; ++b) {
      std::vector<std::size_t> lengths;
      for (const Hypothesis& h : found[b]) {
        lengths.push_back(h.words.size());
        CHECK(std::ranges::any_of(all[b], [&](const Hypothesis& one) { return same(one, h); }));
      }
      std::ranges::sort(lengths);
      CHECK(lengths == std::vector<std::size_t>{0, 1, 2, 3, 4});
      CHECK(same(found[b][0], all[b][0]));
    }
  }
}

TEST_CASE("translate: of equal texts, a complete hypothesis is kept before a truncated one") {
  const models::SearchOptions how{.beam = 200, .max_length = 3, .length_penalty = 2, .best = 200};
  const auto text = [](const Hypothesis& h, Index) {  // without the tokens 4
    std::string of;
    for (const std::int32_t word : h.words) of += word == 4 ? "" : "x";
    return of;
  };
  std::ptrdiff_t truncated = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const TableDecoder decoder(random_table(4, seed));
    const auto found = models::translate(decoder, {{{4, 3}}}, {.how = how, .text = text}),
               all = models::translate(decoder, {{{4, 3}}}, {.how = how});
    for (const Hypothesis& h : found.front()) {
      const bool some_complete = std::ranges::any_of(all.front(), [&](const Hypothesis& one) {
        return one.complete && text(one, 0) == text(h, 0);
      });
      CHECK(h.complete == some_complete);
    }
    truncated += std::ranges::count(all.front(), false, &Hypothesis::complete);
  }
  CHECK(truncated > 0);
}

// ---- Contents of a hypothesis

/// A language model: the next token depends only on the last one, by logits (V, V).
ScriptedDecoder bigrams(const Tensor& logits) {
  return {[=](const Tensor& last) -> OneStep { return {gather(logits, last), {}}; }};
}

TEST_CASE("search, sample: a constant added to all logits changes no probability") {
  const double third = std::log(1.0 / 3);
  for (const float common : {0.F, 1e4F, -1e7F}) {
    const ScriptedDecoder model = bigrams(full({3, 3}, common));
    const auto found = models::search(model, models::no_source(1),
                                      {.output_tokens = kAll, .begin = 0, .end = 0})[0][0];
    CHECK(std::abs(found.log_probability - third) < 1e-7);
    const auto drawn =
        models::sample(model, models::no_source(1), {},
                       {.max_length = 2, .output_tokens = kAll, .begin = 0, .end = -1})[0];
    CHECK(std::abs(drawn.log_probability - 2 * third) < 2e-7);
  }
}

TEST_CASE("search: weights are those of the hypothesis's tokens and source") {
  const auto found = search(TableDecoder(random_table(4, 3)), {4, 5, 3}, {.beam = 4, .best = 4});
  for (std::size_t b = 0; b < 3; ++b) {
    const auto source_length = static_cast<Index>(1 + b);
    for (const Hypothesis& h : found[b]) {
      const auto steps = static_cast<Index>(h.word_log_probabilities.size());
      REQUIRE(h.weights.shape() == Shape{steps, source_length});
      REQUIRE(h.weights.dtype() == DType::f32);
      for (Index t = 0; t < steps; ++t) {
        const std::int32_t after =
            t == 0 ? text::Vocabulary::begin : h.words[static_cast<std::size_t>(t - 1)];
        double total = 0;
        for (Index s = 0; s < source_length; ++s) {
          const double w = h.weights[t][s].item();
          CHECK(std::abs(w - TableDecoder::weight(s, source_length, after)) < 1e-6);
          total += w;
        }
        CHECK(std::abs(total - 1) < 1e-6);
      }
    }
  }
}

TEST_CASE("search, sample: no weights if not requested") {
  const TableDecoder decoder(random_table(4, 3));
  const auto [source, mask] = text::make_source_batch({{Sentence{4, 3, 3}}});
  const auto encoded = decoder.encode(source, mask);
  const Hypothesis with = models::search(decoder, encoded)[0][0],
                   without = models::search(decoder, encoded, {.weights = false})[0][0];
  CHECK_FALSE(without.weights.defined());
  CHECK(without.words == with.words);
  CHECK_FALSE(models::sample(decoder, encoded, {}, {.weights = false})[0].weights.defined());
}

TEST_CASE("search: a model without attention has hypotheses without weights") {
  const auto expected = OtherWeights([](const Var& w) { return w; }).search();
  const auto found = OtherWeights([](const Var&) { return Var(); }).search();
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK_FALSE(found[b][i].weights.defined());
      CHECK(found[b][i].words == expected[b][i].words);
      CHECK(found[b][i].word_log_probabilities == expected[b][i].word_log_probabilities);
    }
  }
}

TEST_CASE("search, sample: without a source") {
  // After <s> comes 2, after it 1, which is </s>.
  const ScriptedDecoder model = bigrams(Tensor::of<float>({3, 3}, {0, 0, 99, 0, 0, 0, 0, 99, 0}));
  const auto found = models::search(model, models::no_source(2),
                                    {.max_length = 5, .output_tokens = kAll, .begin = 0, .end = 1});
  REQUIRE(found.size() == 2);
  for (const auto& best : found) CHECK(best[0].words == Words{2});
  for (const Hypothesis& h :
       models::sample(model, models::no_source(2), {},
                      {.max_length = 5, .output_tokens = kAll, .begin = 0, .end = 1}))
    CHECK(h.words == Words{2});
}

TEST_CASE("search: an end token out of range is an error") {
  const ScriptedDecoder model = bigrams(zeros({3, 3}));
  CHECK_ERROR("search: the end token 3 is not in -1 (none) to 2",
              models::search(model, models::no_source(1), {.begin = 0, .end = 3}));
}

TEST_CASE("search: without an end token, the most probable sequences of max_length tokens") {
  const Tensor logits = randn({3, 3}, DType::f64), log_p = log_softmax(logits, -1);
  std::vector<std::pair<double, Words>> all;
  for (std::int32_t first : {0, 1, 2}) {
    for (std::int32_t second : {0, 1, 2})
      all.push_back({log_p[0][first].item() + log_p[first][second].item(), {first, second}});
  }
  std::ranges::sort(all, std::ranges::greater());
  const auto found = models::search(
      bigrams(logits), models::no_source(1),
      {.beam = 3, .max_length = 2, .best = 3, .output_tokens = kAll, .begin = 0, .end = -1});
  REQUIRE(found[0].size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(found[0][i].words == all[i].second);
    CHECK(near(found[0][i].log_probability, all[i].first));
    CHECK_FALSE(found[0][i].complete);
  }
}

TEST_CASE("search: models without attention require the final state of the source") {
  nn::Parameters params;
  const auto check = [&](const auto& model, const char* name) {
    const models::Encoded source{.h = zeros({2, 1, 8}), .last = {}, .mask = ones({2, 1})};
    const std::string what =
        fmt::format("{}: the source has no final state: Encoded::last is empty", name);
    CHECK_THROWS_WITH_AS(models::search(model, source), what.c_str(), Error);
  };
  check(
      models::Bahdanau(params / "a", {.source_vocabulary = 5, .target_vocabulary = 5, .hidden = 4}),
      "Bahdanau");
  check(models::EncoderDecoder(params / "b",
                               {.source_vocabulary = 5, .target_vocabulary = 5, .hidden = 4}),
        "EncoderDecoder");
  check(models::Sutskever(params / "c",
                          {.source_vocabulary = 5, .target_vocabulary = 5, .hidden = 4}),
        "Sutskever");
}

TEST_CASE("search: a very long hypothesis is freed without deep recursion") {
  constexpr Index kLongest = 300'000;
  const Tensor logits = Tensor::of({1, 4}, {-9., -9., -9., -.1});
  const ScriptedDecoder decoder{[&](const Tensor&) -> OneStep { return {logits, {}}; }};
  const auto found = models::search(decoder, no_annotations(1, 1),
                                    {.max_length = kLongest, .output_tokens = kAll});
  CHECK(found[0][0].words == Words(kLongest, 3));
}

// ---- Batches

TEST_CASE("search: sentences of a batch are independent, finished or not") {
  const TableDecoder decoder(random_table(6, 4));
  const Words sources = {4, 5, 3, 0, 1};
  for (const Index beam : {1, 2, 5}) {
    const SearchOptions options{.beam = beam, .max_length = 10, .best = beam};
    const auto together = search(decoder, sources, options);
    REQUIRE(together.size() == sources.size());
    std::vector<std::size_t> lengths;
    for (std::size_t b = 0; b < sources.size(); ++b) {
      const Sentence source(1 + b % 3, sources[b]);
      const auto [ids, mask] = text::make_source_batch({{source}});
      SearchOptions own = options;
      own.output_tokens = kAll;
      const auto alone = models::search(decoder, decoder.encode(ids, mask), own)[0];
      REQUIRE(alone.size() == together[b].size());
      for (std::size_t i = 0; i < alone.size(); ++i) CHECK(same(together[b][i], alone[i]));
      lengths.push_back(alone[0].words.size());
    }
    CHECK(std::ranges::min(lengths) < std::ranges::max(lengths));
  }
}

TEST_CASE("search: finished sentences leave the batch") {
  // The source's first word is the length of its sentence.
  const TableDecoder decoder([](std::int32_t source, const Words& words) {
    return words.size() == static_cast<std::size_t>(source) ? next(0.98, 0.01, 0.005)
                                                            : next(0.01, 0.9, 0.05);
  });
  const auto found = search(decoder, {2, 4, 0}, {});
  CHECK(found[0][0].words == Words{4, 4});
  CHECK(found[1][0].words == Words{4, 4, 4, 4});
  CHECK(found[2][0].words.empty());
  CHECK(decoder.rows_of_steps == std::vector<Index>{3, 2, 2, 1, 1});
}

TEST_CASE("search: greedy search selects no states while no sentence ends") {
  const TableDecoder decoder = endless();
  search(decoder, {4, 5, 3}, {.max_length = 6});
  CHECK(decoder.rows_of_steps == std::vector<Index>(7, 3));
  CHECK(decoder.selects == 0);
}

TEST_CASE("search: a finished hypothesis stays in the beam") {
  const TableDecoder decoder([](std::int32_t, const Words&) { return next(0.5, 0.3, 0.19); });
  const auto found = search(decoder, {4}, {.beam = 3, .best = 3})[0];
  // First "" ends, "4" and "5" go on; then both of them end before "4 4", which is less likely.
  CHECK(decoder.rows_of_steps == std::vector<Index>{1, 2});
  REQUIRE(found.size() == 3);
  CHECK(found[0].words.empty());
  CHECK(found[1].words == Words{4});
  CHECK(found[2].words == Words{5});
}

// ---- Errors

/// A search for two sources of three positions, whose first step gives these.
void search_with(const Tensor& logits, const Tensor& weights = {}) {
  const ScriptedDecoder decoder{[&](const Tensor&) -> OneStep { return {logits, weights}; }};
  models::search(decoder, no_annotations(3, 2), {.output_tokens = kAll});
}

TEST_CASE("search: outputs of a model with other extents are errors") {
  const Tensor scores = zeros({2, 6});
  CHECK_ERROR("search: logits (R, V) is (5, 6), but R = 2 in the running hypotheses",
              search_with(zeros({5, 6})));
  CHECK_ERROR("search: weights (S, R) is (3, 4), but R = 2 in the running hypotheses",
              search_with(scores, zeros({3, 4})));
  CHECK_ERROR("search: weights (S, R) is (4, 2), but S = 3 in the source",
              search_with(scores, zeros({4, 2})));
}

TEST_CASE("search: options out of range are errors") {
  const auto run = [](const SearchOptions& options) { return best(endless(), options); };
  CHECK_ERROR("search: beam = 0 is less than 1", run({.beam = 0}));
  CHECK_ERROR("search: max_length = 0 is less than 1", run({.max_length = 0}));
  CHECK_ERROR("search: best = 3 is not in 1 to beam = 2", run({.beam = 2, .best = 3}));
  CHECK_ERROR("search: best = 0 is not in 1 to beam = 1", run({.best = 0}));
  CHECK_ERROR("search: length_penalty = inf is not finite",
              run({.length_penalty = std::numeric_limits<double>::infinity()}));
  CHECK_THROWS_AS(run({.length_penalty = std::numeric_limits<double>::quiet_NaN()}), Error);
  CHECK_ERROR("search: coverage_penalty = -0.1 is not in [0, inf)",
              run({.coverage_penalty = -0.1}));
}

TEST_CASE("search: NaN logits, and no possible token, are errors") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (double bad : {inf, nan}) {
    CHECK_ERROR("search: the model's logits are NaN or inf",
                search_with(Tensor::of({2, 3}, {0., 0., 0., bad, 0., 0.})));
  }
  CHECK_ERROR("search: the score of a hypothesis is NaN",
              best(TableDecoder([](std::int32_t, const Words& words) {
                     return words.empty() ? next(0, 1, 0) : next(1, 0, 0);
                   }),
                   {.length_penalty = -1e4}));
  CHECK_ERROR("search: all tokens have probability 0",
              search_with(Tensor::of({2, 3}, {0., 0., 0., -inf, -inf, -inf})));
}

TEST_CASE("search: finished hypotheses remain if nothing can continue the others") {
  const TableDecoder decoder([](std::int32_t, const Words& words) {
    return words.empty() ? next(0.5, 0.4, 0.1) : next(0, 0, 0);
  });
  CHECK(best(decoder, {.beam = 2, .length_penalty = 1}).words.empty());
}

TEST_CASE("search: a penalty on coverage without attention is an error") {
  const OtherWeights decoder([](const Var&) { return Var(); });
  const auto [source, mask] = text::make_source_batch({{Sentence{4}}});
  CHECK_THROWS_WITH_AS(
      models::search(decoder, decoder.encode(source, mask), {.coverage_penalty = 1}),
      "search: a coverage penalty requires a model with attention", Error);
}

}  // namespace
