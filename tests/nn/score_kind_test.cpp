#include <doctest/doctest.h>

#include <attune/nn/score.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/random.hpp>

namespace attune::nn {
namespace {

TEST_CASE("score_kind: every kind has a name of its own, and is found by it") {
  for (const ScoreKind& kind : score_kinds()) CHECK(&score_kind(kind.name) == &kind);
  CHECK_THROWS_WITH_AS(score_kind("bilinear"),
                       "score: 'bilinear' is not one of additive, dot, scaled_dot, general, "
                       "concat, location, cosine, "
                       "multi_head, location_aware",
                       Error);
}

TEST_CASE(
    "make_score: every kind gives a score for each place, those with weights for different sizes "
    "too") {
  const Tensor mask = ones({5, 2}, DType::f64);
  for (const ScoreKind& kind : score_kinds()) {
    const std::string name = kind.name;
    INFO(name);
    CHECK(kind.direct == (name == "dot" || name == "scaled_dot" || name == "cosine"));
    const Index memory = kind.direct ? 4 : 6;
    Parameters params(1, DType::f64);
    const auto score =
        make_score(params, 4, memory, {.kind = name, .attention = 8, .heads = 2, .longest = 5});
    const Var e = (*score)({.state = randn({2, 4}, DType::f64)},
                           score->keys(randn({5, 2, memory}, DType::f64), mask));
    CHECK(e.shape() == (name == "multi_head" ? Shape{2, 5, 2} : Shape{5, 2}));
  }
}

TEST_CASE("make_score: coverage gives every kind a w_c, in the tanh where there is one") {
  const Tensor mask = ones({5, 2}, DType::f64), coverage = randn({5, 2}, DType::f64, 7);
  for (const ScoreKind& kind : score_kinds()) {
    const std::string name = kind.name;
    INFO(name);
    Parameters params(1, DType::f64);
    const auto score = make_score(
        params, 4, 4,
        {.kind = name, .attention = 8, .heads = 2, .longest = 5, .coverage = Coverage::summed});
    const bool inside = name == "additive" || name == "concat";
    CHECK(params["w_c"].shape() == Shape{inside ? 8 : 4});
    const Keys keys = score->keys(randn({5, 2, 4}, DType::f64), mask);
    const auto e = [&](const Var& seen) {
      return (*score)({.state = randn({2, 4}, DType::f64), .past = {.coverage = seen}}, keys)
          .value();
    };
    CHECK(e(coverage).shape() == e({}).shape());
    CHECK(e(coverage).to_vector<double>() != e({}).to_vector<double>());
    CHECK(score->read(randn({5, 2, 4}, DType::f64)).shape() == Shape{5, 2, 4});
  }
}

TEST_CASE("make_score: a direct comparison of different sizes is an error that says what to do") {
  Parameters params;
  CHECK_THROWS_WITH_AS(
      make_score(params, 4, 6, {.kind = "dot"}),
      "score: dot needs a state and annotations of the same size, not 4 and 6: use general or "
      "another score with weights",
      Error);
}

}  // namespace
}  // namespace attune::nn
