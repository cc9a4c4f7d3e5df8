#include <cmath>

#include <doctest/doctest.h>

#include <attune/models/papers.hpp>
#include <attune/models/search.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/random.hpp>

#include "models/decoders.hpp"
#include "nn/tools.hpp"
#include "support/errors.hpp"
#include "support/models_batches.hpp"

namespace {

using namespace attune;
using models::Hypothesis;

constexpr Index kSource = 11, kTarget = 9;

const std::vector<text::Pair> kPairs = test::ragged_pairs(kSource, kTarget, 5);
const text::Batch kBatch = text::make_batch(kPairs);

/// A decoder with these logits and weights.
struct ForcedDecoder : test::ScriptedDecoder {
  models::DecoderSteps<Tensor, Var> unroll(const models::Encoded&, const Tensor& previous,
                                           const Mask&, bool) const {
    std::vector<Var> weights;
    for (Index t = 0; forced.weights.defined() && t < forced.weights.dim(0); ++t)
      weights.push_back(forced.weights[t]);
    return {previous, {forced.logits}, weights};
  }
  Var logits(const Tensor&, const std::vector<Var>& all) const { return all.front(); }

  test::Forced forced;
};

std::vector<Hypothesis> hypotheses(const test::Forced& forced, const text::Batch& batch = kBatch) {
  return models::force_decode(ForcedDecoder{{}, forced},
                              models::Encoded{.h = {}, .last = {}, .mask = batch.source_mask},
                              models::Target{batch.previous, batch.next, batch.target_mask});
}

/// Random logits (T, B, V) and weights (T, S, B).
test::Forced random_forced() {
  const Index steps = kBatch.next.dim(0), batch = kBatch.next.dim(1), source = kBatch.source.dim(0);
  return {randn({steps, batch, kTarget}, DType::f64), randn({steps, source, batch}, DType::f64, 2)};
}

TEST_CASE("force_decode: equals log-softmax and weights of unroll") {
  const test::Translator t(DType::f64);
  const auto found = models::force_decode(t.model, kBatch, {.output_tokens = test::kAll});
  const auto forced = test::force(t.model, kBatch);
  REQUIRE(found.size() == kPairs.size());
  for (std::size_t b = 0; b < kPairs.size(); ++b) {
    const auto& [source, target] = kPairs[b];
    const Hypothesis& h = found[b];
    CHECK(h.complete);
    CHECK(h.words == target);
    CHECK(h.score == h.log_probability);
    REQUIRE(h.word_log_probabilities.size() == target.size() + 1);
    REQUIRE(h.weights.shape() ==
            Shape{static_cast<Index>(target.size()) + 1, static_cast<Index>(source.size())});
    REQUIRE(h.weights.dtype() == DType::f32);
    double total = 0;
    for (std::size_t i = 0; i <= target.size(); ++i) {
      const auto at = static_cast<Index>(i), column = static_cast<Index>(b);
      const auto z = forced.logits.value()[at][column].to_vector<double>();
      double sum = 0;
      for (double x : z) sum += std::exp(x);
      const std::int32_t word = i < target.size() ? target[i] : text::Vocabulary::end;
      const double expected = z[static_cast<std::size_t>(word)] - std::log(sum);
      CHECK(std::abs(h.word_log_probabilities[i] - expected) < 1e-12);
      total += expected;
      for (Index s = 0; s < h.weights.dim(1); ++s) {
        CHECK(std::abs(h.weights[at][s].item() - forced.weights.value()[at][s][column].item()) <
              1e-7);
      }
    }
    CHECK(std::abs(h.log_probability - total) < 1e-12);
  }
}

TEST_CASE("force_decode: a model without attention has hypotheses without weights") {
  test::Forced forced = random_forced();
  const auto with = hypotheses(forced);
  forced.weights = {};
  const auto without = hypotheses(forced);
  for (std::size_t b = 0; b < kPairs.size(); ++b) {
    CHECK(with[b].weights.defined());
    CHECK_FALSE(without[b].weights.defined());
    CHECK(without[b].word_log_probabilities == with[b].word_log_probabilities);
  }
}

TEST_CASE("force_decode, search: no dropout, even within a training loop") {
  nn::Parameters params(1, DType::f64);
  const models::Bahdanau model(params, {.source_vocabulary = kSource,
                                        .target_vocabulary = kTarget,
                                        .embedding = 5,
                                        .hidden = 6,
                                        .readout = 3,
                                        .score = {.attention = 4},
                                        .dropout = 0.5});
  const auto scores = [&] {
    std::vector<double> all;
    for (const Hypothesis& h : models::force_decode(model, kBatch)) all.push_back(h.score);
    for (const auto& best :
         models::search(model, text::SourceBatch{kBatch.source, kBatch.source_mask}))
      all.push_back(best.front().score);
    return all;
  };
  const std::vector<double> outside = scores();
  Random random(1);
  const nn::Training training(random);
  CHECK(scores() == outside);
  CHECK(nn::Training::random() == &random);
}

TEST_CASE("force_decode: scores equal those of a search, and probabilities sum to 1") {
  const test::TableDecoder decoder(test::random_table(2, 4));
  const auto [source, mask] = text::make_source_batch({{text::Sentence{4, 3}}});
  for (const auto tokens : {models::OutputTokens::words, models::OutputTokens::unknown}) {
    const auto found =
        models::search(decoder, decoder.encode(source, mask),
                       {.beam = 100, .max_length = 2, .best = 100, .output_tokens = tokens})[0];
    double total = 0;
    for (const Hypothesis& h : found) {
      const auto target = text::make_target_batch({{h.words}});
      const Hypothesis forced = models::force_decode(decoder, decoder.encode(source, mask), target,
                                                     {.output_tokens = tokens})[0];
      CHECK(forced.words == h.words);
      CHECK(test::near(forced.score, h.score));
      CHECK(identical(forced.weights, h.weights));
      total += std::exp(h.log_probability);
    }
    CHECK(std::abs(total - 1) < 1e-12);
  }
}

TEST_CASE("force_decode: <unk> in a target is allowed in that sentence only") {
  const test::Translator t(DType::f64);
  const std::vector<text::Pair> pairs = {{{4, 5}, {5, 3, 6}}, {{6}, {4, 4}}};
  const auto found = models::force_decode(t.model, text::make_batch(pairs));
  const auto scores = [&](std::size_t i, models::OutputTokens tokens) {
    return models::force_decode(t.model, text::make_batch(std::span(&pairs[i], 1)),
                                {.output_tokens = tokens})[0]
        .score;
  };
  CHECK(found[0].score == scores(0, models::OutputTokens::unknown));
  CHECK(found[1].score == scores(1, models::OutputTokens::words));
  CHECK(found[1].score > scores(1, models::OutputTokens::unknown));
}

TEST_CASE("force_decode: NaN logits, and no possible token, are errors, as in a search") {
  const double inf = std::numeric_limits<double>::infinity();
  test::Forced forced = random_forced();
  const Tensor logits = forced.logits.value();
  for (const double bad : {inf, std::nan("")}) {
    forced.logits =
        concat(std::vector{logits.slice(0, 1) * bad, logits.slice(1, logits.dim(0))}, 0);
    CHECK_ERROR("force_decode: the model's logits are NaN or inf", hypotheses(forced));
  }
  forced.logits = full(logits.shape(), -inf, DType::f64);
  CHECK_ERROR("force_decode: all tokens have probability 0", hypotheses(forced));
}

TEST_CASE("loss: label smoothing of a vocabulary that lacks special tokens") {
  const models::Target target{
      Tensor::of<std::int32_t>({1, 1}, {1}), Tensor::of<std::int32_t>({1, 1}, {2}), {}};
  const ForcedDecoder decoder{{}, {zeros({1, 1, 3}), {}}};
  CHECK(models::loss(decoder, models::Encoded{.h = {}, .last = {}, .mask = ones({1, 1})}, target,
                     {.label_smoothing = 0.3})
            .item() == doctest::Approx(std::log(3.0)));
}

TEST_CASE("loss: label smoothing excludes special tokens except </s>") {
  const test::TableDecoder decoder([](std::int32_t, const test::Words&) {
    return test::Probabilities{0.1, 0.2, 0.3, 0.1, 0.1, 0.2};
  });
  const auto [source, mask] = text::make_source_batch({{text::Sentence{4}}});
  const auto target = text::make_target_batch({{{5}}});
  const double even = -(std::log(0.3) + std::log(0.1) + std::log(0.2)) / 3;  // of </s>, 4 and 5
  const double loss =
      models::loss(decoder, decoder.encode(source, mask), target, {.label_smoothing = 0.3}).item();
  CHECK(std::abs(loss - (0.7 * -(std::log(0.2) + std::log(0.3)) / 2 + 0.3 * even)) < 1e-12);
}

TEST_CASE("loss: a source and a target of different numbers of sentences are an error") {
  const test::Translator t(DType::f64);
  text::Batch batch = kBatch;
  batch.source = slice(batch.source, 1, 0, 1);
  batch.source_mask = slice(batch.source_mask, 1, 0, 1);
  CHECK_THROWS_WITH_AS(models::loss(t.model, batch),
                       "unroll: previous (T, B) is (4, 3), but B = 1 in the source's mask", Error);
  batch = kBatch;
  for (Tensor* one : {&batch.previous, &batch.next}) *one = one->slice(0, 0);
  batch.target_mask = Mask(batch.target_mask.slice(0, 0));
  CHECK_ERROR("unroll: previous has no steps, T = 0", models::loss(t.model, batch));
}

TEST_CASE("force_decode: shapes that do not fit and a target without </s> are errors") {
  test::Forced forced = random_forced();
  forced.logits = zeros({2, 3, kTarget});
  CHECK_ERROR("force_decode: outputs (T, B, R) is (2, 3, 9), but T = 4 in next",
              hypotheses(forced));
  forced = random_forced();
  forced.weights = zeros({4, 5, 3});
  CHECK_THROWS_WITH_AS(hypotheses(forced),
                       "force_decode: weights (T, S, B) is (4, 5, 3), but S = 4 in source", Error);
  text::Batch cut = kBatch;
  cut.target_mask = mask_of(4, {4, 1, 1});
  CHECK_THROWS_WITH_AS(hypotheses(random_forced(), cut),
                       "force_decode: target 2 does not end with the end token 2", Error);
}

using Tokens = std::vector<std::string>;

const text::Vocabulary kEnglish(Tokens{"the", "house", "of"});
const Tokens kGerman = {"das", "Haus", "Müllers"};

/// "the <unk> of <unk>", with attention to Haus and to Müllers.
Hypothesis house() {
  Hypothesis h;
  h.words = {4, 3, 6, 3};
  h.weights = Tensor::of({5, 3}, {.8F, .1F, .1F, .2F, .5F, .3F, .1F, .1F, .8F, .3F, .3F, .4F,  //
                                  1.F, 0.F, 0.F});
  h.complete = true;
  return h;
}

TEST_CASE("replace_unknown: <unk> becomes the token with the largest weight") {
  CHECK(models::replace_unknown(house(), kGerman, kEnglish) ==
        Tokens{"the", "Haus", "of", "Müllers"});
}

TEST_CASE("replace_unknown: of equal weights the first is used") {
  Hypothesis h;
  h.words = {3};
  h.weights = Tensor::of({2, 3}, {.2F, .4F, .4F, 1.F, 0.F, 0.F});
  CHECK(models::replace_unknown(h, kGerman, kEnglish) == Tokens{"Haus"});
}

TEST_CASE("replace_unknown: without <unk> no weights are needed") {
  Hypothesis h;
  CHECK(models::replace_unknown(h, {}, kEnglish).empty());
  h.words = {5, 4};
  CHECK(models::replace_unknown(h, kGerman, kEnglish) == Tokens{"house", "the"});
}

TEST_CASE("replace_unknown: missing weights, or those of another source, are errors") {
  Hypothesis h = house();
  CHECK_THROWS_WITH_AS(models::replace_unknown(h, Tokens{"das", "Haus"}, kEnglish),
                       "replace_unknown: 2 source tokens, but weights (5, 3)", Error);
  for (const Tensor& few : {Tensor(), h.weights.slice(0, 0)}) {
    h.weights = few;
    CHECK_ERROR("replace_unknown: the hypothesis has no attention weights",
                models::replace_unknown(h, kGerman, kEnglish));
  }
}

}  // namespace
