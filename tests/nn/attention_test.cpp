#include <limits>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/nn/attention.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"

namespace {

using namespace attune;
using test::difference;
using test::identical;

const std::vector<Index> kLengths = {3, 5, 1};

/// Additive attention with random parameters over a random memory (5, 3, 6).
struct Fixture {
  nn::Parameters params{3, DType::f64};
  nn::Attention attention{nn::AdditiveScore(params, 4, 6, 7)};
  Var query = params.add("query", {3, 4}, nn::init::normal(1));
  Var memory = params.add("memory", {5, 3, 6}, nn::init::normal(1));
  Tensor mask = test::ragged_mask(5, kLengths);

  nn::Attended attend(const Var& h) const {
    return attention({.state = query}, attention.remember(h, mask));
  }
};

TEST_CASE("Attention: values and gradients are PyTorch's") {
  const Golden golden("additive_attention");
  nn::Parameters params(1, DType::f64);
  const nn::Attention attention(nn::AdditiveScore(params, 4, 6, 7));
  const Var query = params.add("query", {3, 4}, nn::init::zeros());
  const Var memory = params.add("memory", {5, 3, 6}, nn::init::zeros());
  for (const auto& [name, w] : params) test::set(params, name, golden[name]);

  const auto [context, weights] =
      attention({.state = query}, attention.remember(memory, golden["mask"]));
  CHECK(difference(weights.value(), golden["weights"]) < 1e-12);
  CHECK(difference(context.value(), golden["context"]) < 1e-12);
  const Gradients gradients = backward(test::weighted(context, golden["g_context"]) +
                                       test::weighted(weights, golden["g_weights"]));
  for (const auto& [name, w] : params) {
    CAPTURE_BINDING(name);
    CHECK(difference(gradients[w], golden["d_" + name]) < 1e-10);
  }
}

TEST_CASE("Attention: weights are exactly 0 on padding and sum to 1 over the words") {
  const Fixture f;
  const Tensor weights = f.attend(f.memory).weights.value();
  REQUIRE(weights.shape() == Shape{5, 3});
  for (Index b = 0; b < 3; ++b) {
    double total = 0;
    for (Index s = 0; s < 5; ++s) {
      const double w = weights.data<double>()[s * 3 + b];
      CHECK((w == 0) == (s >= kLengths[static_cast<std::size_t>(b)]));
      total += w;
    }
    CHECK(std::abs(total - 1) < 1e-14);
  }
}

TEST_CASE("Attention: a memory of NaN under padding does not matter") {
  const Fixture f;
  Tensor spoilt = f.memory.value().clone();
  for (Index s = 0; s < 5; ++s) {
    for (Index b = 0; b < 3; ++b) {
      if (s < kLengths[static_cast<std::size_t>(b)]) continue;
      Tensor row = spoilt[s][b];
      fill(row, std::numeric_limits<double>::quiet_NaN());
    }
  }
  const nn::Attended clean = f.attend(f.memory), other = f.attend(spoilt);
  CHECK(identical(other.context.value(), clean.context.value()));
  CHECK(identical(other.weights.value(), clean.weights.value()));
}

TEST_CASE("Attention: what stands under padding does not change the gradients") {
  const Fixture f;
  const Tensor words = f.mask.reshape({5, 3, 1});
  const Tensor g = randn({3, 6}, DType::f64, 8);
  const Gradients clean = backward(test::weighted(f.attend(f.memory).context, g));
  const Var spoilt = variable(f.memory.value() * words + 300.0 * (1.0 - words));
  const Gradients other = backward(test::weighted(f.attend(spoilt).context, g));
  for (const char* name : {"W_a", "U_a", "v_a", "query"}) {
    INFO(name);
    CHECK(difference(other[f.params[name]], clean[f.params[name]]) < 1e-13);
  }
  CHECK(difference(other[spoilt], clean[f.memory]) < 1e-13);
  CHECK(identical(other[spoilt] * (1.0 - words), zeros({5, 3, 6}, DType::f64)));
}

TEST_CASE("Attention: gradients agree with differences") {
  const Fixture f;
  CHECK(gradcheck(f.params, [&] {
    const auto [context, weights] = f.attend(f.memory);
    return test::flat({context, weights});
  }));
}

TEST_CASE("Attention: gradients agree with differences at ten times the initial values") {
  Fixture f;
  test::scale_parameters(f.params, 10);
  // The query and the memory are scaled too; that would only saturate every tanh.
  test::set(f.params, "query", randn({3, 4}, DType::f64, 5));
  test::set(f.params, "memory", randn({5, 3, 6}, DType::f64, 6));
  const auto run = [&] {
    const auto [context, weights] = f.attend(f.memory);
    return test::flat({context, weights});
  };
  CHECK(gradcheck(f.params, run, {.step = 1e-4}));
}

/// e = h · s
struct DotScore : nn::Score {
  nn::Keys keys(const Var& memory, const Tensor& mask) const override {
    return {.k = memory, .mask = mask};
  }
  Var operator()(const nn::Query& query, const nn::Keys& keys) const override {
    return sum(keys.k * query.state, {-1});
  }
};

TEST_CASE("Attention: takes a score of one's own") {
  const nn::Attention attention{DotScore()};
  // Scores of the first sentence: 0, log 2, log 5 -> weights 1/8, 2/8, 5/8; of the second, of one
  // word: 1.
  const Tensor memory =
      Tensor::of({3, 2, 2}, {0., 4., 9., 1., std::log(2.), 8., 9., 9., std::log(5.), 0., 9., 9.});
  const Tensor query = Tensor::of({2, 2}, {1., 0., 3., -2.});
  const auto [context, weights] =
      attention({.state = query}, attention.remember(memory, test::ragged_mask(3, {3, 1})));
  CHECK(difference(weights.value(), Tensor::of({3, 2}, {0.125, 1., 0.25, 0., 0.625, 0.})) < 1e-15);
  const double first = 0.25 * std::log(2.) + 0.625 * std::log(5.);
  CHECK(difference(context.value(), Tensor::of({2, 2}, {first, 2.5, 9., 1.})) < 1e-14);
}

TEST_CASE("Attention: a score of one's own is differentiated") {
  nn::Parameters params(3, DType::f64);
  const nn::Attention attention{DotScore()};
  const Var query = params.add("query", {2, 4}, nn::init::normal(1));
  const Var memory = params.add("memory", {5, 2, 4}, nn::init::normal(1));
  CHECK(gradcheck(params, [&] {
    return attention({.state = query}, attention.remember(memory, test::ragged_mask(5, {2, 5})))
        .context;
  }));
}

TEST_CASE("Attention: a score sees the target step and the coverage") {
  struct Curious : nn::Score {
    nn::Keys keys(const Var& memory, const Tensor& mask) const override { return {memory, mask}; }
    Var operator()(const nn::Query& query, const nn::Keys&) const override {
      return query.past.coverage * static_cast<double>(query.past.steps);
    }
  };
  const nn::Attention attention{Curious()};
  const nn::Memory memory =
      attention.remember(randn({2, 1, 3}, DType::f64), ones({2, 1}, DType::f64));
  const Var coverage = Tensor::of({2, 1}, {0., std::log(2.) / 3});
  const auto [context, weights] =
      attention({.state = randn({1, 4}, DType::f64), .past = {3, coverage}}, memory);
  CHECK(difference(weights.value(), Tensor::of({2, 1}, {1. / 3, 2. / 3})) < 1e-15);
}

TEST_CASE("select: columns of a memory in any order, with repetition") {
  const Fixture f;
  const nn::Memory memory = f.attention.remember(f.memory, f.mask);
  const nn::Memory selected =
      nn::select(memory, Tensor::of({4}, {std::int32_t{2}, std::int32_t{0}, 0, 1}));
  REQUIRE(selected.h.shape() == Shape{5, 4, 6});
  REQUIRE(selected.mask.shape() == Shape{5, 4});
  REQUIRE(selected.keys.k.shape() == Shape{5, 4, 7});
  const Index from[] = {2, 0, 0, 1};
  for (Index i = 0; i < 4; ++i) {
    for (Index s = 0; s < 5; ++s) {
      CHECK(identical(selected.h.value()[s][i], memory.h.value()[s][from[i]]));
      CHECK(identical(selected.mask[s][i], f.mask[s][from[i]]));
      CHECK(identical(selected.keys.k.value()[s][i], memory.keys.k.value()[s][from[i]]));
      CHECK(identical(selected.keys.mask[s][i], f.mask[s][from[i]]));
    }
  }
  CHECK_FALSE(selected.keys.positions.defined());
  CHECK_FALSE(selected.h.requires_gradient());
}

TEST_CASE("Attention: a mask of another shape is an error") {
  const Fixture f;
  CHECK_THROWS_WITH_AS(f.attention.remember(f.memory, ones({5, 2}, DType::f64)),
                       "attention: mask (S, B) is (5, 2), but B = 3 in h", Error);
}

}  // namespace
