#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/models/bahdanau.hpp>
#include <attune/models/search.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"
#include "support/models_batches.hpp"

namespace {

using namespace attune;
using models::Hypothesis;
using models::SearchOptions;
using text::Sentence;
using Words = std::vector<std::int32_t>;
using Probabilities = std::vector<double>;

constexpr Index kVocabulary = 6;  // <pad>, <s>, </s>, <unk>, 4, 5
constexpr std::int32_t kEnd = text::Vocabulary::end;

/// A decoder that is a table: the probabilities of the next word are a function of the source's
/// first word and of the words written so far.
class TableDecoder {
 public:
  using Table = std::function<Probabilities(std::int32_t source, const Words& words)>;
  struct State {
    std::vector<Words> read;  // of each row: the source's first word, <s>, words
    Tensor mask;              // (S, rows)
  };
  struct Step {
    Var readout, weights;
    State state;
  };

  explicit TableDecoder(Table table) : table_(std::move(table)) {}

  State start(const Tensor& source, const Tensor& mask) const {
    State state{.read = {}, .mask = mask};
    for (std::int32_t word : source[0].to_vector<std::int32_t>()) state.read.push_back({word});
    return state;
  }

  Step step(const Tensor& previous, const State& state) const {
    State next = state;
    const auto rows = static_cast<Index>(state.read.size());
    REQUIRE(previous.shape() == Shape{rows});
    rows_of_steps.push_back(rows);
    std::vector<double> readout, weights(static_cast<std::size_t>(state.mask.size()));
    for (Index r = 0; r < rows; ++r) {
      Words& read = next.read[static_cast<std::size_t>(r)];
      read.push_back(previous.data<std::int32_t>()[r]);
      CHECK(read[1] == text::Vocabulary::begin);
      for (double p : table_(read[0], Words(read.begin() + 2, read.end()))) {
        readout.push_back(std::log(p));
      }
      for (Index s = 0; s < state.mask.dim(0); ++s) {
        weights[static_cast<std::size_t>(s * rows + r)] =
            state.mask[s][r].item() == 0 ? 0 : weight(s, source_length(state.mask, r), read.back());
      }
    }
    return {Tensor::of(Shape{rows, kVocabulary}, std::span<const double>(readout)),
            Tensor::of(state.mask.shape(), std::span<const double>(weights)), next};
  }

  /// The readout is the logits, and those are log-probabilities.
  Var logits(const Var& readout) const { return readout; }

  State select(const State& state, const Tensor& rows) const {
    State selected{.read = {}, .mask = gather_columns(state.mask, rows)};
    for (std::int32_t row : rows.to_vector<std::int32_t>()) {
      selected.read.push_back(state.read[static_cast<std::size_t>(row)]);
    }
    return selected;
  }

  /// The attention to place s of `length` after a word: another distribution after each word.
  static double weight(Index s, Index length, std::int32_t after) {
    double total = 0;
    for (Index i = 0; i < length; ++i) total += static_cast<double>(1 + i * after);
    return static_cast<double>(1 + s * after) / total;
  }

  mutable std::vector<Index> rows_of_steps;

 private:
  static Index source_length(const Tensor& mask, Index row) {
    Index length = 0;
    for (Index s = 0; s < mask.dim(0); ++s) length += mask[s][row].item() == 1;
    return length;
  }

