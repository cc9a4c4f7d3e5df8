#include <doctest/doctest.h>

#include <attune/nn/gru.hpp>
#include <attune/tensor/check.hpp>

#include "nn/recurrent_checks.hpp"

namespace {

using namespace attune;
using test::difference;

const auto reset_after = [](const nn::Scope& scope, Index in, Index hidden) {
  return nn::Gru(scope, in, hidden);
};
const auto reset_before = [](const nn::Scope& scope, Index in, Index hidden) {
  return nn::Gru(scope, in, hidden, {.form = GruForm::reset_before});
};

TEST_CASE("Gru: gradients agree with differences, in both forms") {
  test::check_gradients(reset_after, false, 1);
  test::check_gradients(reset_before, false, 1);
}

TEST_CASE("Gru: gradients agree with differences at ten times the initial values") {
  test::check_gradients(reset_after, false, 10);
  test::check_gradients(reset_before, false, 10);
}

TEST_CASE("Gru: a padded batch gives what its sentences give one by one") {
  test::check_padding(reset_after, false);
  test::check_padding(reset_before, false);
}

TEST_CASE("Gru: step by step is the whole sequence") {
  test::check_steps(reset_after, false);
  test::check_steps(reset_before, false);
}

TEST_CASE("Gru: values and gradients are PyTorch's") {
  test::check_golden(Golden("gru"), reset_after, Direction::forward);
}

TEST_CASE("Gru: values and gradients read backward are PyTorch's") {
  test::check_golden(Golden("gru_reverse"), reset_after, Direction::backward);
}

TEST_CASE("Gru: values and gradients with the reset before the product are PyTorch's") {
  test::check_golden(Golden("gru_reset_before"), reset_before, Direction::forward);
}

TEST_CASE("Gru: the default form resets after the product") {
  nn::Parameters params;
  const nn::Gru gru(nn::Scope(params) / "gru", 4, 3);
  CHECK(params["gru.W_x"].shape() == Shape{4, 9});
  CHECK(params["gru.W_h"].shape() == Shape{3, 9});
  CHECK(params["gru.b"].shape() == Shape{9});
  CHECK(params["gru.b_hn"].shape() == Shape{3});
}

TEST_CASE("Gru: the form that resets before the product has no b_hn") {
  nn::Parameters params;
  const nn::Gru gru(nn::Scope(params) / "gru", 4, 3, {.form = GruForm::reset_before});
  CHECK(params.all().size() == 3);
  CHECK_FALSE(params.contains("gru.b_hn"));
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

/// One step of Cho et al. (2014), equations 5 to 8, for a single sentence, from the weights of a
/// Gru that resets before the product:  h_j = z_j h_j + (1 - z_j) h̃_j  there, and here with z
/// turned.
std::vector<double> step_of_the_papers(const nn::Parameters& params, const std::vector<double>& x,
                                       const std::vector<double>& h) {
  const std::size_t in = x.size(), n = h.size();
  const auto W_x = params["W_x"].value().to_vector<double>();
  const auto W_h = params["W_h"].value().to_vector<double>();
  const auto b = params["b"].value().to_vector<double>();
  const auto gate = [&](std::size_t column, const std::vector<double>& state) {
    double a = b[column];
    for (std::size_t i = 0; i < in; ++i) a += x[i] * W_x[i * 3 * n + column];
    for (std::size_t i = 0; i < n; ++i) a += state[i] * W_h[i * 3 * n + column];
    return a;
  };
  std::vector<double> rh(n), next(n);
  for (std::size_t j = 0; j < n; ++j) rh[j] = sigmoid_of(gate(j, h)) * h[j];
  for (std::size_t j = 0; j < n; ++j) {
    const double z = sigmoid_of(-gate(n + j, h));  // the sign of z's weights turned
    next[j] = (1 - z) * h[j] + z * std::tanh(gate(2 * n + j, rh));
  }
  return next;
}

TEST_CASE("Gru: Bahdanau's equations are the same with the sign of z's weights turned") {
  nn::Parameters params(4, DType::f64);
  const nn::Gru gru(params, 4, 3, {.form = GruForm::reset_before});
  test::set(params, "b", randn({9}, DType::f64, 6));
  const Tensor x = randn({5, 1, 4}, DType::f64, 7);
  const Tensor h = gru(x).h.value();
  std::vector<double> state(3, 0.0);
  for (Index t = 0; t < 5; ++t) {
    state = step_of_the_papers(params, x[t].to_vector<double>(), state);
    CHECK(difference(h[t], Tensor::of({1, 3}, std::span<const double>(state))) < 1e-13);
  }
}

TEST_CASE("Gru: a mask of another shape is an error") {
  nn::Parameters params;
  const nn::Gru gru(params, 4, 3);
  CHECK_THROWS_WITH_AS(gru(zeros({5, 2, 4}), {.mask = ones({4, 2})}),
                       "gru: mask (T, B) is (4, 2), but T = 5 in xw", Error);
}

}  // namespace
