#include <doctest/doctest.h>

#include <attune/models/search.hpp>

#include "models/decoders.hpp"
#include "support/errors.hpp"
#include "support/models_batches.hpp"

namespace {

using namespace attune;
using models::SearchOptions;
using models::TranslateOptions;
using models::Translation;
using text::Sentence;
using namespace test;

/// Sentences of many lengths, some of them empty.
std::vector<Sentence> sentences() {
  return test::random_sentences({3, 0, 5, 1, 2, 5, 0, 4, 7, 1, 2, 3, 0}, 11, 6);
}

const SearchOptions kSearch{
    .beam = 3, .max_length = 7, .length_penalty = 0.7, .coverage_penalty = 0.1, .best = 3};
const SearchOptions kSampling{.max_length = 7, .sampling = {{.temperature = 1.5, .seed = 3}}};

void check_near(const Translation& a, const Translation& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].words == b[i].words);
    CHECK(a[i].complete == b[i].complete);
    CHECK(std::abs(a[i].log_probability - b[i].log_probability) < tolerance);
    // Weights are f32, whatever the model.
    CHECK(std::abs(a[i].score - b[i].score) < std::max(tolerance, 1e-6));
    CHECK(a[i].weights.defined() == b[i].weights.defined());
    if (a[i].weights.defined()) CHECK(difference(a[i].weights, b[i].weights) < 1e-5);
  }
}

TEST_CASE("translate: the result does not depend on the batches") {
  const auto sources = sentences();
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Translator t(dtype);
    for (const SearchOptions& how : {kSearch, kSampling}) {
      const auto alone = models::translate(t.model, sources, {.how = how, .sentences = 1});
      REQUIRE(alone.size() == sources.size());
      for (const Index most : {2, 3, 5, 100}) {
        for (const Index words : {1, 8, 11, 1000}) {
          const auto found =
              models::translate(t.model, sources, {.how = how, .sentences = most, .words = words});
          REQUIRE(found.size() == sources.size());
          for (std::size_t i = 0; i < sources.size(); ++i)
            check_near(found[i], alone[i], dtype == DType::f32 ? 1e-5 : 1e-12);
        }
      }
    }
  }
}

TEST_CASE("translate: a sentence has the result of its own search") {
  const Translator t;
  const auto sources = sentences();
  const auto found = models::translate(t.model, sources, {.how = kSearch});
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].empty()) continue;
    const auto [source, mask] = text::make_source_batch({{sources[i]}});
    check_near(found[i], models::search(t.model, t.model.encode(source, mask), kSearch)[0], 1e-5);
  }
}

TEST_CASE("translate: the result of an empty sentence is empty") {
  const TableDecoder decoder(random_table(2));
  const auto found = models::translate(decoder, {{Sentence{}, {}}}, {});
  REQUIRE(found.size() == 2);
  REQUIRE(found[1].size() == 1);
  CHECK(found[1][0].complete);
  CHECK(found[1][0].words.empty());
  CHECK(found[1][0].word_log_probabilities == std::vector<double>{0});
  CHECK(found[1][0].log_probability == 0);
  CHECK(decoder.starts.empty());
  CHECK(models::translate(decoder, {}).empty());
}

TEST_CASE("translate: batches have similar lengths, and respect the limits") {
  const TableDecoder decoder(random_table(2));
  const auto sources = test::random_sentences({3, 9, 1, 2, 0, 9, 4, 3, 1, 5}, 6, 1);
  models::translate(decoder, sources, {.sentences = 3, .words = 8});
  // (S, B): 9 tokens are a batch of their own, although the limit is 8.
  CHECK(decoder.starts == std::vector<Shape>{{9, 1}, {9, 1}, {5, 1}, {4, 2}, {3, 2}, {1, 2}});
}

TEST_CASE("translate: options out of range are errors, sentences or not") {
  const TableDecoder decoder(random_table(2));
  const auto run = [&](const TranslateOptions& options) {
    models::translate(decoder, {}, options);
  };
  CHECK_ERROR("translate: sentences = 0 is less than 1", run({.sentences = 0}));
  CHECK_ERROR("translate: words = -1 is less than 1", run({.words = -1}));
}

}  // namespace
