#include <doctest/doctest.h>

#include <attune/models/ensemble.hpp>
#include <attune/models/model_file.hpp>
#include <attune/models/output_subsets.hpp>
#include <attune/models/search.hpp>
#include <attune/models/shortlist.hpp>

#include "models/decoders.hpp"
#include "support/errors.hpp"
#include "support/models_batches.hpp"

namespace {

using namespace attune;
using models::SearchOptions;
using models::Shortlist;
using namespace test;

constexpr Index kSources = 11, kTargets = 9;

/// A file with the table: links of each source token, and frequent tokens.
Safetensors table(const Tensor& links, std::vector<std::int32_t> frequent) {
  Safetensors file;
  file.add("shortlist.links", links);
  file.add("shortlist.frequent", Tensor::of<std::int32_t>({std::ssize(frequent)}, frequent));
  return file;
}
Shortlist list_of(const Tensor& links, const std::vector<std::int32_t>& frequent) {
  return Shortlist::of(table(links, frequent), kSources, kTargets);
}
const Tensor kNoLinks = full({kSources, 2}, -1, DType::i32);

TEST_CASE("Shortlist: IBM model 1 links tokens to their translations") {
  // Token s is translated to s + 5000; targets 4 and 5 occur everywhere.
  std::vector<text::Pair> pairs;
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    text::Pair& pair = pairs.emplace_back();
    for (int j = 0; j < 6; ++j) {
      pair.source.push_back(static_cast<std::int32_t>(4 + random.below(4000)));
      pair.target.push_back(pair.source.back() + 5000);
    }
    pair.target.insert(pair.target.end(), {4, 5});
  }
  const Shortlist list(
      pairs.size(), [&](std::size_t i) { return pairs[i]; }, 5000, 10000);
  Index right = 0, all = 0, size = 0;
  for (const text::Pair& pair : pairs) {
    const std::vector<std::int32_t> tokens = list.tokens(pair.source);
    CHECK(std::ranges::is_sorted(tokens));
    CHECK(std::ranges::adjacent_find(tokens) == tokens.end());
    CHECK(std::ranges::binary_search(tokens, 4));
    size += std::ssize(tokens);
    for (const std::int32_t token : pair.target)
      ++all, right += std::ranges::binary_search(tokens, token);
  }
  CHECK(right == all);
  CHECK(std::ssize(list.tokens({})) == Shortlist::most_frequent);
  CHECK(size < 2000 * (Shortlist::most_frequent + 200));
  CHECK_ERROR("Shortlist: the source token 5000 is not in 0 to 4999",
              list.tokens(std::vector{5000}));
  Safetensors file;
  list.store(file);
  CHECK(Shortlist::of(file, 5000, 10000).tokens(pairs[0].source) == list.tokens(pairs[0].source));
}

TEST_CASE("translate: a shortlist of all tokens changes nothing") {
  const auto sources = random_sentences({3, 0, 5, 1, 2, 5, 4}, kSources, 6);
  const Shortlist all = list_of(kNoLinks, {0, 1, 2, 3, 4, 5, 6, 7, 8});
  nn::Parameters params(2, DType::f64);
  models::TransformerOptions o{.source_vocabulary = kSources, .target_vocabulary = kTargets};
  o.layer = {.size = 8, .heads = 2, .inner = 5};
  const Translator untied(DType::f64);
  const models::Transformer tied(params, o);
  for (const models::Model& model : {models::Model(untied.model), models::Model(tied),
                                     models::ensemble_of({untied.model, tied})}) {
    for (SearchOptions how : {SearchOptions{.beam = 3, .max_length = 7, .best = 2},
                              SearchOptions{.max_length = 5, .end = -1},
                              SearchOptions{.max_length = 7, .sampling = {{.seed = 3}}}}) {
      how.output_tokens = kAll;  // the models of an ensemble normalise before others are excluded
      const auto expected = models::translate(model, sources, {.how = how});
      how.shortlist = &all;
      for (const Index batch : {1, 64}) {
        const auto found = models::translate(model, sources, {.how = how, .sentences = batch});
        for (std::size_t i = 0; i < sources.size(); ++i) {
          REQUIRE(found[i].size() == expected[i].size());
          for (std::size_t k = 0; k < found[i].size(); ++k) {
            CHECK(found[i][k].words == expected[i][k].words);
            CHECK(std::abs(found[i][k].score - expected[i][k].score) <= 1e-12);
          }
        }
      }
    }
  }
}

