#include <cstdlib>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/anomaly.hpp>
#include <attune/autograd/record.hpp>
#include <attune/autograd/recurrent.hpp>

#include "support/process.hpp"
#include "support/same_function.hpp"

namespace attune {

TEST_CASE("DetectAnomaly: the operation that computed the first infinity is named, with shapes") {
  const Var x = variable(reals({2, 3}, {1, 2, 3, -4, 5, 6}));
  const auto f = [&] { return sum(exp(log(relu(x)) * Var(reals({3}, {1, 2, 3})))); };
  const char* message =
      "anomaly: log: forward computed a non-finite value: (2, 3), element (1, 0) is -inf, from "
      "inputs (2, 3)";
  CHECK(f().item() > 0);
  const DetectAnomaly guard;
  CHECK(error_of(f) == message);
  const NoGrad no_grad;
  CHECK(error_of(f) == message);
}

TEST_CASE("DetectAnomaly: checks operations on constants too, with all their inputs") {
  const DetectAnomaly guard;
  CHECK_ERROR(
      "anomaly: divide: forward computed a non-finite value: (3, 2), element (0, 0) is inf, "
      "from inputs (2), (3, 1)",
      Var(reals({2}, {1, 0})) / Var(zeros({3, 1}, DType::f64)));
}

TEST_CASE("DetectAnomaly: checks every result of an operation") {
  const DetectAnomaly guard;
  const Var x = variable(ones({2}));
  const Recording pair = record("pair", {x.value(), x.value() / 0.0}).joint({x}, [](auto, auto) {});
  CHECK(pair.output(0).size() == 2);
  CHECK(error_of([&] { pair.output(1); }).starts_with("anomaly: pair: forward computed"));
}

TEST_CASE("DetectAnomaly: a non-finite input is reported as a variable or a constant") {
  const DetectAnomaly guard;
  const Var w = variable(reals({2, 2}, {1, 2, nan, 4})), x = variable(ones({3, 2}, DType::f64));
  CHECK_ERROR(
      "anomaly: matmul: forward got a non-finite value: variable (2, 2), element (1, 0) "
      "is nan",
      matmul(x, w));
  CHECK_ERROR("anomaly: add: forward got a non-finite value: constant (2), element (1) is nan",
              x + Var(reals({2}, {0, nan})));
  const Var grown = variable(reals({2}, {1, infinity}));
  CHECK_ERROR(
      "anomaly: multiply: forward got a non-finite value: variable (2), element (1) is "
      "inf",
      x * grown);
}

TEST_CASE("DetectAnomaly: infinities of a mask are allowed, NaN computed from them is not") {
  const DetectAnomaly guard;
  const Var scores = variable(randn({3, 2}, DType::f64));
  const Var mask(reals({3, 1}, {0, -infinity, 0}));
  const Gradients gradients = backward(sum(square(softmax((scores + mask) * 2.0, 0))));
  CHECK(gradients[scores].size() == 6);
  CHECK_ERROR(
      "anomaly: subtract: forward computed a non-finite value: (3, 1), element (1, 0) is "
      "nan, from inputs (3, 1), (3, 1)",
      mask - mask);
}

TEST_CASE("DetectAnomaly: the operation whose pullback computed the first infinity is named") {
  const Var x = variable(reals({3}, {4, 0, 9}));
  const auto f = [&] { return backward(sum(3.0 * sqrt(x) * 2.0)); };
  CHECK(f()[x].to_vector<double>()[1] == infinity);
  const DetectAnomaly guard;
  CHECK(error_of(f) ==
        "anomaly: sqrt: backward computed a non-finite gradient: (3), element (1) is inf");
}

TEST_CASE("DetectAnomaly: checks deferred products") {
  const DetectAnomaly guard;
  for (const Index rows : {1, 300}) {
    for (const int uses : {1, 3}) {
      const Var w = variable(full({2, 2}, 1e-300, DType::f64));
      Var y = full({rows, 2}, 0, DType::f64);
      for (int i = 0; i < uses; ++i) y = y + matmul(full({rows, 2}, 1e200, DType::f64), w);
      CHECK_ERROR(
          "anomaly: matmul: backward computed a non-finite gradient: (2, 2), element (0, 0) "
          "is inf",
          return backward(sum(y * 1e200)));
    }
  }
}

TEST_CASE("DetectAnomaly: a given gradient must be finite") {
  const DetectAnomaly guard;
  const Var x = variable(ones({2}, DType::f64));
  CHECK_ERROR("anomaly: backward got a non-finite gradient dy: (2), element (1) is nan",
              return backward(x * 2.0, reals({2}, {1, nan})));
}

TEST_CASE("DetectAnomaly: results do not change, bit for bit") {
  const Function f = [](const std::vector<Var>& v) {
    const Var h = recurrent(matmul(v[0], v[1]), v[2], {.cell = Cell::lstm}).h;
    return log_softmax(matmul(h, v[2]) / 3.0 + v[3], -1);
  };
  const std::vector<Tensor> inputs = {randn({4, 2, 3}, DType::f64), randn({3, 20}, DType::f64, 2),
                                      randn({5, 20}, DType::f64, 3), randn({20}, DType::f64, 4)};
  const std::vector<Tensor> expected = value_and_gradients(f, inputs);
  const DetectAnomaly guard;
  const std::vector<Tensor> found = value_and_gradients(f, inputs);
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(identical(found[i], expected[i]));
}

TEST_CASE("DetectAnomaly: checks end with the last guard") {
  const Var zero = variable(zeros({1}));
  {
    const DetectAnomaly outer;
    { const DetectAnomaly inner; }
    CHECK_THROWS_AS(log(zero), Error);
  }
  CHECK(log(zero).item() == -infinity);
}

TEST_CASE("DetectAnomaly: ATTUNE_DETECT_ANOMALY is 0 or 1; another value is an error") {
  for (const char* value : {"", "0", "1", "yes"}) {
    CAPTURE(value);
    const test::ProcessResult child =
        test::run_test_case("DetectAnomaly: the child of another test",
                            {.environment = {{"ATTUNE_DETECT_ANOMALY", value}}});
    CHECK(child.status == 0);
    CHECK(child.out.find("1 passed") != child.out.npos);
  }
}

TEST_CASE("DetectAnomaly: the child of another test" * doctest::skip()) {
  const std::string wanted = std::getenv("ATTUNE_DETECT_ANOMALY");
  const auto f = [] { log(Var(zeros({1}))); };
  if (wanted == "yes") {
    const char* message = "ATTUNE_DETECT_ANOMALY: 'yes' is neither 0 nor 1";
    CHECK(error_of(f) == message);
    CHECK(error_of(f) == message);
    CHECK_ERROR(message, const DetectAnomaly guard);
  } else if (wanted == "1") {
    { const DetectAnomaly guard; }
    CHECK(error_of(f).starts_with("anomaly: log"));
  } else {
    CHECK_NOTHROW(f());
    const DetectAnomaly guard;
    CHECK_THROWS_AS(f(), Error);
  }
}

}  // namespace attune
