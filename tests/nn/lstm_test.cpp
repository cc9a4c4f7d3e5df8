#include <doctest/doctest.h>

#include <attune/nn/lstm.hpp>
#include <attune/tensor/check.hpp>

#include "nn/recurrent_checks.hpp"

namespace {

using namespace attune;
using test::identical;

const auto make_lstm = [](const nn::Scope& scope, Index in, Index hidden) {
  return nn::Lstm(scope, in, hidden);
};

TEST_CASE("Lstm: gradients agree with differences") { test::check_gradients(make_lstm, true, 1); }

TEST_CASE("Lstm: gradients agree with differences at ten times the initial values") {
  test::check_gradients(make_lstm, true, 10);
}

TEST_CASE("Lstm: a padded batch gives what its sentences give one by one") {
  test::check_padding(make_lstm, true);
}

TEST_CASE("Lstm: step by step is the whole sequence") { test::check_steps(make_lstm, true); }

TEST_CASE("Lstm: values and gradients are PyTorch's") {
  test::check_golden(Golden("lstm"), make_lstm, Direction::forward);
}

TEST_CASE("Lstm: values and gradients read backward are PyTorch's") {
  test::check_golden(Golden("lstm_reverse"), make_lstm, Direction::backward);
}

TEST_CASE("Lstm: padding does not change the last state") {
  nn::Parameters params(2, DType::f64);
  const nn::Lstm lstm(params, 4, 3);
  const Tensor words = randn({2, 1, 4}, DType::f64, 5);
  const Tensor padding[] = {words, full({3, 1, 4}, 9, DType::f64)};
  const auto last = [&](const Tensor& x, const Tensor& mask) {
    return lstm(x, {.mask = mask}).last;
  };
  const nn::RecurrentState plain = last(words, {});
  const nn::RecurrentState padded = last(concat(padding, 0), test::ragged_mask(5, {2}));
  CHECK(identical(padded.h.value(), plain.h.value()));
  CHECK(identical(padded.c.value(), plain.c.value()));
}

TEST_CASE("Lstm: the forget gate's bias begins at 1, the others at 0") {
  nn::Parameters params(1, DType::f64);
  const nn::Lstm usual(nn::Scope(params) / "usual", 4, 2);
  const nn::Lstm other(nn::Scope(params) / "other", 4, 2, {.forget_bias = -0.5});
  CHECK(identical(params["usual.b"].value(), Tensor::of({8}, {0., 0., 1., 1., 0., 0., 0., 0.})));
  CHECK(identical(params["other.b"].value(), Tensor::of({8}, {0., 0., -.5, -.5, 0., 0., 0., 0.})));
}

TEST_CASE("Lstm: parameters have the shapes of the four gates") {
  nn::Parameters params;
  const nn::Lstm lstm(nn::Scope(params) / "encoder", 4, 3);
  CHECK(params["encoder.W_x"].shape() == Shape{4, 12});
  CHECK(params["encoder.W_h"].shape() == Shape{3, 12});
  CHECK(params["encoder.b"].shape() == Shape{12});
  CHECK(params.all().size() == 3);
}

TEST_CASE("Lstm: a mask or state of another shape is an error") {
  nn::Parameters params;
  const nn::Lstm lstm(params, 4, 3);
  const Tensor x = zeros({5, 2, 4});
  CHECK_THROWS_WITH_AS(lstm(x, {.mask = ones({5, 3})}),
                       "lstm: mask (T, B) is (5, 3), but B = 2 in xw", Error);
  CHECK_THROWS_WITH_AS(lstm(x, {.initial = {zeros({2, 4}), {}}}),
                       "lstm: h0 (B, H) is (2, 4), but H = 3 in w_h", Error);
  CHECK_THROWS_AS(lstm(zeros({5, 2, 3})), Error);
}

}  // namespace
