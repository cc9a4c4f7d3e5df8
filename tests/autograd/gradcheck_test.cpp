#include <limits>
#include <regex>
#include <sstream>
#include <tuple>

#include <doctest/doctest.h>

#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/record.hpp>

#include "support/naive.hpp"

namespace attune {
namespace {

/// x², with its gradient multiplied by `factor`.
Var square(const Var& x, double factor) {
  return record("square", x.value() * x.value()).wrt(x, [x = x.value(), factor](const Tensor& dy) {
    return dy * x * (2 * factor);
  });
}

}  // namespace

TEST_CASE("gradcheck: accepts function names and function objects") {
  CHECK(gradcheck(sigmoid, randn({3, 4}, DType::f64)));
  CHECK(gradcheck(tanh, randn({3, 4}, DType::f64)));
  CHECK(gradcheck([](const Var& x) { return x * x; }, randn({3, 4}, DType::f64)));
  CHECK(gradcheck([](const std::vector<Var>& v) { return v[0] * v[1]; },
                  {randn({3, 4}, DType::f64), randn({4}, DType::f64, 2)}));
}

TEST_CASE("gradcheck: a wrong pullback fails, and the message has both values") {
  const Tensor x = reals({2, 3}, {3, 1, 1, 1, 1, 1});
  const GradcheckResult result = gradcheck([](const Var& v) { return square(v, -0.5); }, x);
  CHECK_FALSE(result);
  std::smatch found;
  REQUIRE_MESSAGE(std::regex_match(result.message, found,
                                   std::regex(R"(gradcheck: input 0 \(2, 3\), element \(0, 0\): )"
                                              R"(backward gave (\S+), central difference (\S+))")),
                  result.message);
  CHECK(std::stod(found[2]) == doctest::Approx(-2 * std::stod(found[1])).epsilon(1e-5));
  std::ostringstream out;
  out << result;
  CHECK(out.str() == result.message);
}

TEST_CASE("gradcheck: a kink near the point is distinguished from a wrong gradient") {
  const Tensor near = reals({2}, {3, 1e-4}), far = reals({2}, {3, 1});
  const GradcheckResult kink = gradcheck(relu, near);
  CHECK_FALSE(kink);
  CHECK(kink.rough);
  const GradcheckResult wrong = gradcheck([](const Var& v) { return square(v, 0.999); }, far);
  CHECK_FALSE(wrong);
  CHECK_FALSE(wrong.rough);
}

TEST_CASE("gradcheck: rounding errors of the difference are tolerated") {
  // The values are 1e8 times the gradient: differences lose about eight digits.
  const auto f = [](const Var& x) { return x * 1e-4 + Var(reals({1}, {1e4})); };
  CHECK(gradcheck(f, reals({1}, {1})));
  const auto wrong = [&](const Var& x) { return square(x, 1.01) * 1e-4 + Var(reals({1}, {1e4})); };
  CHECK_FALSE(gradcheck(wrong, reals({1}, {1})));
}

TEST_CASE("gradcheck: a non-finite gradient fails, and the element is named") {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    const auto f = [bad](const Var& x) {
      return record("faulty", x.value() * 2.0).wrt(x, [bad](const Tensor& dy) {
        Tensor wrong = dy * 3.0;
        wrong.mutable_data<double>()[2] = bad;
        return wrong;
      });
    };
    const GradcheckResult result = gradcheck(f, randn({4}, DType::f64));
    CHECK(result.message.starts_with("gradcheck: input 0 (4), element (2): backward gave "));
  }
}

TEST_CASE("gradcheck: the first wrong element of the wrong input is named") {
  const auto f = [](const std::vector<Var>& v) {
    return record("faulty", v[0].value() + v[1].value())
        .wrt(v[0], [](const Tensor& dy) { return dy; })
        .wrt(v[1], [](const Tensor& dy) {
          Tensor wrong = dy.clone();
          wrong.mutable_data<double>()[4] *= 1.001;
          return wrong;
        });
  };
  const GradcheckResult result =
      gradcheck(f, {randn({2, 3}, DType::f64), randn({2, 3}, DType::f64, 2)});
  CHECK(result.message.starts_with("gradcheck: input 1 (2, 3), element (1, 1): backward gave "));
}

