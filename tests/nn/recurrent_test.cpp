// Recurrent layers: alone, bidirectional and stacked.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/nn/recurrent.hpp>

#include "nn/own_cell.hpp"
#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"

namespace {

using namespace attune;

constexpr Index kSteps = 5, kBatch = 3, kIn = 4, kHidden = 6;
const std::vector<Index> kLengths = {5, 1, 3};
constexpr nn::Cell kCells[] = {nn::Cell::lstm, nn::Cell::gru, nn::Cell::gru_reset_before};

using Stack = nn::Stacked<nn::Recurrent>;  // one layer is that layer
using States = Stack::State;

/// A stack, with x and initial states as parameters, so that their gradients are compared too.
struct Setting {
  Setting(nn::Cell cell, const nn::StackedOptions& options)
      : stack(params, kIn, kHidden, options, {.cell = cell}) {
    x = params.add("x", {kSteps, kBatch, kIn}, nn::init::normal(1));
    for (Index l = 1; l <= options.layers; ++l) {
      const auto add = [&](const char* name) {
        return params.add(fmt::format("{}.{}", name, l), {kBatch, kHidden}, nn::init::normal(0.5));
      };
      const Var h = add("h0");
      initial.push_back({h, cell == nn::Cell::lstm ? add("c0") : Var()});
    }
  }

