#include <doctest/doctest.h>

#include <attune/models/encoder_decoder.hpp>
#include <attune/models/ensemble.hpp>
#include <attune/models/luong.hpp>
#include <attune/models/sampling.hpp>
#include <attune/models/search.hpp>

#include "models/decoders.hpp"
#include "support/models_batches.hpp"

namespace {

using namespace attune;
using models::Ensemble;
using models::SearchOptions;
using text::Sentence;
using namespace test;

static_assert(models::Decoder<Ensemble<models::Seq2Seq>>);

const SearchOptions kOptions{
    .beam = 4, .max_length = 7, .length_penalty = 0.6, .coverage_penalty = 0.1, .best = 4};

TEST_CASE("Ensemble: of a model with itself it is the model") {
  const Translator t;
  const Ensemble<models::Seq2Seq> twice({&t.model, &t.model});
  const auto [source, mask] = text::make_source_batch(test::random_sentences({2, 5, 1}, 11, 6));
  const auto expected = models::search(t.model, source, mask, kOptions);
  const auto found = models::search(twice, source, mask, kOptions);
  const auto drawn = models::sample(t.model, source, mask, {.max_length = 7});
  const auto drawn_by_both = models::sample(twice, source, mask, {.max_length = 7});
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
  const auto expected = models::search(mean, source, mask, kOptions);
  const auto found =
      models::search(Ensemble<TableDecoder>({&first, &second, &third}), source, mask, kOptions);
  for (std::size_t s = 0; s < 2; ++s) {
    REQUIRE(found[s].size() == expected[s].size());
    for (std::size_t i = 0; i < found[s].size(); ++i) {
      CHECK(found[s][i].words == expected[s][i].words);
      CHECK(near(found[s][i].log_probability, expected[s][i].log_probability));
    }
  }
}

/// Options by name, for vocabularies of 11 and 9.
template <class Options>
Options sized(Options o, Index hidden) {
  o.source_vocabulary = 11;
  o.target_vocabulary = 9;
  o.embedding = 4;
  o.hidden = hidden;
  return o;
}

TEST_CASE("Ensemble: of several kinds of models; the weights are the mean of those that have any") {
  const Translator t;
  nn::Parameters luong_params(1), plain_params(2);
  const models::Luong luong(luong_params, sized(models::LuongOptions{}, 6));
  const models::EncoderDecoder plain(plain_params, sized(models::EncoderDecoderOptions{}, 5));
  const Ensemble<models::Seq2Seq> all({&t.model, &luong, &plain});
  const auto [source, mask] = text::make_source_batch(test::random_sentences({2, 5}, 11, 6));
  const Tensor words = Tensor::of({2}, {1, 1});
  const auto weights = [&, source = source, mask = mask](const models::Seq2Seq& model) {
    return Tensor(model.step(words, model.start(source, mask)).weights.value());
  };
  const auto step = all.step(words, all.start(source, mask));
  CHECK(test::difference(step.weights.value(), (weights(t.model) + weights(luong)) * 0.5) < 1e-6);
  CHECK_FALSE(Ensemble<models::Seq2Seq>({&plain})
                  .step(words, Ensemble<models::Seq2Seq>({&plain}).start(source, mask))
                  .weights.defined());
  CHECK(models::search(all, source, mask, {.beam = 3, .max_length = 5}).size() == 2);
}

TEST_CASE("Ensemble: no models, and other vocabularies, are errors") {
  CHECK_THROWS_WITH_AS(Ensemble<models::Seq2Seq>({}), "Ensemble: there is no model", Error);
  const Translator t;
  nn::Parameters params(1);
  auto options = sized(models::LuongOptions{}, 6);
  options.target_vocabulary = 10;
  const models::Luong luong(params, options);
  const auto [source, mask] = text::make_source_batch(test::random_sentences({2}, 11, 6));
  CHECK_THROWS_WITH_AS(models::search(Ensemble<models::Seq2Seq>({&t.model, &luong}), source, mask),
                       "Ensemble: another's (B, V) is (1, 10), but V = 9 in the first model's "
                       "probabilities",
                       Error);
}

}  // namespace