  Table table_;
};

static_assert(models::Decoder<TableDecoder>);
static_assert(models::Decoder<models::Bahdanau>);

/// The given probabilities of </s>, 4 and 5; what is left is shared by the other three.
Probabilities next(double end, double four, double five) {
  const double rest = std::max(1e-30, 1 - end - four - five) / 3;
  return {rest, rest, end, rest, four, five};
}

/// The best hypotheses for sources whose first words are these, of one to three words.
std::vector<std::vector<Hypothesis>> search(const TableDecoder& decoder, const Words& first_words,
                                            const SearchOptions& options) {
  std::vector<Sentence> sources;
  for (std::int32_t word : first_words) {
    Sentence& source = sources.emplace_back(1 + sources.size() % 3, 3);
    source[0] = word;
  }
  const auto [source, mask] = text::make_source_batch(sources, DType::f64);
  return models::search(decoder, source, mask, options);
}

Hypothesis best(const TableDecoder& decoder, const SearchOptions& options) {
  const auto found = search(decoder, {4}, options);
  REQUIRE(found.size() == 1);
  REQUIRE(found[0].size() >= 1);
  return found[0][0];
}

bool near(double a, double b) { return std::abs(a - b) < 1e-12; }

/// The same words, and probabilities and weights to the bit.
bool same(const Hypothesis& a, const Hypothesis& b) {
  return a.words == b.words && a.word_log_probabilities == b.word_log_probabilities &&
         a.log_probability == b.log_probability && a.score == b.score && a.complete == b.complete &&
         test::identical(a.weights, b.weights);
}

// ---- What is found

TEST_CASE("search: greedy takes the likeliest word, a beam of 2 the likelier sentence") {
  // After the likelier 4 every continuation is unlikely, after 5 the end is almost certain.
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

TEST_CASE("search: what a beam of 2 drops, a beam of 3 finds") {
  const TableDecoder decoder([](std::int32_t, const Words& words) {
    if (words.empty()) return Probabilities{0.001, 0.001, 0.001, 0.257, 0.4, 0.34};
    if (words.size() > 1) return next(0.98, 0.01, 0.01);
    return words[0] == 3 ? next(0.98, 0.01, 0.005) : next(0.5, 0.24, 0.24);
  });
  CHECK(best(decoder, {.beam = 2}).words == Words{4});
  CHECK(best(decoder, {.beam = 3}).words == Words{3});
  CHECK(near(best(decoder, {.beam = 3}).log_probability, std::log(0.257) + std::log(0.98)));
}

/// Random probabilities for every source and beginning; from `longest` words on, the end.
TableDecoder::Table random_table(std::size_t longest, std::uint64_t seed = 1) {
  return [=](std::int32_t source, const Words& words) {
    if (words.size() >= longest) return Probabilities{1e-30, 1e-30, 1, 1e-30, 1e-30, 1e-30};
    std::string name = std::to_string(source);
    for (std::int32_t word : words) name += fmt::format(",{}", word);
    Random random(seed, name);
    Probabilities p;
    for (Index i = 0; i < kVocabulary; ++i) p.push_back(std::exp(random.normal()));
    const double total = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& x : p) x /= total;
    return p;
  };
}

struct Enumerated {
  Words words;
  double log_probability, score;
};

/// Every complete sentence of up to `longest` words.
void enumerate(const TableDecoder::Table& table, std::size_t longest, double length_penalty,
               const Words& words, double log_probability, std::vector<Enumerated>& all) {
  const Probabilities p = table(4, words);
  const double total = log_probability + std::log(p[kEnd]);
  const double length = static_cast<double>(words.size()) + 1;
  all.push_back({words, total, total / std::pow(length, length_penalty)});
  if (words.size() == longest) return;
  for (std::int32_t word = 0; word < kVocabulary; ++word) {
    if (word == kEnd) continue;
    Words longer = words;
    longer.push_back(word);
    enumerate(table, longest, length_penalty, longer,
              log_probability + std::log(p[static_cast<std::size_t>(word)]), all);
  }
}

TEST_CASE("search: a beam that drops nothing finds what trying all sentences finds") {
  const std::size_t longest = 3;
  for (const double length_penalty : {0.0, 0.7, 2.0}) {
    const auto table = random_table(longest);
    std::vector<Enumerated> all;
    enumerate(table, longest, length_penalty, {}, 0, all);
    REQUIRE(all.size() == 1 + 5 + 25 + 125);
    std::ranges::sort(all, std::ranges::greater(), &Enumerated::score);
    const auto found =
        search(TableDecoder(table), {4},
               {.beam = 1000, .max_length = 3, .length_penalty = length_penalty, .best = 20})[0];
    REQUIRE(found.size() == 20);
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].words == all[i].words);
      CHECK(found[i].complete);
      CHECK(near(found[i].log_probability, all[i].log_probability));
      CHECK(near(found[i].score, all[i].score));
    }
  }
}

TEST_CASE("search: the length penalty prefers longer sentences") {
  // "" has probability 0.5, "4 4 4" 0.4.
  const TableDecoder decoder([](std::int32_t, const Words& words) {
    if (words.empty()) return next(0.5, 0.4, 0.05);
    return words.size() < 3 ? next(1e-12, 1, 1e-12) : next(1, 1e-12, 1e-12);
  });
  CHECK(best(decoder, {.beam = 2}).words.empty());
  const Hypothesis longer = best(decoder, {.beam = 2, .length_penalty = 1});
  CHECK(longer.words == Words{4, 4, 4});
  CHECK(std::abs(longer.score - std::log(0.4) / 4) < 1e-9);  // three words and </s>
  CHECK(std::abs(longer.log_probability - std::log(0.4)) < 1e-9);
}

TEST_CASE("search: as many hypotheses as asked for, best first") {
  const auto found = search(TableDecoder(random_table(4)), {4}, {.beam = 5, .best = 3})[0];
  REQUIRE(found.size() == 3);
  CHECK(found[0].score > found[1].score);
  CHECK(found[1].score > found[2].score);
  CHECK(found[0].words != found[1].words);
}

