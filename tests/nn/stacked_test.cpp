#include <doctest/doctest.h>

#include <attune/nn/recurrent.hpp>

#include "nn/tools.hpp"

namespace {

using namespace attune;

constexpr Index kSteps = 5, kBatch = 3, kIn = 4, kHidden = 6;
const std::vector<Index> kLengths = {5, 1, 3};

TEST_CASE("Bidirectional: final states are those of the last and of the first token") {
  nn::Parameters params(2, DType::f64);
  const nn::Bidirectional<nn::Recurrent> layer(params, 4, 3, {.cell = nn::Cell::lstm});
  const std::vector<Index> lengths = {2, 5};
  const auto [h, last_states] =
      layer(randn({5, 2, 4}, DType::f64), {.mask = test::ragged_mask(5, lengths)});
  const auto& [forward, backward_] = last_states;
  REQUIRE(h.shape() == Shape{5, 2, 6});
  for (Index b = 0; b < 2; ++b) {
    const Index last = lengths[static_cast<std::size_t>(b)] - 1;
    CHECK(identical(h.value()[last][b].slice(0, 3), forward.h.value()[b]));
    CHECK(identical(h.value()[0][b].slice(3, 6), backward_.h.value()[b]));
  }
}

TEST_CASE("Bidirectional: the directions have parameters and initial values of their own") {
  nn::Parameters params;
  const nn::Bidirectional<nn::Gru> layer(params / "encoder", 4, 3,
                                         {.cell = nn::Cell::gru_reset_before});
  CHECK(params.all().size() == 6);
  CHECK_FALSE(params.contains("encoder.forward.b_hn"));
  CHECK(difference(params["encoder.forward.W_x"].value(), params["encoder.backward.W_x"].value()) >
        0.1);
}

/// A running sum of its inputs.
class RunningSum {
 public:
  struct Options {};
  using State = nn::RecurrentState;

