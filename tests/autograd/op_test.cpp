// Every operation of the list in support/op_cases.hpp: its values against loops over elements, its
// gradients against central differences.

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/ops.hpp>

#include "support/op_cases.hpp"

namespace attune {
namespace {

std::vector<Tensor> scaled(const std::vector<Tensor>& inputs, double scale) {
  std::vector<Tensor> result;
  for (const Tensor& x : inputs) {
    result.push_back(naive::map(x, [scale](double v) { return scale * v; }));
  }
  return result;
}

template <class F>
void for_group(const std::string& group, F f) {
  int count = 0;
  for (const OpCase& op : op_cases()) {
    if (op.group != group) continue;
    ++count;
    SUBCASE(op.name.c_str()) { f(op); }
  }
  REQUIRE(count > 0);
}

void check_values(const std::string& group) {
  for_group(group, [](const OpCase& op) {
    for (double scale : {1.0, 10.0}) {
      const std::vector<Tensor> inputs = scaled(op.inputs, scale);
      const std::vector<Var> vars(inputs.begin(), inputs.end());
      CHECK(difference(op.f(vars).value(), op.reference(inputs)) <= 1e-13);
    }
  });
}

void check_gradients(const std::string& group, double scale) {
  for_group(group, [scale](const OpCase& op) { CHECK(gradcheck(op.f, scaled(op.inputs, scale))); });
}

/// In f32, the same numbers to its precision, and gradients in f32.
void check_f32(const std::string& group) {
  for_group(group, [](const OpCase& op) {
    if (op.name.find("softmax") != std::string::npos) return;  // its masks are f64: below
    std::vector<Var> single, twice;
    for (const Tensor& x : op.inputs) {
      const Tensor rounded = x.to(DType::f32);
      single.push_back(variable(rounded));
      twice.push_back(variable(rounded.to(DType::f64)));
    }
    const Var y = op.f(single), expected = op.f(twice);
    CHECK(y.dtype() == DType::f32);
    CHECK(difference(y.value().to(DType::f64), expected.value()) <= 1e-5);
    const Tensor dy = randn(y.shape(), DType::f32, 3);
    const Gradients gradients = backward(y, dy);
    const Gradients expected_gradients = backward(expected, dy.to(DType::f64));
    for (std::size_t i = 0; i < single.size(); ++i) {
      CHECK(difference(gradients[single[i]].to(DType::f64), expected_gradients[twice[i]]) <= 1e-4);
    }
  });
}

}  // namespace

TEST_CASE("Ops: arithmetic is what a loop over elements gives") { check_values("arithmetic"); }
TEST_CASE("Ops: functions are what a loop over elements gives") { check_values("functions"); }
TEST_CASE("Ops: products are what a loop over elements gives") { check_values("products"); }
TEST_CASE("Ops: reductions are what a loop over elements gives") { check_values("reductions"); }
TEST_CASE("Ops: softmaxes are what their definition gives") { check_values("normalisations"); }
TEST_CASE("Ops: arrangements are what a loop over elements gives") { check_values("arrangements"); }

TEST_CASE("Ops: gradients of arithmetic are central differences") {
  check_gradients("arithmetic", 1);
}
TEST_CASE("Ops: gradients of functions are central differences") {
  check_gradients("functions", 1);
}
TEST_CASE("Ops: gradients of products are central differences") { check_gradients("products", 1); }
TEST_CASE("Ops: gradients of reductions are central differences") {
  check_gradients("reductions", 1);
}
TEST_CASE("Ops: gradients of softmaxes are central differences") {
  check_gradients("normalisations", 1);
}
TEST_CASE("Ops: gradients of arrangements are central differences") {
  check_gradients("arrangements", 1);
}

TEST_CASE("Ops: gradients at ten times larger inputs are central differences") {
  for (const char* group : {"arithmetic", "functions", "products", "reductions", "arrangements"}) {
    check_gradients(group, 10);
  }
}
TEST_CASE("Ops: gradients of softmaxes at ten times larger inputs are central differences") {
  check_gradients("normalisations", 10);
}

TEST_CASE("Ops: f32 gives the numbers of f64 to its own precision") {
  for (const char* group :
       {"arithmetic", "functions", "products", "reductions", "normalisations", "arrangements"}) {
    check_f32(group);
  }
}

TEST_CASE("Ops: where two maxima are equal the gradient goes to the first") {
  const Var a = variable(reals({3}, {1, 2, 3})), b = variable(reals({3}, {2, 2, 2}));
  const Gradients gradients = backward(maximum(a, b), reals({3}, {10, 20, 30}));
  CHECK(identical(gradients[a], reals({3}, {0, 20, 30})));
  CHECK(identical(gradients[b], reals({3}, {10, 0, 0})));
}

TEST_CASE("Ops: a row of a gathered table that no id names gets gradient 0") {
  const Var table = variable(randn({4, 2}, DType::f64));
  const Gradients gradients =
      backward(gather(table, ints({3}, {2, 0, 2})), reals({3, 2}, {1, 2, 3, 4, 5, 6}));
  CHECK(identical(gradients[table], reals({4, 2}, {3, 4, 0, 0, 6, 8, 0, 0})));
}

TEST_CASE("Ops: errors name the operation and both shapes") {
  const Var a = variable(zeros({3, 2}, DType::f64)), b = variable(zeros({3, 4}, DType::f64));
  CHECK_ERROR("add: shapes (3, 2) and (3, 4) do not broadcast", a + b);
  CHECK_ERROR("divide: shapes (3, 2) and (3, 4) do not broadcast", a / b);
  CHECK_ERROR("matmul: shapes do not fit: (3, 2) x (3, 4)", matmul(a, b));
  CHECK_ERROR("add_matmul: shapes do not fit: (3, 2) x (3, 4)", add_matmul(a, a, b));
  CHECK_ERROR("add_matmul: (3, 2) cannot be added to the product (3, 5)",
              add_matmul(a, b, variable(zeros({4, 5}, DType::f64))));
  CHECK_ERROR("maxout: the last axis of (2, 3) does not divide into pairs",
              maxout(variable(zeros({2, 3}))));
  CHECK_ERROR("add: dtypes differ: f64 (3, 2) and f32 (3, 2)", a + variable(zeros({3, 2})));
  CHECK_ERROR("concat: there is nothing to concatenate", concat({}, 0));
}

TEST_CASE("Ops: an elementwise function of whole numbers names itself in the error") {
  const Var n = ints({3}, {1, 2, 3});
  CHECK_ERROR("tanh: f32 or f64 was expected: i32 (3)", tanh(n));
  CHECK_ERROR("log: f32 or f64 was expected: i32 (3)", log(n));
  CHECK_ERROR("softplus: f32 or f64 was expected: i32 (3)", softplus(n));
  CHECK_ERROR("multiply: f32 or f64 was expected: i32 (3)", n * 2.0);
}

TEST_CASE("Ops: softplus and sigmoid neither overflow nor lose their tails") {
  const Tensor x = reals({4}, {-1000, -40, 40, 1000});
  CHECK(difference(softplus(Var(x)).value(), reals({4}, {0, std::exp(-40.0), 40, 1000})) == 0);
  const Tensor s = sigmoid(Var(x)).value();
  CHECK(s.to_vector<double>()[1] == doctest::Approx(std::exp(-40.0)).epsilon(1e-14));
  CHECK(s.to_vector<double>()[0] == 0);
  CHECK(s.to_vector<double>()[3] == 1);
}

}  // namespace attune
