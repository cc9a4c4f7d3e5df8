#include <doctest/doctest.h>

#include <attune/nn/bidirectional.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/nn/stacked.hpp>
#include <attune/tensor/check.hpp>

#include "nn/recurrent_checks.hpp"

namespace {

using namespace attune;
using nn::Cell, nn::CellNorm;
using test::difference;
using test::kBatch, test::kHidden, test::kIn, test::kLengths, test::kSteps;

constexpr Cell kCells[] = {Cell::lstm, Cell::gru, Cell::gru_reset_before};

nn::RecurrentOptions normalized(Cell cell) { return {.cell = cell, .norm = CellNorm::layer}; }

/// check(make_layer, has_c) for every cell.
template <class Check>
void for_every_cell(Check check) {
  for (const Cell cell : kCells) {
    INFO(std::string(nn::name_of(cell)));
    const auto make = [cell](const nn::Scope& scope, Index in, Index hidden) {
      return nn::Recurrent(scope, in, hidden, normalized(cell));
    };
    check(make, cell == Cell::lstm);
  }
}

TEST_CASE("CellNorm: gradients agree with differences over ragged sentences") {
  for_every_cell([](auto make, bool has_c) { test::check_gradients(make, has_c, 1, 1e-4); });
}

TEST_CASE("CellNorm: gradients agree with differences at ten times the initial values") {
  for_every_cell([](auto make, bool has_c) { test::check_gradients(make, has_c, 10, 1e-4); });
}

TEST_CASE("CellNorm: a padded batch gives what its sentences give one by one") {
  for_every_cell([](auto make, bool has_c) { test::check_padding(make, has_c); });
}

TEST_CASE("CellNorm: step by step is the whole sequence") {
  for_every_cell([](auto make, bool has_c) { test::check_steps(make, has_c); });
}

TEST_CASE("CellNorm: values and gradients are PyTorch's, in both directions") {
  const Golden golden("layer_norm_cells");
  for (const Cell cell : kCells) {
    const std::string name = nn::name_of(cell);
    INFO(name);
    const auto make = [cell](const nn::Scope& scope, Index in, Index hidden) {
      return nn::Recurrent(scope, in, hidden, normalized(cell));
    };
    test::check_golden(golden.at(name + "/"), make, Direction::forward);
    test::check_golden(golden.at(name + "_reverse/"), make, Direction::backward);
  }
}

TEST_CASE("CellNorm: what is larger or shifted in the input's share gives the same states") {
  for (const Cell cell : kCells) {
    nn::Parameters params(3, DType::f64);
    const nn::Recurrent layer(params, kIn, kHidden, normalized(cell));
    const Tensor x = randn({kSteps, kBatch, kIn}, DType::f64, 4) * 100.0;  // ε counts for little
    const Tensor h = layer(x).h.value();
    Tensor w = params["W_x"].value();
    scale_in_place(w, 7);
    add_in_place(w, full(w.shape(), 0.5, DType::f64));  // the same in every column
    CHECK(difference(layer(x).h.value(), h) < 1e-4);
  }
}

TEST_CASE("CellNorm: gradients through layers one above another and both directions of each") {
  for (const Cell cell : kCells) {
    INFO(std::string(nn::name_of(cell)));
    nn::Parameters params(11, DType::f64);
    const nn::Stacked<nn::Recurrent> stacked(params, kIn, kHidden, {.layers = 2}, normalized(cell));
    const nn::Bidirectional<nn::Recurrent> both(params, kHidden, 4, normalized(cell));
    const Tensor x = randn({kSteps, kBatch, kIn}, DType::f64, 4),
                 mask = test::ragged_mask(kSteps, kLengths);
    CHECK(gradcheck(params, [&] { return both(stacked(x, {.mask = mask}).h, {.mask = mask}).h; },
                    {.step = 5e-5}));
  }
}

TEST_CASE("CellNorm: gains begin at 1, and there are none without it") {
  nn::Parameters params;
  const nn::Scope scope(params);
  const nn::Lstm lstm(scope / "lstm", 3, 2, {.norm = CellNorm::layer});
  const nn::Gru gru(scope / "gru", 3, 2, {.norm = CellNorm::layer});
  const nn::Lstm plain(scope / "plain", 3, 2);
  for (const char* name : {"lstm.gain_x", "lstm.gain_h"})
    CHECK(test::identical(params[name].value(), ones({8})));
  for (const char* name : {"gru.gain_x", "gru.gain_h"})
    CHECK(test::identical(params[name].value(), ones({6})));
  CHECK(test::identical(params["lstm.gain_c"].value(), ones({2})));
  CHECK(test::identical(params["lstm.bias_c"].value(), zeros({2})));
  CHECK(params.all().size() == 7 + 6 + 3);
}

TEST_CASE("CellNorm: states and masks that do not fit are errors") {
  nn::Parameters params;
  const nn::Scope scope(params);
  const nn::Lstm lstm(scope / "lstm", 4, 3, {.norm = CellNorm::layer});
  const nn::Gru gru(scope / "gru", 4, 3, {.norm = CellNorm::layer});
  const Tensor x = zeros({5, 2, 4});
  CHECK_THROWS_WITH_AS(lstm(x, {.mask = ones({5, 3})}),
                       "lstm: mask (T, B) is (5, 3), but B = 2 in xw, in lstm", Error);
  CHECK_THROWS_WITH_AS(lstm(x, {.initial = {{}, zeros({2, 4})}}),
                       "lstm: c0 (B, H) is (2, 4), but H = 3 in w_h, in lstm", Error);
  CHECK_THROWS_WITH_AS(gru(x, {.initial = {zeros({2, 4}), {}}}),
                       "gru: h0 (B, H) is (2, 4), but H = 3 in w_h, in gru", Error);
  CHECK_THROWS_WITH_AS(gru(zeros({0, 2, 4})), "gru: the sequence has no steps, in gru", Error);
}

}  // namespace