  RunningSum(const nn::Scope&, Index, Index, const Options&) {}
  Index size() const { return 1; }
  nn::RecurrentOutput<> operator()(const Var& x, const nn::RunOptions<>& options) const {
    const Index steps = x.dim(0);
    std::vector<Var> rows(static_cast<std::size_t>(steps));
    Var total;
    for (Index i = 0; i < steps; ++i) {
      const Index t = options.direction == Direction::forward ? i : steps - 1 - i;
      total = i == 0 ? x[t] : total + x[t];
      rows[static_cast<std::size_t>(t)] = total;
    }
    return {stack(rows), {total, {}}};
  }
};

TEST_CASE("Bidirectional: takes a custom layer") {
  nn::Parameters params;
  const nn::Bidirectional<RunningSum> layer(params, 1, 1);
  const auto [h, last] = layer(Tensor::of({3, 1, 1}, {1., 10., 100.}));
  CHECK(identical(h.value(), Tensor::of({3, 1, 2}, {1., 111., 11., 110., 111., 100.})));
}

constexpr nn::Cell kCells[] = {nn::Cell::lstm, nn::Cell::gru, nn::Cell::gru_reset_before};

using Stack = nn::Stacked<nn::Recurrent>;

/// The layers of a stack, applied one by one by its equations.
Stack::Output by_hand(nn::Cell cell, const nn::StackedOptions& o, const Var& x,
                      const nn::RunOptions<Stack::State>& options) {
  nn::Parameters params(3, DType::f64);
  const nn::Dropout dropout(o.dropout);
  Stack::Output y;
  for (Index l = 1; l <= o.layers; ++l) {
    const nn::Recurrent layer(params / ("layer" + std::to_string(l)), kHidden, kHidden,
                              {.cell = cell});
    const auto [h, last] = layer(l == 1 ? x : dropout(y.h),
                                 {.mask = options.mask,
                                  .initial = options.initial[static_cast<std::size_t>(l - 1)],
                                  .direction = options.direction});
    y.h = h;
    y.last.push_back(last);
  }
  return y;
}

TEST_CASE("Stacked: equals its layers one by one bit for bit; dropout only in training") {
  const Tensor x = randn({kSteps, kBatch, kHidden}, DType::f64, 4);
  for (const nn::Cell cell : kCells) {
    for (const nn::StackedOptions& o : {nn::StackedOptions{.layers = 1},
                                        {.layers = 3},
                                        {.dropout = 0.5},
                                        {.layers = 3, .dropout = 0.5}}) {
      nn::Parameters params(3, DType::f64);
      const Stack stacked(params, kHidden, kHidden, o, {.cell = cell});
      nn::RunOptions<Stack::State> options{.mask = test::ragged_mask(kSteps, kLengths)};
      for (Index l = 0; l < o.layers; ++l) {
        const Tensor h = randn({kBatch, kHidden}, DType::f64, static_cast<std::uint64_t>(l + 5));
        options.initial.push_back({h, cell == nn::Cell::lstm ? Var(h * 0.5) : Var()});
      }
      for (const bool trains : {false, true}) {
        INFO(nn::name_of(cell), o.layers, o.dropout, trains);
        const auto run = [&](auto layer) {
          if (!trains) return layer();
          Random random(6);
          const nn::Training training(random);
          return layer();
        };
        options.direction = trains ? Direction::forward : Direction::backward;
        const auto [h, last] = run([&] { return stacked(x, options); });
        const auto expected = run([&] { return by_hand(cell, o, x, options); });
        CHECK(identical(h.value(), expected.h.value()));
        REQUIRE(last.size() == expected.last.size());
        for (std::size_t l = 0; l < last.size(); ++l) {
          CHECK(identical(last[l].h.value(), expected.last[l].h.value()));
          CHECK(last[l].c.defined() == (cell == nn::Cell::lstm));
          if (last[l].c.defined()) CHECK(identical(last[l].c.value(), expected.last[l].c.value()));
        }
      }
    }
  }
}

TEST_CASE("Stacked: parameters are named by layer, and have different initial values") {
  nn::Parameters params;
  const nn::Stacked<nn::Lstm> stacked(params / "decoder", 3, 3, {.layers = 2});
  std::vector<std::string> names;
  for (const auto& [name, w] : params) names.push_back(name);
  CHECK(names == std::vector<std::string>{"decoder.layer1.W_x", "decoder.layer1.W_h",
                                          "decoder.layer1.b", "decoder.layer2.W_x",
                                          "decoder.layer2.W_h", "decoder.layer2.b"});
  CHECK(difference(params["decoder.layer1.W_x"].value(), params["decoder.layer2.W_x"].value()) >
        0.1);
}

TEST_CASE("Stacked: options of the layer go to every layer") {
  nn::Parameters params;
  const nn::Stacked<nn::Gru> stacked(params, 4, 3, {.layers = 2},
                                     {.cell = nn::Cell::gru_reset_before});
  CHECK_FALSE(params.contains("layer1.b_hn"));
  CHECK_FALSE(params.contains("layer2.b_hn"));
}

TEST_CASE("Stacked: a bidirectional layer reads both directions of the layer below") {
  nn::Parameters params(3, DType::f64), plain(3, DType::f64);
  const nn::Stacked<nn::Bidirectional<nn::Lstm>> stacked(params, kIn, kHidden, {.layers = 2},
                                                         {.forget_bias = 0.5});
  const nn::Bidirectional<nn::Lstm> first(plain / "layer1", kIn, kHidden, {.forget_bias = 0.5});
  const nn::Bidirectional<nn::Lstm> second(plain / "layer2", 2 * kHidden, kHidden,
                                           {.forget_bias = 0.5});
  CHECK(stacked.size() == 2 * kHidden);
  const Tensor x = randn({kSteps, kBatch, kIn}, DType::f64, 4),
               mask = test::ragged_mask(kSteps, kLengths);
  const nn::BidirectionalState<> none;
  const nn::BidirectionalState<> initial{.forward = {.h = randn({kBatch, kHidden}, DType::f64, 5)},
                                         .backward = {}};
  const auto [h, last] = stacked(x, {.mask = mask, .initial = {none, initial}});
  const auto expected = second(first(x, {.mask = mask}).h, {.mask = mask, .initial = initial});
  CHECK(identical(h.value(), expected.h.value()));
  CHECK(identical(last[1].backward.c.value(), expected.last.backward.c.value()));
  // Direction::backward exchanges the directions of the layers.
  const auto turned = first(x, {.mask = mask, .direction = Direction::backward});
  CHECK_FALSE(identical(turned.h.value(), first(x, {.mask = mask}).h.value()));
  CHECK(identical(turned.last.forward.h.value(), slice(turned.h.value()[0], 1, 0, kHidden)));
}

TEST_CASE("Stacked: gates() is that of its layers") {
  nn::Parameters params;
  const nn::Scope scope(params);
  CHECK(nn::Stacked<nn::Lstm>(scope / "a", 4, 3).gates() == 4);
  CHECK(nn::Stacked<nn::Gru>(scope / "b", 4, 3).gates() == 3);
  const Stack stacked(scope / "c", 4, 3, {}, {.cell = nn::Cell::gru});
  CHECK(stacked.gates() == 3);
  CHECK(stacked.input(randn({2, 4})).shape() == Shape{2, 9});
}

TEST_CASE("Stacked: no layer, states for other layers, or a wrong rate are errors") {
  nn::Parameters params(1, DType::f64);
  const nn::Scope scope(params);
  const auto make = [&](const nn::StackedOptions& options) {
    nn::Stacked<nn::Gru> stacked(scope / "bad", 4, 3, options);
  };
  CHECK_ERROR("Stacked: layers = 0 is not in [1, inf)", make({.layers = 0}));
  CHECK_ERROR("dropout: the rate 1 is not in [0, 1)", make({.dropout = 1}));
  const nn::Stacked<nn::Gru> stacked(scope / "good", 4, 3, {.layers = 2});
  const Tensor x = randn({5, 2, 4}, DType::f64);
  const auto xw = stacked.input(x[0]);
  CHECK_ERROR("Stacked: there are 3 states for 2 layers", stacked(x, {.initial = {{}, {}, {}}}));
  CHECK_ERROR("Stacked: there are 1 states for 2 layers", stacked.step(xw, {{}}));
  CHECK_NOTHROW(stacked.step(xw, {{}, {}}));
}

}  // namespace
