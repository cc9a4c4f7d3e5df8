#include <doctest/doctest.h>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/backward.hpp>
#include <attune/nn/attention.hpp>
#include <attune/tensor/kernels/normalize.hpp>

#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"

namespace attune::nn {
namespace {

const Tensor all_words = ones({5, 2}, DType::f64);
const Query query{.state = randn({2, 4}, DType::f64)};

TEST_CASE("score_kind: names are unique, and found") {
  for (const ScoreKind& kind : score_kinds()) CHECK(&score_kind(kind.name) == &kind);
  CHECK_ERROR(
      "score: 'bilinear' is not one of additive, dot, scaled_dot, general, concat, location, "
      "cosine, multi_head, location_aware",
      score_kind("bilinear"));
}

TEST_CASE("make_score: every kind gives a score for each position, and with coverage has a w_c") {
  const Tensor coverage = randn({5, 2}, DType::f64, 7);
  for (const ScoreKind& kind : score_kinds()) {
    const std::string name = kind.name;
    INFO(name);
    CHECK(kind.direct == (name == "dot" || name == "scaled_dot" || name == "cosine"));
    const Index size = kind.direct ? 4 : 6;  // those with weights take different sizes
    const Tensor h = randn({5, 2, size}, DType::f64);
    for (const Coverage looks : {Coverage::none, Coverage::summed}) {
      Parameters params(1, DType::f64);
      const auto score =
          make_score(params, 4, size,
                     {.kind = name, .attention = 8, .heads = 2, .longest = 5, .coverage = looks});
      const Keys keys{.k = score->keys(h), .mask = all_words};
      const Tensor e = (*score)(query, keys).value();
      const AttentionState past{.coverage = coverage};
      const Tensor covered = (*score)({.state = query.state, .past = past}, keys).value();
      CHECK(e.shape() == (name == "multi_head" ? Shape{2, 5, 2} : Shape{5, 2}));
      CHECK(identical(e, covered) == (looks == Coverage::none));
      CHECK(score->uses_coverage() == (looks == Coverage::summed));
      CHECK(score->values(h).shape() == h.shape());
      if (looks == Coverage::none) continue;
      const bool in_tanh = name == "additive" || name == "concat";
      CHECK(params["w_c"].shape() == Shape{in_tanh ? 8 : 4});
    }
  }
}

TEST_CASE("scores: sizes that do not fit are named") {
  Parameters params(1, DType::f64);
  const Tensor h = randn({5, 2, 4}, DType::f64);
  CHECK_ERROR(
      "score: dot requires a state and annotations of equal size, not 4 and 6: use general or "
      "another score with parameters",
      make_score(params, 4, 6, {.kind = "dot"}));
  CHECK_ERROR("MultiHeadScore: 4 heads do not divide an attention of 8 and a memory of 6",
              MultiHeadScore(params, 4, 6, {.attention = 8, .heads = 4}));
  CHECK_ERROR("LocationAwareScore: 0 filters of radius 1: at least 1 and 0 are expected",
              LocationAwareScore(params / "a", 4, 4, {.filters = 0, .radius = 1}));
  CHECK_ERROR("LocationScore: the source has 5 positions, but W_a (4, 3) has columns for 3",
              LocationScore(params / "l", 4, 4, {.longest = 3}).keys(h));
  CHECK_ERROR("dot_scores: k (S, B, A) is (5, 2, 4), but A = 3 in q",
              DotScore()({.state = randn({2, 3}, DType::f64)}, {h, all_words}));
  const AdditiveScore additive(params / "additive", 4, 4, {.attention = 3});
  CHECK_ERROR("additive_scores: k (S, B, A) is (5, 2, 3), but B = 3 in q",
              additive({.state = randn({3, 4}, DType::f64)}, {additive.keys(h), all_words}));
}

TEST_CASE("LocationAwareScore: scores and gradients are those of PyTorch") {
  const Golden golden = Golden("sequences").at("location_aware/");
  Parameters params(1, DType::f64);
  const LocationAwareScore score(params, 4, 4, {.attention = 5, .filters = 2, .radius = 2});
  for (const char* name : {"state", "h", "alpha"})
    params.add(name, golden[name].shape(), init::zeros());
  for (const auto& [name, w] : params) test::set(params, name, golden[name]);
  const Var e = score({.state = params["state"], .past = {.weights = params["alpha"]}},
                      {score.keys(params["h"]), ones({6, 3}, DType::f64)});
  CHECK(difference(e.value(), golden["e"]) < 1e-12);
  const Gradients gradients = backward(e, golden["g_e"]);
  for (const auto& [name, w] : params) {
    CAPTURE_BINDING(name);
    CHECK(difference(gradients[w], golden["d_" + name]) < 1e-11);
  }
}

TEST_CASE("LocationAwareScore: additive at step 0; in a window it uses all weights") {
  Parameters params(3, DType::f64);
  const LocationAwareScore score(params, 4, 6, {.attention = 3, .filters = 2, .radius = 1});
  Keys keys{score.keys(randn({5, 2, 6}, DType::f64, 2)), all_words};
  const auto e = [&](const Tensor& weights) {
    return score({.state = query.state, .past = {.weights = weights}}, keys).value();
  };
  const Tensor first = score(query, keys).value();
  CHECK(difference(e(zeros({5, 2}, DType::f64)), first) < 1e-14);
  CHECK(difference(e(all_words), first) > 1e-3);
  const Tensor weights = softmax(randn({5, 2}, DType::f64, 3), 0), all = e(weights);
  keys.positions = ints({2, 2}, {1, 3, 2, 4});
  keys.k = window(keys.k, keys.positions);
  CHECK(difference(e(weights), window(all, keys.positions).value()) < 1e-14);
}

}  // namespace
}  // namespace attune::nn