TEST_CASE("search: among equals the earlier hypothesis and the smaller word come first") {
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

TEST_CASE("search: a sentence that does not end is cut off at max_length, and not complete") {
  for (const Index beam : {1, 3}) {
    const Hypothesis cut = best(endless(), {.beam = beam, .max_length = 4});
    CHECK_FALSE(cut.complete);
    CHECK(cut.words == Words{5, 5, 5, 5});
    CHECK(cut.word_log_probabilities.size() == 4);
    CHECK(near(cut.log_probability, 4 * std::log(0.6)));
  }
}

TEST_CASE("search: a sentence of max_length words may still end") {
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

// ---- What is told of a hypothesis

TEST_CASE("search: a word's log-probability is the table's, and they sum up") {
  const auto table = random_table(4, 2);
  const auto found = search(TableDecoder(table), {4}, {.beam = 4, .best = 4})[0];
  REQUIRE(found.size() == 4);
  for (const Hypothesis& h : found) {
    REQUIRE(h.complete);
    REQUIRE(h.word_log_probabilities.size() == h.words.size() + 1);
    Words before;
    double total = 0;
    for (std::size_t i = 0; i <= h.words.size(); ++i) {
      const std::int32_t word = i < h.words.size() ? h.words[i] : kEnd;
      const double expected = std::log(table(4, before)[static_cast<std::size_t>(word)]);
      CHECK(near(h.word_log_probabilities[i], expected));
      total += h.word_log_probabilities[i];
      before.push_back(word);
    }
    CHECK(near(h.log_probability, total));
  }
}

TEST_CASE("search: weights are those of the hypothesis's own words, over its own source") {
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

/// The table's decoder with other weights.
class OtherWeights {
 public:
  using State = TableDecoder::State;
  using Step = TableDecoder::Step;
  using Change = std::function<Var(const Var& weights)>;

  explicit OtherWeights(Change change) : change_(std::move(change)) {}
  State start(const Tensor& source, const Tensor& mask) const { return table_.start(source, mask); }
  Step step(const Tensor& previous, const State& state) const {
    Step step = table_.step(previous, state);
    step.weights = change_(step.weights);
    return step;
  }
  Var logits(const Var& readout) const { return readout; }
  State select(const State& state, const Tensor& rows) const { return table_.select(state, rows); }

  /// For sources of 3 and 1 words.
  std::vector<std::vector<Hypothesis>> search() const {
    const auto [source, mask] = text::make_source_batch({{Sentence{4, 3, 3}, {5}}}, DType::f64);
    return models::search(*this, source, mask, {.beam = 4, .best = 4});
  }

 private:
  TableDecoder table_{random_table(4, 3)};
  Change change_;
};

TEST_CASE("search: of several heads a hypothesis has the mean of their weights") {
  const auto expected = OtherWeights([](const Var& w) { return w; }).search();
  const auto found = OtherWeights([](const Var& w) {
                       return stack({w * 0.5, w * 2.25, w * 0.25});
                     }).search();
  for (std::size_t b = 0; b < 2; ++b) {
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(found[b][i].words == expected[b][i].words);
      CHECK(test::difference(found[b][i].weights, expected[b][i].weights) < 1e-6);
    }
  }
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

TEST_CASE("search: a very long hypothesis is freed without deep recursion") {
  constexpr Index kLongest = 1'000'000;
  const Tensor log_probabilities = Tensor::of({1, 4}, {-9., -9., -9., -.1});
  std::vector<Hypothesis> found;
  {
    models::detail::Beam beam(ones({1, 1}), {.max_length = kLongest});
    while (!beam.done()) beam.advance(log_probabilities, {});
    found = beam.results()[0];
  }
  CHECK(found[0].words == Words(kLongest, 3));
}

// ---- Batches

TEST_CASE("search: sentences of a batch do not see each other, finished or not") {
  const TableDecoder decoder(random_table(6, 4));
  const Words sources = {4, 5, 3, 0, 1};
  for (const Index beam : {1, 2, 5}) {
    const SearchOptions options{.beam = beam, .max_length = 10, .best = beam};
    const auto together = search(decoder, sources, options);
    REQUIRE(together.size() == sources.size());
    std::vector<std::size_t> lengths;
    for (std::size_t b = 0; b < sources.size(); ++b) {
      const Sentence source(1 + b % 3, sources[b]);
      const auto [ids, mask] = text::make_source_batch({{source}}, DType::f64);
      const auto alone = models::search(decoder, ids, mask, options)[0];
      REQUIRE(alone.size() == together[b].size());
      for (std::size_t i = 0; i < alone.size(); ++i) CHECK(same(together[b][i], alone[i]));
      lengths.push_back(alone[0].words.size());
    }
    CHECK(std::ranges::min(lengths) < std::ranges::max(lengths));
  }
}

TEST_CASE("search: a finished sentence takes no more part in the steps") {
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

TEST_CASE("search: a finished hypothesis keeps its place in the beam") {
  const TableDecoder decoder([](std::int32_t, const Words&) { return next(0.5, 0.3, 0.19); });
  const auto found = search(decoder, {4}, {.beam = 3, .best = 3})[0];
  // First "" ends, "4" and "5" go on; then both of them end before "4 4", which is less likely.
  CHECK(decoder.rows_of_steps == std::vector<Index>{1, 2});
  REQUIRE(found.size() == 3);
  CHECK(found[0].words.empty());
  CHECK(found[1].words == Words{4});
  CHECK(found[2].words == Words{5});
}

/// A Bahdanau model whose choices are clear: its initial values are scaled.
struct Translator {
  nn::Parameters params{3};
  models::Bahdanau model{params,
                         {.source_vocabulary = 11,
                          .target_vocabulary = 9,
                          .embedding = 5,
                          .hidden = 6,
                          .attention = 7,
                          .readout = 4}};
  Translator() { test::scale_parameters(params, 3); }
};

TEST_CASE("search: a batch of sentences is translated like each of them alone") {
  const Translator t;
  const auto sources = test::random_sentences({2, 5, 1, 4, 3, 5}, 11, 6);
  const auto [ids, mask] = text::make_source_batch(sources);
  for (const Index beam : {1, 3}) {
    const SearchOptions options{.beam = beam, .max_length = 7, .best = beam};
    const auto together = models::search(t.model, ids, mask, options);
    for (std::size_t b = 0; b < sources.size(); ++b) {
      const auto [one, one_mask] = text::make_source_batch({{sources[b]}});
      const auto alone = models::search(t.model, one, one_mask, options)[0];
      REQUIRE(alone.size() == together[b].size());
      for (std::size_t i = 0; i < alone.size(); ++i) {
        CHECK(together[b][i].words == alone[i].words);
        CHECK(together[b][i].complete == alone[i].complete);
        CHECK(std::abs(together[b][i].log_probability - alone[i].log_probability) < 1e-5);
        CHECK(test::difference(together[b][i].weights, alone[i].weights) < 1e-5);
      }
    }
  }
}

TEST_CASE("search: greedy search is the likeliest word of each of the model's steps") {
  const Translator t;
  for (const Sentence& source : test::random_sentences({2, 5, 1}, 11, 6)) {
    const auto [ids, mask] = text::make_source_batch({{source}});
    const Hypothesis found = models::search(t.model, ids, mask, {.max_length = 7})[0][0];
    auto state = t.model.start(ids, mask);
    std::int32_t word = text::Vocabulary::begin;
    for (std::int32_t expected : found.words) {
      const auto step = t.model.step(Tensor::of({1}, {word}), state);
      const std::vector<float> logits = t.model.logits(step.readout).value().to_vector<float>();
      word = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
      CHECK(word == expected);
      state = step.state;
    }
  }
}

// ---- Errors

TEST_CASE("search: what a model gives for other rows or places is named") {
  models::detail::Beam beam(ones({3, 2}), {});
  const Tensor scores = zeros({2, 6});
  CHECK_THROWS_WITH_AS(beam.advance(zeros({5, 6}), {}),
                       "search: 2 hypotheses gave log-probabilities (5, 6)", Error);
  CHECK_THROWS_WITH_AS(beam.advance(scores, zeros({3, 4})),
                       "search: weights (S, R) is (3, 4), but R = 2 in log_probabilities", Error);
  CHECK_THROWS_WITH_AS(beam.advance(scores, zeros({4, 2})), "search: 3 places gave weights (4, 2)",
                       Error);
}

TEST_CASE("search: options out of range are errors") {
  const auto run = [](const SearchOptions& options) { return best(endless(), options); };
  CHECK_THROWS_WITH_AS(run({.beam = 0}), "search: the beam is less than 1", Error);
  CHECK_THROWS_WITH_AS(run({.max_length = 0}), "search: max_length is less than 1", Error);
  CHECK_THROWS_WITH_AS(run({.beam = 2, .best = 3}), "search: best is not in 1 to beam", Error);
  CHECK_THROWS_WITH_AS(run({.best = 0}), "search: best is not in 1 to beam", Error);
  CHECK_THROWS_WITH_AS(run({.length_penalty = std::numeric_limits<double>::infinity()}),
                       "search: the length penalty is not finite", Error);
  CHECK_THROWS_AS(run({.length_penalty = std::numeric_limits<double>::quiet_NaN()}), Error);
}

}  // namespace