  nn::Parameters params{11, DType::f64};
  Stack stack;
  Var x;
  States initial;
};

/// All defined parts, concatenated.
Var flat(const Stack::Output& output) {
  Var row = test::flat({output.h});
  for (const auto& [h, c] : output.last) row = test::flat({row, h, c});
  return row;
}

/// f(cell, options) for each cell alone and stacked.
template <class F>
void for_all(F f) {
  for (const nn::Cell cell : kCells) {
    for (const Index layers : {1, 2}) {
      INFO(nn::name_of(cell), ", ", layers);
      f(cell, nn::StackedOptions{.layers = layers});
    }
  }
}

TEST_CASE("recurrent: single steps equal the whole sequence, values and gradients") {
  for_all([](nn::Cell cell, const nn::StackedOptions& options) {
    for (const bool from_zero : {false, true}) {
      const Setting s(cell, options);
      States states = from_zero ? States() : s.initial;
      const Tensor g = randn({kSteps, kBatch, kHidden}, DType::f64, 18);
      const auto whole = s.stack(s.x, {.initial = states});
      Var loss = Var(scalar(0, DType::f64));
      for (Index t = 0; t < kSteps; ++t) {
        auto [top, next] = s.stack.step(s.stack.input(s.x[t]), states);
        CHECK(difference(top.value(), whole.h.value()[t]) < 1e-13);
        loss = loss + test::weighted(top, g[t]);
        states = std::move(next);
      }
      CHECK(difference(flat({whole.h, states}).value(), flat(whole).value()) < 1e-13);
      CHECK(states[0].c.defined() == (cell == nn::Cell::lstm));
      const Gradients stepped = backward(loss), d_whole = backward(test::weighted(whole.h, g));
      for (const auto& [name, w] : s.params) {
        CAPTURE_BINDING(name);
        const Tensor *a = stepped.find(w), *b = d_whole.find(w);
        REQUIRE((a != nullptr) == (b != nullptr));  // from zero, there are none of h0 and c0
        if (a) CHECK(difference(*a, *b) < 1e-12);
      }
    }
  });
}

Var add_golden(nn::Parameters& params, const std::string& name, const Tensor& values) {
  return params.add(name, values.shape(), [=](Tensor& to, Random&) { copy(values, to); });
}

/// Checks h, the final states (by the prefix of their names), and the gradients of all
/// parameters against the file.
void check_results(const Golden& golden, const nn::Parameters& params, const Var& h,
                   const std::vector<std::pair<std::string, nn::RecurrentState>>& last) {
  const Tensor mask = golden["mask"];
  // At padding the file has zeros; here the state is copied.
  CHECK(difference(h.value() * mask.reshape({mask.dim(0), mask.dim(1), 1}), golden["h"]) < 1e-10);
  Var loss = test::weighted(h, golden["g_h"]);
  for (const auto& [prefix, state] : last) {
    for (const auto& [letter, x] : {std::pair{"h", state.h}, {"c", state.c}}) {
      const std::string name = prefix + letter + "_last";
      CHECK(x.defined() == golden.contains(name));
      if (!x.defined()) continue;
      CHECK(difference(x.value(), golden[name]) < 1e-10);
      loss = loss + test::weighted(x, golden["g_" + name]);
    }
  }
  const Gradients gradients = backward(loss);
  for (const auto& [name, w] : params) {
    CAPTURE_BINDING(name);
    CHECK(difference(gradients[w], golden["d_" + name]) < 1e-10);
  }
}

TEST_CASE("Stacked: values and gradients are PyTorch's") {
  for (const nn::Cell cell : {nn::Cell::lstm, nn::Cell::gru}) {
    const Golden golden(std::string("stacked_") + nn::name_of(cell));
    nn::Parameters params(1, DType::f64);
    const Stack stack(params, 7, 2, {}, {.cell = cell});
    for (const auto& [name, w] : params) test::set(params, name, golden[name]);
    nn::RunOptions<States> options{.mask = golden["mask"]};
    for (const std::string layer : {"layer1.", "layer2."}) {
      const auto add = [&](const char* letter) {
        return add_golden(params, layer + letter, golden[layer + letter]);
      };
      const Var h0 = add("h0");
      options.initial.push_back({h0, cell == nn::Cell::lstm ? add("c0") : Var()});
    }
    const auto [h, last] = stack(add_golden(params, "x", golden["x"]), options);
    REQUIRE(last.size() == 2);
    check_results(golden, params, h, {{"layer1.", last[0]}, {"layer2.", last[1]}});
  }
}

TEST_CASE("Bidirectional: values and gradients are PyTorch's") {
  for (const nn::Cell cell : {nn::Cell::lstm, nn::Cell::gru}) {
    const Golden golden(std::string("bidirectional_") + nn::name_of(cell));
    nn::Parameters params(1, DType::f64);
    const nn::Bidirectional<nn::Recurrent> layer(params, 7, 2, {.cell = cell});
    for (const auto& [name, w] : params) test::set(params, name, golden[name]);
    const auto [h, last] = layer(add_golden(params, "x", golden["x"]), {.mask = golden["mask"]});
    check_results(golden, params, h, {{"forward.", last.forward}, {"backward.", last.backward}});
  }
}

TEST_CASE("Recurrent: parameters have the shapes of the gates; those of a GRU's form") {
  nn::Parameters params;
  for (const nn::Cell cell : kCells) {
    const Index gates = nn::Recurrent(params / nn::name_of(cell), 4, 3, {.cell = cell}).gates();
    CHECK(gates == (cell == nn::Cell::lstm ? 4 : 3));
    const auto shape = [&](const char* name) {
      return params[fmt::format("{}.{}", nn::name_of(cell), name)].shape();
    };
    CHECK(shape("W_x") == Shape{4, 3 * gates});
    CHECK(shape("W_h") == Shape{3, 3 * gates});
    CHECK(shape("b") == Shape{3 * gates});
  }
  CHECK(params.all().size() == 10);
  CHECK(params["gru.b_hn"].shape() == Shape{3});
  nn::Gru(params / "default", 4, 3);
  CHECK(params.contains("default.b_hn"));
  // The options of an LSTM or of any cell do not make a Gru.
  static_assert(!std::is_constructible_v<nn::Gru, nn::Scope, Index, Index, nn::RecurrentOptions>);
}

TEST_CASE("Lstm: the forget gate's bias begins at 1, the others at 0") {
  nn::Parameters params(1, DType::f64);
  const nn::Lstm usual(params / "usual", 4, 2);
  const nn::Lstm other(params / "other", 4, 2, {.forget_bias = -0.5});
  CHECK(identical(params["usual.b"].value(), reals({8}, {0, 0, 1, 1, 0, 0, 0, 0})));
  CHECK(identical(params["other.b"].value(), reals({8}, {0, 0, -.5, -.5, 0, 0, 0, 0})));
}

TEST_CASE("Recurrent: a mask, state or input of another shape is an error") {
  nn::Parameters params;
  const nn::Lstm lstm(params / "lstm", 4, 3);
  const nn::Gru gru(params / "gru", 4, 3);
  const Tensor x = zeros({5, 2, 4});
  CHECK_ERROR("lstm: mask (T, B) is (5, 3), but B = 2 in xw, in lstm",
              lstm(x, {.mask = ones({5, 3})}));
  CHECK_ERROR("gru: mask (T, B) is (4, 2), but T = 5 in xw, in gru",
              gru(x, {.mask = ones({4, 2})}));
  CHECK_ERROR("lstm: h0 (B, H) is (2, 4), but H = 3 in w_h, in lstm",
              lstm(x, {.initial = {zeros({2, 4}), {}}}));
  CHECK_ERROR("add_matmul: shapes do not fit: (5, 2, 3) x (4, 12), in lstm",
              lstm(zeros({5, 2, 3})));
}

TEST_CASE("select: gathers rows of all members of a state; undefined members stay undefined") {
  const Tensor h = reals({3, 2}, {1, 2, 3, 4, 5, 6}), rows = ints({2}, {2, 2});
  const std::vector<nn::RecurrentState> layers{{h, {}}, {h * 10.0, h}};
  const std::vector<nn::RecurrentState> selected = nn::select(layers, rows);
  REQUIRE(selected.size() == 2);
  CHECK(identical(selected[0].h.value(), reals({2, 2}, {5, 6, 5, 6})));
  CHECK_FALSE(selected[0].c.defined());
  CHECK(identical(selected[1].h.value(), reals({2, 2}, {50, 60, 50, 60})));
  CHECK(identical(selected[1].c.value(), reals({2, 2}, {5, 6, 5, 6})));
}

TEST_CASE("select_columns: gathers along axis 1 without gradient") {
  const Var x = variable(reals({2, 3}, {1, 2, 3, 4, 5, 6}));
  const Var y = nn::select_columns(x, ints({2}, {2, 0}));
  CHECK(identical(y.value(), reals({2, 2}, {3, 1, 6, 4})));
  CHECK_FALSE(y.requires_gradient());
  CHECK_FALSE(nn::select_columns({}, ints({1}, {0})).defined());
}

TEST_CASE("Bidirectional: the directions have parameters and initial values of their own") {
  nn::Parameters params;
  const nn::Bidirectional<nn::Gru> layer(params / "encoder", 4, 3, {.reset_before = true});
  CHECK(params.all().size() == 6);
  CHECK_FALSE(params.contains("encoder.forward.b_hn"));
  CHECK(difference(params["encoder.forward.W_x"].value(), params["encoder.backward.W_x"].value()) >
        0.1);
}

/// A running sum of its inputs, whose state is a Var.
struct RunningSum {
  struct Options {};
  using State = Var;
  RunningSum(const nn::Scope&, Index, Index, const Options&) {}
  Index size() const { return 1; }
  Var input(const Var& x) const { return x; }
  Var step(const Var& x, const Var& total) const { return total.defined() ? total + x : x; }
  nn::RecurrentOutput<Var> operator()(const Var& x, const nn::RunOptions<Var>& o) const {
    const auto f = [&](const Var& total, const Var& now) { return step(now, total); };
    return nn::scan(o.direction, f, o.initial, x);
  }
};

TEST_CASE("Bidirectional: takes a custom layer") {
  nn::Parameters params;
  const nn::Bidirectional<RunningSum> layer(params, 1, 1);
  const auto [h, last] = layer(Tensor::of({3, 1, 1}, {1., 10., 100.}));
  CHECK(identical(h.value(), Tensor::of({3, 1, 2}, {1., 111., 11., 110., 111., 100.})));
}

/// The layers of a stack, applied one by one by its equations.
Stack::Output by_hand(nn::Cell cell, const nn::StackedOptions& o, const Var& x,
                      const nn::RunOptions<States>& options) {
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
      nn::RunOptions<States> options{.mask = mask_of(kSteps, kLengths)};
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

TEST_CASE("Stacked: a bidirectional layer reads both directions of the layer below") {
  nn::Parameters params(3, DType::f64), plain(3, DType::f64);
  const nn::Stacked<nn::Bidirectional<nn::Lstm>> stacked(params, kIn, kHidden, {.layers = 2},
                                                         {.forget_bias = 0.5});
  const nn::Bidirectional<nn::Lstm> first(plain / "layer1", kIn, kHidden, {.forget_bias = 0.5});
  const nn::Bidirectional<nn::Lstm> second(plain / "layer2", 2 * kHidden, kHidden,
                                           {.forget_bias = 0.5});
  CHECK(stacked.size() == 2 * kHidden);
  const Tensor x = randn({kSteps, kBatch, kIn}, DType::f64, 4), mask = mask_of(kSteps, kLengths);
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

/// A stack of bidirectional layers of cells of one's own against the fused cell: values, and
/// gradients of inputs, initial states and parameters.
template <Cell cell>
void compare_with_own(Direction direction) {
  using Layers = nn::Stacked<nn::Bidirectional<nn::Recurrent>>;
  nn::Parameters fused(1, DType::f64), own(1, DType::f64);
  const auto run = [&](nn::Parameters& params, const nn::CellType& type) {
    const Layers layers(params, kIn, kHidden, {.layers = 2}, {.cell = type});
    const auto add = [&](const char* name, Index steps, Index size) {
      return params.add(name, {steps, kBatch, size}, nn::init::normal(0.5));
    };
    const Var x = add("x", kSteps, kIn), h0 = add("h0", 3, kHidden), c0 = add("c0", 3, kHidden);
    if (&params == &fused) test::copy_parameters(own, fused);
    nn::RunOptions<Layers::State> o{.mask = mask_of(kSteps, kLengths), .direction = direction};
    const auto initial = [&](Index i) -> nn::RecurrentState {
      return {h0[i], cell == Cell::lstm ? c0[i] : Var()};
    };
    o.initial = {{initial(0), {}}, {initial(1), initial(2)}};
    const auto [h, last] = layers(x, o);
    return test::flat({h, last[0].forward.c, last[1].forward.h, last[1].backward.c});
  };
  const Var by_own = run(own, nn::own_cell<test::PlainCell<cell>>), by_fused = run(fused, cell);
  CHECK(difference(by_own.value(), by_fused.value()) < 1e-13);
  const Tensor g = randn(by_own.shape(), DType::f64, 3);
  const Gradients d_own = backward(test::weighted(by_own, g)),
                  d_fused = backward(test::weighted(by_fused, g));
  for (const auto& [name, w] : own) {
    CAPTURE_BINDING(name);
    if (name != "c0" || cell == Cell::lstm)
      CHECK(difference(d_own[w], d_fused[fused[name]]) < 1e-12);
  }
}

TEST_CASE("own cells: equal the fused cells, with masks, initial states and both directions") {
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    compare_with_own<Cell::lstm>(direction);
    compare_with_own<Cell::gru>(direction);
    compare_with_own<Cell::gru_reset_before>(direction);
  }
}

TEST_CASE("own cells: operator() replaces the loop over time; a wrong mask is an error") {
  nn::Parameters params(1, DType::f64);
  const Tensor x = randn({kSteps, kBatch, kIn}, DType::f64, 2);
  struct AtOnce : test::PlainCell<Cell::gru> {
    using PlainCell::PlainCell;
    nn::RecurrentOutput<> operator()(const Var& in, const nn::RunOptions<>&) const {
      return {in, {}};
    }
  };
  const nn::Recurrent layer(params / "b", kIn, kHidden, {.cell = nn::own_cell<AtOnce>});
  CHECK(identical(layer(x).h.value(), x));
  CHECK_ERROR("recurrent: mask (T, B) is (5, 1), but B = 3 in x, in b",
              layer(x, {.mask = ones({kSteps, 1})}));
}

TEST_CASE("Stacked: steps of a layer with a state of its own equal the sequence") {
  nn::Parameters params;
  const nn::Stacked<RunningSum> layers(params, 1, 1);
  const Tensor x = Tensor::of({3, 2, 1}, {1., 0., 0., 2., 4., 0.});
  const Var whole = layers(x).h;
  CHECK(identical(whole.value(), Tensor::of({3, 2, 1}, {1., 0., 2., 2., 7., 4.})));
  std::vector<Var> states;
  for (Index t = 0; t < 3; ++t) {
    const auto [h, next] = layers.step(layers.input(x[t]), states);
    CHECK(identical(h.value(), whole.value()[t]));
    states = nn::select(next, arange(2));
  }
}

TEST_CASE("scan: gradients are those of a loop, and of a weight one product over all steps") {
  const Var a = variable(randn({4, 2, 3}, DType::f64, 1)),
            b = variable(randn({4, 2, 3}, DType::f64, 2)),
            h0 = variable(randn({2, 3}, DType::f64, 3));
  const auto f = [](const Var& h, const Var& decay, const Var& in) {
    return nn::RecurrentOutput<Var>{tanh(h), decay * h + in};
  };
  const Tensor g = randn({4, 2, 3}, DType::f64, 4);
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    const auto [y, last] = nn::scan(direction, f, h0, a, b);
    Var h = h0, loss = scalar(0, DType::f64);
    for (Index i = 0; i < 4; ++i) {
      const Index t = direction == Direction::forward ? i : 3 - i;
      loss = loss + test::weighted(tanh(h), g[t]);
      h = a[t] * h + b[t];
    }
    CHECK(identical(last.value(), h.value()));
    const Gradients by_hand = backward(loss + sum(h)),
                    scanned = backward(test::weighted(y, g) + sum(last));
    for (const Var& x : {a, b, h0}) CHECK(difference(scanned[x], by_hand[x]) < 1e-14);
  }
  CHECK_ERROR("scan: the sequences have different lengths",
              nn::scan(f, h0, a, b.value().slice(0, 3)));

  const Tensor x = randn({9, 5, 7}), dy = randn({9, 5, 6});
  const Var w = variable(randn({7, 6}));
  const auto product = [&](const Var&, const Var& now) { return matmul(now, w); };
  const Tensor dw = backward(test::weighted(nn::scan(product, zeros({5, 6}), x).h, dy))[w];
  const auto rows = [](const Tensor& s) { return flip(s, 0).reshape({45, s.dim(2)}); };
  CHECK(identical(dw, matmul(rows(x), rows(dy), {.a = true})));
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