TEST_CASE("gradcheck: a relative error of 1e-4 is found, rounding is not") {
  CHECK_FALSE(gradcheck([](const Var& v) { return square(v, 1.0001); }, randn({2, 3}, DType::f64)));
  CHECK(gradcheck([](const Var& v) { return square(v, 1); }, randn({2, 3}, DType::f64)));
  CHECK(gradcheck([](const Var& v) { return square(v, 1.0001); }, randn({2, 3}, DType::f64),
                  {.tolerance = 1e-3}));
}

TEST_CASE("gradcheck: a gradient that exchanges two elements is found") {
  const auto f = [](const Var& x) {
    return record("exchanged", x.value().clone()).wrt(x, [](const Tensor& dy) {
      return reals({2}, {dy.to_vector<double>()[1], dy.to_vector<double>()[0]});
    });
  };
  CHECK_FALSE(gradcheck(f, randn({2}, DType::f64)));
}

TEST_CASE("gradcheck: a gradient that is zero everywhere fails unless allow_zero is set") {
  const auto f = [](const std::vector<Var>& v) { return v[0] + v[1] * 0.0; };
  const GradcheckResult result = gradcheck(f, {randn({2}, DType::f64), randn({2}, DType::f64, 2)});
  CHECK(result.message ==
        "gradcheck: input 1 (2): the gradient is zero everywhere; .allow_zero permits it");
  CHECK(gradcheck(f, {randn({2}, DType::f64), randn({2}, DType::f64, 2)}, {.allow_zero = true}));
}

TEST_CASE("gradcheck: a missing pullback fails") {
  const auto f = [](const std::vector<Var>& v) {
    return record("half", v[0].value() * v[1].value())
        .wrt(v[0], [b = v[1].value()](const Tensor& dy) { return dy * b; });
  };
  CHECK(gradcheck(f, {randn({2}, DType::f64), randn({2}, DType::f64, 2)})
            .message.starts_with("gradcheck: input 1 (2), element (0): backward gave 0, "));
}

TEST_CASE("gradcheck: a function whose result varies, has no history or is NaN fails") {
  double drift = 0;
  const auto varies = [&](const Var& x) { return x * (drift += 0.1); };
  const std::string differ =
      "gradcheck: two calls of the function differ, or a value is not finite";
  CHECK(gradcheck(varies, randn({2}, DType::f64)).message == differ);
  const auto constant = [](const Var& x) { return Var(x.value() * 2.0); };
  CHECK(gradcheck(constant, randn({2}, DType::f64)).message ==
        "gradcheck: the result depends on no variable");
  const auto is_nan = [](const Var& x) { return log(x - 100.0); };
  CHECK(gradcheck(is_nan, randn({2}, DType::f64)).message == differ);
}

TEST_CASE("gradcheck: f32 is refused") {
  CHECK_ERROR("gradcheck: input 0 is f32, but must be f64",
              std::ignore = gradcheck(sigmoid, randn({2})));
}

TEST_CASE("gradcheck: a result may be a view of its input") {
  CHECK(gradcheck([](const Var& x) { return reshape(x, {3, 2}); }, randn({2, 3}, DType::f64)));
  CHECK(gradcheck([](const Var& x) { return x[1]; }, randn({2, 3}, DType::f64)));
  CHECK(gradcheck([](const Var& x) { return slice(x, 0, 1, 3); }, randn({4, 3}, DType::f64)));
  CHECK(gradcheck([](const Var& x) { return x; }, randn({2, 3}, DType::f64)));
}

TEST_CASE("gradcheck: variables are restored, and may have names") {
  const Tensor before = randn({2, 3}, DType::f64, 4);
  const std::vector<NamedVariable> named{{"W_a", variable(before.clone())}};
  CHECK(gradcheck(named, [&] { return tanh(named[0].variable); }));
  CHECK(identical(named[0].variable.value(), before));
  CHECK(gradcheck(named, [&] {
          return square(named[0].variable, 2);
        }).message.starts_with("gradcheck: W_a (2, 3), element (0, 0): "));
}

}  // namespace attune
