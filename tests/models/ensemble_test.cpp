#include <doctest/doctest.h>

#include <attune/models/ensemble.hpp>
#include <attune/models/sampling.hpp>
#include <attune/models/search.hpp>
#include <attune/models/seq2seq.hpp>

#include "models/decoders.hpp"
#include "models/wirings.hpp"
#include "support/models_batches.hpp"

namespace {

using namespace attune;
using models::Ensemble;
using models::SearchOptions;
using text::Sentence;
using namespace test;

static_assert(models::WordModel<Ensemble<models::Seq2Seq>>);

const SearchOptions kOptions{
    .beam = 4, .max_length = 7, .length_penalty = 0.6, .coverage_penalty = 0.1, .best = 4};

TEST_CASE("Ensemble: of a model with itself it is the model") {
  const Translator t;
  const Ensemble<models::Bahdanau> twice({&t.model, &t.model});
  const auto [source, mask] = text::make_source_batch(test::random_sentences({2, 5, 1}, 11, 6));
  const auto expected = models::search(t.model, t.model.encode(source, mask), kOptions);
  const auto found = models::search(twice, twice.encode(source, mask), kOptions);
  const auto drawn = models::sample(t.model, t.model.encode(source, mask), {.max_length = 7});
  const auto drawn_by_both = models::sample(twice, twice.encode(source, mask), {.max_length = 7});
  for (std::size_t b = 0; b < 3; ++b) {
    CHECK(drawn_by_both[b].words == drawn[b].words);
    REQUIRE(found[b].size() == expected[b].size());
    for (std::size_t i = 0; i < found[b].size(); ++i) {
      CHECK(found[b][i].words == expected[b][i].words);
      CHECK(std::abs(found[b][i].log_probability - expected[b][i].log_probability) < 1e-5);
      CHECK(test::difference(found[b][i].weights, expected[b][i].weights) < 1e-6);
    }
  }
}

TEST_CASE("Ensemble: the probabilities of every word are averaged") {
  const auto a = random_table(5, 1), b = random_table(5, 2), c = random_table(5, 3);
  const TableDecoder first(a), second(b), third(c);
  const TableDecoder mean([=](std::int32_t source, const Words& words) {
    Probabilities p = a(source, words);
    const Probabilities q = b(source, words), r = c(source, words);
    for (std::size_t v = 0; v < p.size(); ++v) p[v] = (p[v] + q[v] + r[v]) / 3;
    return p;
  });
  const auto [source, mask] = text::make_source_batch({{Sentence{4, 3, 3}, {5}}}, DType::f64);
  const auto expected = models::search(mean, mean.encode(source, mask), kOptions);
  const Ensemble<TableDecoder> all({&first, &second, &third});
  const auto found = models::search(all, all.encode(source, mask), kOptions);
  for (std::size_t s = 0; s < 2; ++s) {
    REQUIRE(found[s].size() == expected[s].size());
    for (std::size_t i = 0; i < found[s].size(); ++i) {
      CHECK(found[s][i].words == expected[s][i].words);
      CHECK(near(found[s][i].log_probability, expected[s][i].log_probability));
    }
  }
}

/// A published model, for vocabularies of 11 and 9.
models::Seq2SeqOptions sized(const char* paper, Index hidden) {
  return wired(paper,
               {.source_vocabulary = 11, .target_vocabulary = 9, .embedding = 4, .hidden = hidden});
}

TEST_CASE("Ensemble: of several kinds of models; the weights are the mean of those that have any") {
  nn::Parameters params[3] = {nn::Parameters(1), nn::Parameters(2), nn::Parameters(3)};
  const models::Seq2Seq bahdanau(params[0], sized("bahdanau", 6));
  const models::Seq2Seq luong(params[1], sized("luong", 6));
  const models::Seq2Seq plain(params[2], sized("encoder-decoder", 5));
  const Ensemble<models::Seq2Seq> all({&bahdanau, &luong, &plain}), none({&plain});
  const auto [source, mask] = text::make_source_batch(test::random_sentences({2, 5}, 11, 6));
  const auto weights = [&, source = source, mask = mask](const auto& model) {
    auto state = model.start(model.encode(source, mask));
    return step_from(model, Tensor::of({2}, {1, 1}), state).weights;
  };
  CHECK(test::difference(weights(all), (weights(bahdanau) + weights(luong)) * 0.5) < 1e-6);
  CHECK_FALSE(weights(none).defined());
  CHECK(models::search(all, all.encode(source, mask), {.beam = 3, .max_length = 5}).size() == 2);
}

TEST_CASE("Ensemble: no models, and other vocabularies, are errors") {
  CHECK_THROWS_WITH_AS(Ensemble<models::Seq2Seq>({}), "Ensemble: there is no model", Error);
  nn::Parameters params[2] = {nn::Parameters(1), nn::Parameters(2)};
  auto options = sized("luong", 6);
  const models::Seq2Seq luong(params[0], options);
  options.target_vocabulary = 10;
  const models::Seq2Seq larger(params[1], options);
  const Ensemble<models::Seq2Seq> both({&luong, &larger});
  const auto [source, mask] = text::make_source_batch(test::random_sentences({2}, 11, 6));
  CHECK_THROWS_WITH_AS(models::search(both, both.encode(source, mask)),
                       "Ensemble: another's (T, B, V) is (1, 1, 10), but V = 9 in the first "
                       "model's probabilities",
                       Error);
}

}  // namespace
