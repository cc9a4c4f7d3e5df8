#include <doctest/doctest.h>

#include <attune/nn/recurrent.hpp>
#include <attune/tensor/check.hpp>

#include "nn/recurrent_checks.hpp"

namespace {

using namespace attune;
using test::difference;
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

/// A Recurrent and the layer it stands for: the same names, initial values and results, to the bit.
template <class MakeLayer>
void check_same(nn::Cell cell, MakeLayer make_layer) {
  nn::Parameters chosen(3, DType::f64), plain(3, DType::f64);
  const nn::Recurrent recurrent(chosen, 4, 2, {.cell = cell});
  const auto layer = make_layer(nn::Scope(plain));
  REQUIRE(chosen.all().size() == plain.all().size());
  for (const auto& [name, w] : plain) CHECK(identical(chosen[name].value(), w.value()));

  const Tensor x = randn({5, 3, 4}, DType::f64, 8), mask = test::ragged_mask(5, {5, 2, 4});
  CHECK(identical(recurrent.input(x).value(), layer.input(x).value()));
  CHECK(recurrent.gates() == layer.gates());
  const auto [h, last] = recurrent(x, {.mask = mask, .direction = Direction::backward});
  const auto [h_plain, last_plain] = layer(x, {.mask = mask, .direction = Direction::backward});
  CHECK(identical(h.value(), h_plain.value()));
  CHECK(identical(last.h.value(), last_plain.h.value()));
  CHECK(last.c.defined() == (cell == nn::Cell::lstm));
  const nn::RecurrentState next = recurrent.step(recurrent.input(x[0]), last);
  CHECK(identical(next.h.value(), layer.step(layer.input(x[0]), last_plain).h.value()));
}

TEST_CASE("Recurrent: each cell is its layer") {
  check_same(nn::Cell::lstm, [](const nn::Scope& scope) { return nn::Lstm(scope, 4, 2); });
  check_same(nn::Cell::gru, [](const nn::Scope& scope) { return nn::Gru(scope, 4, 2); });
  check_same(nn::Cell::gru_reset_before, [](const nn::Scope& scope) {
    return nn::Gru(scope, 4, 2, {.form = GruForm::reset_before});
  });
}

TEST_CASE("Recurrent: without options it is a GRU") {
  nn::Parameters params;
  CHECK(nn::Recurrent(params, 4, 2, {}).gates() == 3);
}

TEST_CASE("Recurrent: gradients agree with differences for every cell") {
  for (const nn::Cell cell : {nn::Cell::lstm, nn::Cell::gru, nn::Cell::gru_reset_before}) {
    INFO(nn::name_of(cell));
    const auto make = [cell](const nn::Scope& scope, Index in, Index hidden) {
      return nn::Recurrent(scope, in, hidden, {.cell = cell});
    };
    test::check_gradients(make, cell == nn::Cell::lstm, 1);
  }
}

}  // namespace
