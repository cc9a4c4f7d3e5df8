#include <doctest/doctest.h>

#include <attune/nn/score_kind.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/random.hpp>

namespace attune::nn {
namespace {

constexpr ScoreKind kinds[] = {ScoreKind::additive, ScoreKind::dot,       ScoreKind::scaled_dot,
                               ScoreKind::general,  ScoreKind::concat,    ScoreKind::location,
                               ScoreKind::cosine,   ScoreKind::multi_head};

TEST_CASE("ScoreKind: every kind has a name of its own, and is found by it") {
  for (ScoreKind kind : kinds) CHECK(score_kind_of(name_of(kind)) == kind);
  CHECK_THROWS_WITH_AS(score_kind_of("bilinear"),
                       "score: 'bilinear' is not one of additive, dot, scaled_dot, general, "
                       "concat, location, cosine, "
                       "multi_head",
                       Error);
}

TEST_CASE(
    "make_score: every kind gives a score for each place, those with weights for different sizes "
    "too") {
  const Tensor mask = ones({5, 2}, DType::f64);
  for (ScoreKind kind : kinds) {
    INFO(name_of(kind));
    const bool direct =
        kind == ScoreKind::dot || kind == ScoreKind::scaled_dot || kind == ScoreKind::cosine;
    const Index memory = direct ? 4 : 6;
    Parameters params(1, DType::f64);
    const auto score =
        make_score(params, 4, memory, {.kind = kind, .attention = 8, .heads = 2, .longest = 5});
    const Var e = (*score)({.state = randn({2, 4})}, score->keys(randn({5, 2, memory}), mask));
    CHECK(e.shape() == (kind == ScoreKind::multi_head ? Shape{2, 5, 2} : Shape{5, 2}));
  }
}

TEST_CASE("make_score: coverage gives every kind a w_c, in the tanh where there is one") {
  const Tensor mask = ones({5, 2}, DType::f64), coverage = randn({5, 2}, 7);
  for (ScoreKind kind : kinds) {
    INFO(name_of(kind));
    Parameters params(1, DType::f64);
    const auto score = make_score(
        params, 4, 4,
        {.kind = kind, .attention = 8, .heads = 2, .longest = 5, .coverage = Coverage::summed});
    const bool inside = kind == ScoreKind::additive || kind == ScoreKind::concat;
    CHECK(params["w_c"].shape() == Shape{inside ? 8 : 4});
    const Keys keys = score->keys(randn({5, 2, 4}), mask);
    const auto e = [&](const Var& seen) {
      return (*score)({.state = randn({2, 4}), .coverage = seen}, keys).value();
    };
    CHECK(e(coverage).shape() == e({}).shape());
    CHECK(e(coverage).to_vector<double>() != e({}).to_vector<double>());
    CHECK(score->read(randn({5, 2, 4})).shape() == Shape{5, 2, 4});
  }
}

TEST_CASE("make_score: a direct comparison of different sizes is an error that says what to do") {
  Parameters params;
  CHECK_THROWS_WITH_AS(
      make_score(params, 4, 6, {.kind = ScoreKind::dot}),
      "score: dot compares a state of 4 with annotations of 6: general, or another score with "
      "weights, takes different sizes",
      Error);
}

}  // namespace
}  // namespace attune::nn
