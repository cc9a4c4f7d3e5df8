#include <doctest/doctest.h>

#include <attune/nn/parameters.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"

namespace {

using namespace attune;
using test::identical;

TEST_CASE("Parameters: a path is the scopes' names and the parameter's, with dots between") {
  nn::Parameters params;
  const nn::Scope root(params);
  root.add("b", {2}, nn::init::zeros());
  (root / "encoder" / "forward").add("W_h", {3, 2}, nn::init::zeros());
  REQUIRE(params.all().size() == 2);
  CHECK(params.all()[0].name == "b");
  CHECK(params.all()[1].name == "encoder.forward.W_h");
  CHECK(params.contains("encoder.forward.W_h"));
  CHECK_FALSE(params.contains("W_h"));
  CHECK_FALSE(params.contains("encoder"));
}

TEST_CASE("Parameters: a place below them is written with a stroke") {
  nn::Parameters params;
  (params / "encoder" / "forward").add("W_h", {3, 2}, nn::init::zeros());
  CHECK(params.contains("encoder.forward.W_h"));
}

TEST_CASE("missing: the parameters on which a loss did not depend, by path") {
  nn::Parameters params;
  const Var used = params.add("a", {2}, nn::init::constant(1));
  (params / "b").add("W", {2}, nn::init::constant(1));
  const Gradients gradients = backward(sum(used));
  CHECK(nn::missing(gradients, params) == std::vector<std::string>{"b.W"});
}

TEST_CASE("Parameters: a path can be taken only once") {
  nn::Parameters params;
  const nn::Scope layer = nn::Scope(params) / "layer";
  layer.add("W", {2, 3}, nn::init::constant(4));
  CHECK_THROWS_WITH_AS(layer.add("W", {5}, nn::init::zeros()),
                       "Parameters: 'layer.W' exists already", Error);
  CHECK_THROWS_AS(params.add("layer.W", {2, 3}, nn::init::zeros()), Error);
  CHECK(params.all().size() == 1);
  CHECK(identical(params["layer.W"].value(), full({2, 3}, 4)));
}

TEST_CASE("Parameters: what an initial value throws leaves no parameter behind") {
  nn::Parameters params;
  CHECK_THROWS_AS(params.add("W", {3}, nn::init::glorot()), Error);
  CHECK_FALSE(params.contains("W"));
  CHECK(params.all().empty());
  CHECK_NOTHROW(params.add("W", {3, 2}, nn::init::glorot()));
}

TEST_CASE("Parameters: a further parameter does not change the initial values of the others") {
  nn::Parameters alone(7), among(7);
  const Tensor w = alone.add("layer.W", {3, 4}, nn::init::normal(1)).value();
  among.add("before", {5, 2}, nn::init::normal(1));
  const Tensor same = among.add("layer.W", {3, 4}, nn::init::normal(1)).value();
  among.add("after", {6}, nn::init::normal(1));
  CHECK(identical(same, w));
}

TEST_CASE("Parameters: initial values depend on the seed and on the path") {
  nn::Parameters one(1), two(2);
  const Tensor a = one.add("a", {3, 4}, nn::init::normal(1)).value();
  const Tensor b = one.add("b", {3, 4}, nn::init::normal(1)).value();
  const Tensor a_of_two = two.add("a", {3, 4}, nn::init::normal(1)).value();
  for (Index i = 0; i < a.size(); ++i) {
    CHECK(a.data<float>()[i] != b.data<float>()[i]);
    CHECK(a.data<float>()[i] != a_of_two.data<float>()[i]);
  }
}

TEST_CASE("Parameters: f32 starts from f64's numbers, rounded") {
  nn::Parameters narrow(3, DType::f32), wide(3, DType::f64);
  const Tensor f32 = narrow.add("W", {4, 6}, nn::init::glorot(2)).value();
  const Tensor f64 = wide.add("W", {4, 6}, nn::init::glorot(2)).value();
  REQUIRE(f32.dtype() == DType::f32);
  REQUIRE(f64.dtype() == DType::f64);
  for (Index i = 0; i < f64.size(); ++i) {
    CHECK(f32.data<float>()[i] == static_cast<float>(f64.data<double>()[i]));
  }
}

TEST_CASE("Parameters: count is the number of all elements") {
  nn::Parameters params;
  CHECK(params.count() == 0);
  params.add("matrix", {3, 4}, nn::init::zeros());
  params.add("vector", {5}, nn::init::zeros());
  params.add("scalar", {}, nn::init::zeros());
  CHECK(params.count() == 18);
}

TEST_CASE("Parameters: asking for a path that is not there says so") {
  nn::Parameters params;
  params.add("layer.W", {2}, nn::init::zeros());
  CHECK_THROWS_WITH_AS(params["layer.w"], "Parameters: there is no 'layer.w'", Error);
}

TEST_CASE("Parameters: integers are refused") {
  CHECK_THROWS_WITH_AS(nn::Parameters(1, DType::i32), "Parameters: f32 or f64 was expected", Error);
}

TEST_CASE("Parameters: what a layer holds is the parameter itself, and a variable") {
  nn::Parameters params;
  const Var held = params.add("W", {2, 3}, nn::init::zeros());
  CHECK(held.requires_gradient());
  CHECK(held.value().shares_buffer_with(params["W"].value()));
  Tensor values = params["W"].value();
  fill(values, 5);
  CHECK(identical(held.value(), full({2, 3}, 5)));
}

}  // namespace
