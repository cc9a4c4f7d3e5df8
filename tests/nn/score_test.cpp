#include <doctest/doctest.h>

#include <attune/autograd/attention.hpp>
#include <attune/autograd/backward.hpp>
#include <attune/nn/score.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/normalize.hpp>

#include "nn/tools.hpp"
#include "support/capture.hpp"
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
  const nn::Keys keys = score.keys(randn({5, 2, 6}, DType::f64), mask);
  CHECK(keys.k.shape() == Shape{5, 2, 3});
  CHECK(test::identical(keys.mask, mask));
  const Var first = score({.state = randn({2, 4}, DType::f64, 2)}, keys);
  score({.state = randn({2, 4}, DType::f64, 3)}, keys);
  CHECK(
      test::identical(score({.state = randn({2, 4}, DType::f64, 2)}, keys).value(), first.value()));
}

TEST_CASE("LocationAwareScore: scores and gradients are those of PyTorch") {
  const Golden golden = Golden("sequences").at("location_aware/");
  nn::Parameters params(1, DType::f64);
  const nn::LocationAwareScore score(params, 4, 4, 5, {.filters = 2, .radius = 2});
  for (const auto& [name, w] : params) test::set(params, name, golden[name]);
  const Var state = variable(golden["state"]), h = variable(golden["h"]),
            alpha = variable(golden["alpha"]);
  const Tensor mask = ones({6, 3}, DType::f64);
  const Var e = score({.state = state, .past = {.weights = alpha}}, score.keys(h, mask));
  CHECK(difference(e.value(), golden["e"]) < 1e-12);
  const Gradients gradients = backward(e, golden["g_e"]);
  CHECK(difference(gradients[state], golden["d_state"]) < 1e-11);
  CHECK(difference(gradients[h], golden["d_h"]) < 1e-11);
  CHECK(difference(gradients[alpha], golden["d_alpha"]) < 1e-11);
  for (const auto& [name, w] : params) {
    CAPTURE_BINDING(name);
    CHECK(difference(gradients[w], golden["d_" + name]) < 1e-11);
  }
}

TEST_CASE("LocationAwareScore: at the first step it is the additive score with a bias") {
  nn::Parameters params(3, DType::f64);
  const nn::LocationAwareScore score(params, 4, 6, 3, {.filters = 2, .radius = 1});
  const Tensor mask = ones({5, 2}, DType::f64), state = randn({2, 4}, DType::f64),
               h = randn({5, 2, 6}, DType::f64, 2);
  const nn::Keys keys = score.keys(h, mask);
  const Tensor first = score({.state = state}, keys).value();
  const Tensor nothing = zeros({5, 2}, DType::f64);
  CHECK(difference(score({.state = state, .past = {.weights = nothing}}, keys).value(), first) <
        1e-14);
  CHECK(difference(
            score({.state = state, .past = {.weights = ones({5, 2}, DType::f64)}}, keys).value(),
            first) > 1e-3);
}

TEST_CASE("LocationAwareScore: in a window it sees the weights of all places") {
  nn::Parameters params(3, DType::f64);
  const nn::LocationAwareScore score(params, 4, 6, 3, {.filters = 2, .radius = 1});
  const Tensor mask = ones({5, 2}, DType::f64);
  const nn::Query query{.state = randn({2, 4}, DType::f64),
                        .past = {.weights = Var(softmax(randn({5, 2}, DType::f64, 3), 0))}};
  nn::Keys keys = score.keys(randn({5, 2, 6}, DType::f64, 2), mask);
  const Tensor all = score(query, keys).value();
  const Tensor positions = Tensor::of<std::int32_t>({2, 2}, {1, 3, 2, 4});
  keys.k = window(keys.k, positions);
  keys.positions = positions;
  CHECK(difference(score(query, keys).value(), window(all, positions).value()) < 1e-14);
}

TEST_CASE("AdditiveScore: a query of another batch is an error") {
  nn::Parameters params(3, DType::f64);
  const nn::AdditiveScore score(params, 4, 6, 3);
  const nn::Keys keys = score.keys(randn({5, 2, 6}, DType::f64), ones({5, 2}, DType::f64));
  CHECK_THROWS_WITH_AS(score({.state = randn({3, 4}, DType::f64)}, keys),
                       doctest::Contains("(5, 2, 3)"), Error);
}

}  // namespace