TEST_CASE("translate: a shortlist restricts each sentence to its own tokens") {
  Tensor links = kNoLinks.clone();
  for (std::int32_t s = 0; s < kSources; ++s)
    links.mutable_at<std::int32_t>({s, 0}) = 4 + s % 5;  // sources have different numbers of tokens
  const Shortlist list = list_of(links, {3, 4});
  const Translator t(DType::f64);
  const auto sources = random_sentences({1, 4, 2, 3, 1}, kSources, 6);
  const SearchOptions how{.beam = 4, .max_length = 6, .best = 4, .shortlist = &list};
  const auto found = models::translate(t.model, sources, {.how = how});
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::vector<std::int32_t> tokens = list.tokens(sources[i]);
    for (const Hypothesis& h : found[i])
      for (const std::int32_t word : h.words)
        CHECK((word > 3 && std::ranges::binary_search(tokens, word)));
    // The probabilities of the first token are those of all tokens, normalised.
    const auto [source, mask] = text::make_source_batch({{sources[i]}});
    const models::Model model = t.model;
    const Tensor start = full({1}, text::Vocabulary::begin, DType::i32);
    const NoGrad no_grad;
    const auto p = exp(model.step(start, model.start(model.encode(source, mask))).logits.value())
                       .to_vector<double>();
    double total = p[kEnd];
    for (const std::int32_t token : tokens) total += token == 3 ? 0 : p[token];
    const Hypothesis& best = found[i].front();
    const double first = p[best.words.empty() ? kEnd : best.words.front()] / total;
    CHECK(std::abs(best.word_log_probabilities.front() - std::log(first)) <= 1e-12);
    const auto alone = models::translate(t.model, {{sources[i]}}, {.how = how});
    CHECK(alone[0].front().words == best.words);
    CHECK(std::abs(alone[0].front().score - best.score) <= 1e-12);
  }
}

TEST_CASE("OutputSubsets: a W that is computed for each step is not that of the step before") {
  models::OutputSubsets subsets({{1, 3}});
  const Tensor x = ones({1, 1, 2});
  for (int step = 0; step < 3; ++step) {
    subsets.set_rows({0});
    const auto logits = subsets.logits({x, {full({2, kTargets}, step), {}}});
    CHECK(logits.to_vector<float>() == std::vector<float>{2.f * step, 2.f * step});
  }
}

TEST_CASE("Shortlist: errors") {
  const Translator t;
  const Shortlist list = list_of(kNoLinks, {4});
  const auto batch = text::make_source_batch({{{4, 5}}});
  CHECK_ERROR("search: a shortlist requires the token ids of the sources, as in translate",
              models::search(t.model, batch, {.shortlist = &list}));
  CHECK_ERROR("OutputSubsets: the tokens 4 to 9 are not in 0 to 8",
              models::translate(t.model, {{{4, 5}}}, {.how = {.end = 9, .shortlist = &list}}));
  const Shortlist none = list_of(kNoLinks, {});
  CHECK_ERROR("search: all tokens have probability 0",
              models::translate(t.model, {{{4, 5}}}, {.how = {.end = -1, .shortlist = &none}}));
  const auto pair = [](std::size_t) { return text::Pair{{1}, {9}}; };
  CHECK_ERROR("Shortlist: the target token 9 is not in 0 to 8", Shortlist(1, pair, 5, 9));
  CHECK_ERROR("Shortlist: the source token 1 is not in 0 to 0", Shortlist(1, pair, 1, 10));
  CHECK_FALSE(Shortlist::of({}, kSources, kTargets).defined());
  CHECK_ERROR("shortlist: token 9 at 0 is not in 0 to 8", list_of(kNoLinks, {9}));
  CHECK_ERROR("shortlist: the frequent tokens do not ascend", list_of(kNoLinks, {4, 4}));
  CHECK_ERROR("shortlist: token 9 at 0 is not in -1 to 8",
              list_of(full({kSources, 1}, 9, DType::i32), {4}));
  CHECK_ERROR("shortlist: links (V, L) is (3, 1), but V = 11 in source vocabulary",
              list_of(full({3, 1}, 4, DType::i32), {4}));
}

}  // namespace
