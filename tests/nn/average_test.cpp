#include <cmath>

#include <doctest/doctest.h>

#include <attune/nn/average.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"

namespace {

using namespace attune;
using test::difference;
using test::identical;

void set_all(nn::Parameters& params, double value) {
  for (const auto& [name, w] : params) {
    Tensor to = w.value();
    fill(to, value);
  }
}

}  // namespace

TEST_CASE("MovingAverage: it is the sum of the weights by its definition") {
  nn::Parameters params(1, DType::f64);
  const Var w = params.add("w", {2, 3}, nn::init::zeros());
  nn::MovingAverage average(params, 0.3);
  double expected = 0;
  for (int t = 1; t <= 6; ++t) {
    set_all(params, t * t);
    average.update();
    const double beta = std::min(0.3, (1.0 + t) / (10.0 + t));
    expected = beta * expected + (1 - beta) * t * t;
  }
  const nn::AverageInPlace scope(average);
  CHECK(difference(w.value(), full({2, 3}, expected, DType::f64)) <= 1e-14 * expected);
}

TEST_CASE("MovingAverage: the weights come back after the scope") {
  nn::Parameters params(1);
  const Var w = params.add("w", {5}, nn::init::normal(1)),
            b = params.add("b", {2}, nn::init::zeros());
  nn::MovingAverage average(params, 0.9);
  const Tensor before = w.value().clone();
  set_all(params, 3);
  average.update();
  {
    const nn::AverageInPlace scope(average);
    CHECK(!identical(w.value(), full({5}, 3)));
  }
  CHECK(identical(w.value(), full({5}, 3)));
  CHECK(identical(b.value(), full({2}, 3)));
}

TEST_CASE("MovingAverage: saved and loaded it goes on as if nothing had been") {
  nn::Parameters params(1), others(2);
  for (nn::Parameters* p : {&params, &others}) p->add("w", {4, 2}, nn::init::normal(1));
  nn::MovingAverage average(params, 0.99), other(others, 0.99);
  average.update();
  Safetensors file;
  average.save(file);
  for (auto& [name, tensor] : file.tensors) tensor = tensor.clone();
  other.load(file);
  for (int i = 0; i < 3; ++i) {
    set_all(params, i), set_all(others, i);
    average.update(), other.update();
  }
  average.swap(), other.swap();
  CHECK(identical(params["w"].value(), others["w"].value()));
  CHECK_THROWS_WITH_AS(other.load({}), "checkpoint: there is no 'average.steps' in it", Error);
  file.tensors.clear();
  CHECK_THROWS_AS(other.load(file), Error);
}

TEST_CASE("MovingAverage: a decay out of range is an error") {
  nn::Parameters params;
  for (double decay : {0.0, 1.0, -0.5, std::nan("")}) {
    CHECK_THROWS_AS(nn::MovingAverage(params, decay), Error);
  }
}
