// Recurrent layers, alone and stacked.
#include <cmath>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/tensor/check.hpp>

#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"

namespace {

using namespace attune;
using test::ragged_mask;

constexpr Index kSteps = 5, kBatch = 3, kIn = 4, kHidden = 6;
const std::vector<Index> kLengths = {5, 1, 3};
constexpr nn::Cell kCells[] = {nn::Cell::lstm, nn::Cell::gru, nn::Cell::gru_reset_before};

using Stack = nn::Stacked<nn::Recurrent>;  // one layer is that layer
using States = Stack::State;

/// A stack, with x and initial states as parameters, so that their gradients are compared too.
struct Setting {
  Setting(nn::Cell cell, const nn::StackedOptions& options, double scale = 1)
      : stack(params, kIn, kHidden, options, {.cell = cell}) {
    test::scale_parameters(params, scale);
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
  Tensor mask = ragged_mask(kSteps, kLengths);
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

TEST_CASE("recurrent: gradients are central differences, also at ten times the initial values") {
  for_all([](nn::Cell cell, const nn::StackedOptions& options) {
    for (const double scale : {1.0, 10.0}) {
      for (const Direction direction : {Direction::forward, Direction::backward}) {
        INFO("scale ", scale);
        const Setting s(cell, options, scale);
        const auto run = [&] {
          return flat(s.stack(s.x, {.mask = s.mask, .initial = s.initial, .direction = direction}));
        };
        CHECK(gradcheck(s.params, run, {.step = scale > 1 ? 5e-5 : 1e-3}));
      }
    }
  });
}

TEST_CASE("recurrent: gradients through dropout between the layers are central differences") {
  for (const nn::Cell cell : {nn::Cell::lstm, nn::Cell::gru}) {
    const Setting s(cell, {.layers = 3, .dropout = 0.4});
    CHECK(gradcheck(s.params, [&] {
      Random random(6);  // the same masks at every call
      const nn::Training training(random);
      return flat(s.stack(s.x, {.mask = s.mask, .initial = s.initial}));
    }));
  }
}

TEST_CASE("recurrent: padding does not change the final state") {
  for (const nn::Cell cell : kCells) {
    const Setting s(cell, {.layers = 1});
    const Tensor words = randn({2, 1, kIn}, DType::f64, 5);
    const Tensor padding[] = {words, full({3, 1, kIn}, 9, DType::f64)};
    const auto plain = s.stack(words),
               padded = s.stack(concat(padding, 0), {.mask = ragged_mask(5, {2})});
    CHECK(identical(flat({padded.h[4], padded.last}).value(),
                    flat({plain.h[1], plain.last}).value()));
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

/// Checks that a layer equals a Recurrent: names, initial values and results, bit for bit.
template <class Layer>
void check_same(nn::Cell cell, const typename Layer::Options& options) {
  nn::Parameters chosen(3, DType::f64), plain(3, DType::f64);
  const nn::Recurrent recurrent(chosen, 4, 2, {.cell = cell});
  const Layer layer(plain, 4, 2, options);
  REQUIRE(chosen.all().size() == plain.all().size());
  for (const auto& [name, w] : plain) CHECK(identical(chosen[name].value(), w.value()));
  const Tensor x = randn({5, 3, 4}, DType::f64, 8);
  CHECK(identical(recurrent(x).h.value(), layer(x).h.value()));
}

TEST_CASE("Recurrent: equals Lstm and Gru; the default is a GRU") {
  check_same<nn::Lstm>(nn::Cell::lstm, {});
  check_same<nn::Gru>(nn::Cell::gru, {});
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
}

TEST_CASE("Lstm: the forget gate's bias begins at 1, the others at 0") {
  nn::Parameters params(1, DType::f64);
  const nn::Lstm usual(params / "usual", 4, 2);
  const nn::Lstm other(params / "other", 4, 2, {.forget_bias = -0.5});
  CHECK(identical(params["usual.b"].value(), reals({8}, {0, 0, 1, 1, 0, 0, 0, 0})));
  CHECK(identical(params["other.b"].value(), reals({8}, {0, 0, -.5, -.5, 0, 0, 0, 0})));
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

/// One step of Cho et al. (2014), equations 5 to 8, for a single sentence, from the weights of a
/// Gru that resets before the product. The paper has h_j = z_j h_j + (1 - z_j) h̃_j, with z and
/// 1 - z exchanged.
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

TEST_CASE("Gru: equal to Bahdanau's equations with negated weights of z") {
  nn::Parameters params(4, DType::f64);
  const nn::Gru gru(params, 4, 3, {.cell = nn::Cell::gru_reset_before});
  test::set(params, "b", randn({9}, DType::f64, 6));
  const Tensor x = randn({5, 1, 4}, DType::f64, 7);
  const Tensor h = gru(x).h.value();
  std::vector<double> state(3, 0.0);
  for (Index t = 0; t < 5; ++t) {
    state = step_of_the_papers(params, x[t].to_vector<double>(), state);
    CHECK(difference(h[t], Tensor::of({1, 3}, std::span<const double>(state))) < 1e-13);
  }
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

}  // namespace
