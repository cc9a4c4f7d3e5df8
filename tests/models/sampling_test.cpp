#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include <attune/models/search.hpp>
#include <attune/tensor/errors.hpp>

#include "models/decoders.hpp"
#include "support/errors.hpp"
#include "support/models_batches.hpp"

namespace {

using namespace attune;
using models::SamplingOptions;
using models::SearchOptions;
using text::Sentence;
using namespace test;

/// Samples one sentence for each of `count` equal sources.
std::vector<Hypothesis> sample(const TableDecoder& decoder, Index count,
                               const SamplingOptions& sampling, SearchOptions options = {}) {
  options.output_tokens = test::kAll;
  const std::vector<Sentence> sources(static_cast<std::size_t>(count), Sentence{4, 3});
  const auto [source, mask] = text::make_source_batch(sources);
  return models::sample(decoder, decoder.encode(source, mask), sampling, options);
}

const Probabilities kFirst = {0.02, 0.03, 0.25, 0.1, 0.2, 0.4};

/// Draws 20000 first tokens with probabilities kFirst, and compares frequencies with `expected`:
/// χ² = Σ_v (n_v - n p_v)² / n p_v, which with 5 degrees of freedom exceeds 20.5 once in a thousand
/// times.
void check_frequencies(const SamplingOptions& options, const Probabilities& expected) {
  const TableDecoder decoder([](std::int32_t, const Words& words) {
    return words.empty() ? kFirst : Probabilities{0, 0, 1, 0, 0, 0};
  });
  constexpr Index n = 20000;
  Probabilities counts(kFirst.size());
  for (const Hypothesis& h : sample(decoder, n, options))
    ++counts[static_cast<std::size_t>(h.words.empty() ? kEnd : h.words[0])];
  double chi_square = 0;
  for (std::size_t v = 0; v < counts.size(); ++v) {
    const double mean = static_cast<double>(n) * expected[v];
    if (mean == 0) {
      CHECK(counts[v] == 0);
    } else {
      chi_square += (counts[v] - mean) * (counts[v] - mean) / mean;
    }
  }
  CHECK(chi_square < 20.5);
}

/// Scaled to sum to 1.
Probabilities normalized(Probabilities p) {
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= total;
  return p;
}

TEST_CASE("sample: token frequencies equal the probabilities") { check_frequencies({}, kFirst); }

TEST_CASE("sample: probabilities are raised to 1 / temperature") {
  for (const double temperature : {0.5, 3.0}) {
    Probabilities expected = kFirst;
    for (double& p : expected) p = std::pow(p, 1 / temperature);
    check_frequencies({.temperature = temperature}, normalized(expected));
  }
}

TEST_CASE("sample: top_k keeps the k most probable tokens") {
  check_frequencies({.top_k = 3}, normalized({0, 0, 0.25, 0, 0.2, 0.4}));
  check_frequencies({.top_k = 6}, kFirst);
  check_frequencies({.top_k = 100}, kFirst);
}

TEST_CASE("sample: top_p keeps the smallest set with that probability") {
  check_frequencies({.top_p = 0.64}, normalized({0, 0, 0.25, 0, 0, 0.4}));
  check_frequencies({.top_p = 0.66}, normalized({0, 0, 0.25, 0, 0.2, 0.4}));
  check_frequencies({.top_k = 2, .top_p = 0.9}, normalized({0, 0, 0.25, 0, 0, 0.4}));
  check_frequencies({.top_p = 1e-9}, {0, 0, 0, 0, 0, 1});
}

TEST_CASE("sample: top_p applies after the temperature") {
  // Squared: 0.0004, 0.0009, 0.0625, 0.01, 0.04, 0.16; in all 0.2738, of which 0.81 are 0.2218.
  check_frequencies({.temperature = 0.5, .top_p = 0.81}, normalized({0, 0, 0.0625, 0, 0, 0.16}));
}

TEST_CASE("sample: log-probabilities do not depend on top_k and top_p") {
  const auto table = random_table(5, 2);
  const TableDecoder decoder(table);
  for (const Hypothesis& h : sample(decoder, 50, {.temperature = 0.7, .top_k = 4})) {
    check_log_probabilities(h, table);
    CHECK(h.weights.shape() == Shape{std::ssize(h.words) + 1, 2});
    CHECK(h.score == h.log_probability);
  }
}

TEST_CASE("sample: a sentence that does not end is truncated at max_length") {
  const TableDecoder decoder([](std::int32_t, const Words&) { return next(0, 0.5, 0.4); });
  for (const Hypothesis& h : sample(decoder, 5, {}, {.max_length = 4})) {
    CHECK_FALSE(h.complete);
    CHECK(h.words.size() == 4);
  }
}

TEST_CASE("sample: without an end token, all sentences have max_length tokens and steps") {
  const auto table = random_table(100, 2);
  const TableDecoder decoder(table);
  bool ends = false;
  for (const Hypothesis& h : sample(decoder, 20, {}, {.max_length = 9, .end = -1})) {
    CHECK(h.words.size() == 9);
    check_log_probabilities(h, table, /*complete=*/false);
    CHECK(h.weights.shape() == Shape{9, 2});
    ends |= std::ranges::count(h.words, kEnd) > 0;
  }
  CHECK(ends);  // `</s>` is a word as any other
  CHECK(decoder.rows_of_steps == std::vector<Index>(9, 20));
  CHECK_ERROR("sample: the end token -2 is not in -1 (none) to 5",
              sample(decoder, 2, {}, {.end = -2}));
}

TEST_CASE("sample: top_k = 1 is greedy search") {
  const Translator t;
  const auto [source, mask] = text::make_source_batch(test::random_sentences({2, 5, 1, 4}, 11, 6));
  const auto expected = models::search(t.model, t.model.encode(source, mask), {.max_length = 7});
  for (const SamplingOptions& sampling : {SamplingOptions{.top_k = 1}, {.temperature = 1e-300}}) {
    const auto found =
        models::sample(t.model, t.model.encode(source, mask), sampling, {.max_length = 7});
    for (std::size_t b = 0; b < 4; ++b) CHECK(same(found[b], expected[b][0]));
  }
}

TEST_CASE("sample: depends on the sentence's number, not on the batch") {
  const Translator t;
  const auto sources = test::random_sentences({2, 5, 1, 4, 3, 5}, 11, 6);
  const auto drawn = [&](const text::SourceBatch& batch, std::span<const Index> numbers) {
    return models::sample(t.model, t.model.encode(batch.source, batch.mask),
                          {.temperature = 2, .seed = 5}, {.max_length = 7}, numbers);
  };
  const auto together = drawn(text::make_source_batch(sources), {});
  for (Index b = 0; b < std::ssize(sources); ++b) {
    const auto i = static_cast<std::size_t>(b);
    const auto alone = drawn(text::make_source_batch({{sources[i]}}), {{b}})[0];
    CHECK(alone.words == together[i].words);
    CHECK(std::abs(alone.log_probability - together[i].log_probability) < 1e-5);
  }
}

TEST_CASE("sample: reproducible by seed; other seeds give other sentences") {
  const TableDecoder decoder(random_table(6));
  const auto words = [&](std::uint64_t seed) {
    std::vector<Words> all;
    for (const Hypothesis& h : sample(decoder, 10, {.seed = seed})) all.push_back(h.words);
    return all;
  };
  CHECK(words(1) == words(1));
  CHECK(words(1) != words(2));
  CHECK(words(1)[0] != words(1)[1]);  // equal sources, other numbers
}

TEST_CASE("sample: options out of range are errors") {
  const TableDecoder decoder(random_table(2));
  const auto run = [&](const SamplingOptions& options) { sample(decoder, 2, options); };
  CHECK_ERROR("sample: temperature = 0 is not in (0, inf)", run({.temperature = 0}));
  CHECK_THROWS_AS(run({.temperature = std::nan("")}), Error);
  CHECK_ERROR("sample: top_k = -1 is less than 0", run({.top_k = -1}));
  CHECK_ERROR("sample: top_p = 0 is not in (0, 1]", run({.top_p = 0}));
  CHECK_THROWS_AS(run({.top_p = 1.1}), Error);
  CHECK_ERROR("sample: max_length = 0 is less than 1", sample(decoder, 2, {}, {.max_length = 0}));
  const auto [source, mask] = text::make_source_batch({{Sentence{4}, {5}}});
  CHECK_THROWS_WITH_AS(models::sample(decoder, decoder.encode(source, mask), {}, {}, {{1, 2, 3}}),
                       "sample: 3 numbers for 2 sentences", Error);
}

}  // namespace
