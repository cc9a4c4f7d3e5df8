#include <doctest/doctest.h>

#include <attune/models/hypothesis.hpp>
#include <attune/tensor/check.hpp>

namespace {

using namespace attune;
using models::Hypothesis;
using Tokens = std::vector<std::string>;

const text::Vocabulary kTarget(Tokens{"the", "house", "of"});
const Tokens kSource = {"das", "Haus", "Müllers"};

/// "the <unk> of <unk>", looking at Haus and at Müllers.
Hypothesis house() {
  Hypothesis h;
  h.words = {4, 3, 6, 3};
  h.weights = Tensor::of({5, 3}, {.8F, .1F, .1F, .2F, .5F, .3F, .1F, .1F, .8F, .3F, .3F, .4F,  //
                                  1.F, 0.F, 0.F});
  h.complete = true;
  return h;
}

TEST_CASE("replace_unknown: <unk> becomes the source word that was looked at most") {
  CHECK(models::replace_unknown(house(), kSource, kTarget) ==
        Tokens{"the", "Haus", "of", "Müllers"});
}

TEST_CASE("replace_unknown: what the lexicon has for that word comes first") {
  CHECK(models::replace_unknown(house(), kSource, kTarget, {{"Haus", "home"}, {"das", "that"}}) ==
        Tokens{"the", "home", "of", "Müllers"});
}

TEST_CASE("replace_unknown: of equal weights the first counts") {
  Hypothesis h;
  h.words = {3};
  h.weights = Tensor::of({2, 3}, {.2F, .4F, .4F, 1.F, 0.F, 0.F});
  CHECK(models::replace_unknown(h, kSource, kTarget) == Tokens{"Haus"});
}

TEST_CASE("replace_unknown: without <unk> no weights are needed") {
  Hypothesis h;
  CHECK(models::replace_unknown(h, {}, kTarget).empty());
  h.words = {5, 4};
  CHECK(models::replace_unknown(h, kSource, kTarget) == Tokens{"house", "the"});
}

TEST_CASE("replace_unknown: missing weights, or those of another source, are errors") {
  Hypothesis h = house();
  CHECK_THROWS_WITH_AS(models::replace_unknown(h, Tokens{"das", "Haus"}, kTarget),
                       "replace_unknown: 2 source tokens, but weights (5, 3)", Error);
  h.weights = {};
  CHECK_THROWS_WITH_AS(models::replace_unknown(h, kSource, kTarget),
                       "replace_unknown: the hypothesis has no attention weights", Error);
}

}  // namespace
