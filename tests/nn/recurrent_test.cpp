#include <doctest/doctest.h>

#include <attune/nn/recurrent.hpp>
#include <attune/tensor/check.hpp>

#include "nn/recurrent_checks.hpp"

namespace {

using namespace attune;
using test::identical;

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
