#include <cmath>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/luong.hpp>
#include <attune/models/search.hpp>
#include <attune/models/unroll.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/check.hpp>

#include "support/golden.hpp"
#include "support/threads_scope.hpp"

namespace attune::models {
namespace {

LuongOptions tiny() {
  return {.source_vocabulary = 9, .target_vocabulary = 8, .embedding = 3, .hidden = 4, .layers = 2};
}

const std::vector<text::Pair> pairs = {
    {{4, 5, 6, 7, 8}, {4, 5}}, {{8, 5}, {6, 7, 4}}, {{6, 4, 4}, {5}}};

void check_near(const std::string& what, const Tensor& actual, const Tensor& expected,
                double tolerance) {
  INFO(what);
  REQUIRE(actual.shape() == expected.shape());
  const std::vector<double> a = actual.to_vector<double>(), e = expected.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i)
    CHECK(std::abs(a[i] - e[i]) <= tolerance * (1 + std::abs(e[i])));
}

TEST_CASE("Luong: loss, weights and all gradients are those of a second implementation") {
  const Golden golden("luong");
  nn::Parameters params(1, DType::f64);
  const Luong model(params, tiny());
  for (const auto& [name, w] : params) {
    Tensor values = w.value();
    copy(golden[name], values);
  }
  const text::Batch batch{golden["source"], golden["source_mask"], golden["previous"],
                          golden["next"], golden["target_mask"]};
  const Tensor weights = force(model, batch).weights.value(), expected = golden["weights"];
  const double* mask = batch.target_mask.data<double>();
  for (Index i = 0; i < weights.size(); ++i) {
    const Index t = i / (5 * 3), b = i % 3;
    if (mask[t * 3 + b] == 0) continue;  // the decoder runs on over padding
    CHECK(std::abs(weights.data<double>()[i] - expected.data<double>()[i]) <= 1e-10);
  }
  const Var total = loss(model, batch);
  CHECK(std::abs(total.item() - golden.number("loss")) <= 1e-10);
  const Gradients gradients = backward(total);
  for (const auto& [name, w] : params)
    check_near("d_" + name, gradients[w], golden["d_" + name], 1e-10);
}

/// Trains a few sentences by heart; the final loss.
double learn(nn::Parameters& params, const Luong& model, int steps) {
  nn::Adam adam(params, {.rate = 1e-2});
  const text::Batch batch = text::make_batch(pairs);
  for (int step = 0; step < steps; ++step) adam.step(backward(loss(model, batch)));
  return loss(model, batch).item();
}

TEST_CASE("Luong: learns sentences by heart, and greedy and beam search write them") {
  nn::Parameters params(1);
  LuongOptions o = tiny();
  o.embedding = 8, o.hidden = 16;
  const Luong model(params, o);
  CHECK(learn(params, model, 300) < 0.05);
  const text::Batch batch = text::make_batch(pairs);
  for (Index beam : {1, 3}) {
    const auto found = search(model, model.encode(batch.source, batch.source_mask),
                              {.beam = beam, .max_length = 10});
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      CHECK(found[i][0].words == pairs[i].target);
      const std::vector<double> totals = sum(found[i][0].weights, {1}).to_vector<double>();
      for (double total : totals) CHECK(total == doctest::Approx(1).epsilon(1e-5));
    }
  }
}

TEST_CASE("Luong: the same seed trains the same weights to the bit, with one thread or two") {
  std::vector<std::vector<float>> weights;
  for (int count : {1, 2}) {
    const test::ThreadsScope scope(count);
    nn::Parameters params(7);
    const Luong model(params, tiny());
    learn(params, model, 20);
    std::vector<float> all;
    for (const auto& [name, w] : params) {
      const std::vector<float> values = w.value().to_vector<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    weights.push_back(all);
  }
  CHECK(weights[0] == weights[1]);
}

}  // namespace
}  // namespace attune::models
