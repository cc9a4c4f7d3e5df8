#include <doctest/doctest.h>

#include <attune/nn/score.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"
#include "support/golden.hpp"

namespace {

using namespace attune;
using test::difference;

TEST_CASE("AdditiveScore: scores are PyTorch's") {
  const Golden golden("additive_attention");
  nn::Parameters params(1, DType::f64);
  const nn::AdditiveScore score(params, 4, 6, 7);
  for (const auto& [name, w] : params) test::set(params, name, golden[name]);
  const Tensor mask = golden["mask"];
  const Var e = score({.state = golden["query"]}, score.keys(golden["memory"], mask));
  CHECK(difference(e.value() * mask, golden["e"]) < 1e-12);  // the file has zeros at padding
}

TEST_CASE("AdditiveScore: gradients agree with differences") {
  nn::Parameters params(3, DType::f64);
  const nn::AdditiveScore score(nn::Scope(params) / "attention", 4, 6, 3);
  const Var query = params.add("query", {2, 4}, nn::init::normal(1));
  const Var memory = params.add("memory", {5, 2, 6}, nn::init::normal(1));
  const Tensor mask = test::ragged_mask(5, {5, 3});
  CHECK(params.contains("attention.W_a"));
  CHECK(params.contains("attention.U_a"));
  CHECK(params.contains("attention.v_a"));
  CHECK(gradcheck(params, [&] { return score({.state = query}, score.keys(memory, mask)); }));
}

TEST_CASE("AdditiveScore: keys are made once, and hold no query") {
  nn::Parameters params(3, DType::f64);
  const nn::AdditiveScore score(params, 4, 6, 3);
  const Tensor mask = ones({5, 2}, DType::f64);
  const nn::Keys keys = score.keys(randn({5, 2, 6}), mask);
  CHECK(keys.k.shape() == Shape{5, 2, 3});
  CHECK(test::identical(keys.mask, mask));
  const Var first = score({.state = randn({2, 4}, 2)}, keys);
  score({.state = randn({2, 4}, 3)}, keys);
  CHECK(test::identical(score({.state = randn({2, 4}, 2)}, keys).value(), first.value()));
}

TEST_CASE("AdditiveScore: a query of another batch is an error") {
  nn::Parameters params(3, DType::f64);
  const nn::AdditiveScore score(params, 4, 6, 3);
  const nn::Keys keys = score.keys(randn({5, 2, 6}), ones({5, 2}, DType::f64));
  CHECK_THROWS_WITH_AS(score({.state = randn({3, 4})}, keys), doctest::Contains("(5, 2, 3)"),
                       Error);
}

}  // namespace
