#include <limits>

#include <doctest/doctest.h>

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/reduce.hpp>

#include "support/naive.hpp"

namespace attune {

TEST_CASE("first_not_finite: the first element in row-major order, with its place") {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = reals({2, 3}, {1, 2, 3, 4, -infinity, nan}).to(dtype);
    CHECK(first_not_finite(x) == "(2, 3), element (1, 1) is -inf");
    CHECK(first_not_finite(x[1].slice(2, 3)) == "(1), element (0) is nan");
    CHECK(first_not_finite(-x[1].slice(2, 3)) == "(1), element (0) is nan");
    CHECK(first_not_finite(x[1].slice(2, 3).reshape({})) == "(), element () is nan");
    CHECK(first_not_finite(x[0]) == "");
    Tensor large = zeros({100'003}, dtype);
    Tensor last = large.slice(100'002, 100'003);
    fill(last, infinity);
    CHECK(first_not_finite(large) == "(100003), element (100002) is inf");
  }
}

TEST_CASE("first_not_finite: numbers may be as large as there are") {
  CHECK(first_not_finite(full({3}, std::numeric_limits<float>::max())) == "");
  CHECK(first_not_finite(full({3}, std::numeric_limits<double>::max(), DType::f64)) == "");
}

TEST_CASE("first_not_finite: no elements, whole numbers and no tensor have none") {
  CHECK(first_not_finite(zeros({0, 3})) == "");
  CHECK(first_not_finite(ints({2}, {1, 2})) == "");
  CHECK(first_not_finite(Tensor()) == "");
}

}  // namespace attune
