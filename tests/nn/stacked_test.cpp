#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/nn/recurrent.hpp>
#include <attune/nn/stacked.hpp>

#include "nn/recurrent_checks.hpp"
#include "support/capture.hpp"

namespace {

using namespace attune;
using test::difference;
using test::identical;
using test::kBatch;
using test::kHidden;
using test::kIn;
using test::kLengths;
using test::kSteps;

template <class Layer>
void check_bidirectional_golden(const char* file) {
  const Golden golden(file);
  nn::Parameters params(1, DType::f64);
  const nn::Bidirectional<Layer> layer(params, 7, 2);
  for (const auto& [name, w] : params) test::set(params, name, golden[name]);
  const Tensor values = golden["x"], mask = golden["mask"];
  const Var x = params.add("x", values.shape(), [=](Tensor& to, Random&) { copy(values, to); });

  const auto [h, last] = layer(x, {.mask = mask});
  const auto& [forward, backward_] = last;
  CHECK(difference(h.value() * mask.reshape({5, 3, 1}), golden["h"]) < 1e-10);
  Var loss = test::weighted(h, golden["g_h"]);
  const auto check_state = [&](const Var& state, const std::string& name) {
    if (!golden.contains(name)) return;
    CHECK(difference(state.value(), golden[name]) < 1e-10);
    loss = loss + test::weighted(state, golden["g_" + name]);
  };
  check_state(forward.h, "forward.h_last");
  check_state(forward.c, "forward.c_last");
  check_state(backward_.h, "backward.h_last");
  check_state(backward_.c, "backward.c_last");
  const Gradients gradients = backward(loss);
  for (const auto& [name, w] : params) {
    CAPTURE_BINDING(name);
    CHECK(difference(gradients[w], golden["d_" + name]) < 1e-10);
  }
}

TEST_CASE("Bidirectional: values and gradients of two Lstms are PyTorch's") {
  check_bidirectional_golden<nn::Lstm>("bidirectional_lstm");
}

TEST_CASE("Bidirectional: values and gradients of two Grus are PyTorch's") {
  check_bidirectional_golden<nn::Gru>("bidirectional_gru");
}

TEST_CASE("Bidirectional: the last states stand on the last and on the first word") {
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
  const nn::Bidirectional<nn::Gru> layer(nn::Scope(params) / "encoder", 4, 3,
                                         {.form = GruForm::reset_before});
  CHECK(params.all().size() == 6);
  CHECK_FALSE(params.contains("encoder.forward.b_hn"));
  CHECK(difference(params["encoder.forward.W_x"].value(), params["encoder.backward.W_x"].value()) >
        0.1);
}

/// Adds up what it has read.
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

TEST_CASE("Bidirectional: takes a layer of one's own") {
  nn::Parameters params;
  const nn::Bidirectional<RunningSum> layer(params, 1, 1);
  const auto [h, last] = layer(Tensor::of({3, 1, 1}, {1., 10., 100.}));
  CHECK(identical(h.value(), Tensor::of({3, 1, 2}, {1., 111., 11., 110., 111., 100.})));
}

constexpr nn::Cell kCells[] = {nn::Cell::lstm, nn::Cell::gru, nn::Cell::gru_reset_before};

using Stack = nn::Stacked<nn::Recurrent>;

/// A state of its own for every layer, as parameters.
std::vector<nn::RecurrentState> initial_states(nn::Parameters& params, Index layers, bool has_c) {
  std::vector<nn::RecurrentState> states;
  for (Index l = 1; l <= layers; ++l) {
    const auto add = [&](const char* name) {
      return params.add(fmt::format("{}.{}", name, l), {kBatch, kHidden}, nn::init::normal(0.5));
    };
    const Var h = add("h0");
    states.push_back({h, has_c ? add("c0") : Var()});
  }
  return states;
}

/// All results in one row.
Var flat(const Stack::Output& output) {
  Var row = test::flat({output.h});
  for (const nn::RecurrentState& state : output.last) row = test::flat({row, state.h, state.c});
  return row;
}

template <class Layer>
void check_golden(const char* file) {
  const Golden golden(file);
  nn::Parameters params(1, DType::f64);
  const nn::Stacked<Layer> stacked(params, 7, 2);
  for (const auto& [name, w] : params) test::set(params, name, golden[name]);
  const auto add = [&](const std::string& name) {
    const Tensor values = golden[name];
    return params.add(name, values.shape(), [=](Tensor& to, Random&) { copy(values, to); });
  };
  const Var x = add("x");
  const Tensor mask = golden["mask"];
  nn::RunOptions<Stack::State> options{.mask = mask};
  for (const std::string layer : {"layer1.", "layer2."}) {
    const Var h = add(layer + "h0");
    options.initial.push_back({h, golden.contains(layer + "c0") ? add(layer + "c0") : Var()});
  }

  const auto [h, last] = stacked(x, options);
  CHECK(difference(h.value() * mask.reshape({5, 3, 1}), golden["h"]) < 1e-10);
  Var loss = test::weighted(h, golden["g_h"]);
  REQUIRE(last.size() == 2);
  for (std::size_t l = 0; l < 2; ++l) {
    for (const auto& [letter, state] : {std::pair{"h", last[l].h}, {"c", last[l].c}}) {
      const std::string name = fmt::format("layer{}.{}_last", l + 1, letter);
      CHECK(state.defined() == golden.contains(name));
      if (!state.defined()) continue;
      CHECK(difference(state.value(), golden[name]) < 1e-10);
      loss = loss + test::weighted(state, golden["g_" + name]);
    }
  }
  const Gradients gradients = backward(loss);
  for (const auto& [name, w] : params) {
    CAPTURE_BINDING(name);
    CHECK(difference(gradients[w], golden["d_" + name]) < 1e-10);
  }
}

TEST_CASE("Stacked: values and gradients of two Lstms are PyTorch's") {
  check_golden<nn::Lstm>("stacked_lstm");
}

TEST_CASE("Stacked: values and gradients of two Grus are PyTorch's") {
  check_golden<nn::Gru>("stacked_gru");
}

TEST_CASE("Stacked: is its layers composed by hand, to the bit") {
  for (const nn::Cell cell : kCells) {
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      nn::Parameters params(3, DType::f64), plain(3, DType::f64);
      const Stack stacked(params, kIn, kHidden, {.layers = 3}, {.cell = cell});
      const nn::Scope scope(plain);
      const nn::Recurrent first(scope / "layer1", kIn, kHidden, {.cell = cell});
      const nn::Recurrent second(scope / "layer2", kHidden, kHidden, {.cell = cell});
      const nn::Recurrent third(scope / "layer3", kHidden, kHidden, {.cell = cell});
      REQUIRE(params.all().size() == plain.all().size());
      const Tensor x = randn({kSteps, kBatch, kIn}, DType::f64, 4),
                   mask = test::ragged_mask(kSteps, kLengths);
      const auto states = initial_states(params, 3, cell == nn::Cell::lstm);

      const auto [h, last] = stacked(x, {.mask = mask, .initial = states, .direction = direction});
      const auto run = [&](const nn::Recurrent& layer, const Var& in, std::size_t l) {
        return layer(in, {.mask = mask, .initial = states[l], .direction = direction});
      };
      const auto a = run(first, x, 0), b = run(second, a.h, 1), c = run(third, b.h, 2);
      CHECK(identical(h.value(), c.h.value()));
      REQUIRE(last.size() == 3);
      CHECK(identical(last[0].h.value(), a.last.h.value()));
      CHECK(identical(last[1].h.value(), b.last.h.value()));
      CHECK(identical(last[2].h.value(), c.last.h.value()));
      CHECK(last[1].c.defined() == (cell == nn::Cell::lstm));
      if (cell == nn::Cell::lstm) CHECK(identical(last[1].c.value(), b.last.c.value()));
    }
  }
}

TEST_CASE("Stacked: residual connections add what a layer has read, from the second layer on") {
  nn::Parameters params(3, DType::f64), plain(3, DType::f64);
  // x is as wide as the states, and yet not added to the first layer's.
  const Stack stacked(params, 2, 2, {.layers = 3, .residual = true}, {.cell = nn::Cell::lstm});
  const nn::Scope scope(plain);
  const nn::Lstm first(scope / "layer1", 2, 2), second(scope / "layer2", 2, 2);
  const nn::Lstm third(scope / "layer3", 2, 2);
  const Tensor x = randn({5, 3, 2}, DType::f64, 4), mask = test::ragged_mask(5, {5, 1, 3});
  const auto [h, last] = stacked(x, {.mask = mask});
  const Var y1 = first(x, {.mask = mask}).h;
  const auto run2 = second(y1, {.mask = mask});
  const Var y2 = run2.h + y1;
  const Var y3 = third(y2, {.mask = mask}).h + y2;
  CHECK(identical(h.value(), y3.value()));
  CHECK(identical(last[1].h.value(), run2.last.h.value()));
}

TEST_CASE("Stacked: one layer is that layer, residual or not") {
  nn::Parameters params(3, DType::f64), plain(3, DType::f64);
  const nn::Stacked<nn::Gru> stacked(params, 4, 2, {.layers = 1, .residual = true});
  const nn::Gru gru(nn::Scope(plain) / "layer1", 4, 2);
  const Tensor x = randn({5, 3, 4}, DType::f64, 4);
  CHECK(identical(stacked(x).h.value(), gru(x).h.value()));
}

void check_gradients(nn::Cell cell, bool residual, double scale) {
  INFO(nn::name_of(cell), residual ? ", residual, " : ", ", scale);
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    nn::Parameters params(11, DType::f64);
    const Stack stacked(params, kIn, kHidden, {.layers = 2, .residual = residual}, {.cell = cell});
    test::scale_parameters(params, scale);
    const Var x = params.add("x", {kSteps, kBatch, kIn}, nn::init::normal(1));
    const nn::RunOptions<Stack::State> options{
        .mask = test::ragged_mask(kSteps, kLengths),
        .initial = initial_states(params, 2, cell == nn::Cell::lstm),
        .direction = direction};
    CHECK(gradcheck(params, [&] { return flat(stacked(x, options)); },
                    {.step = scale > 1 ? 5e-5 : 1e-3}));
  }
}

TEST_CASE("Stacked: gradients agree with differences over ragged sentences") {
  for (const nn::Cell cell : kCells) check_gradients(cell, false, 1);
}

TEST_CASE("Stacked: gradients agree with differences at ten times the initial values") {
  for (const nn::Cell cell : kCells) check_gradients(cell, false, 10);
}

TEST_CASE("Stacked: gradients with residual connections agree with differences") {
  for (const nn::Cell cell : kCells) {
    check_gradients(cell, true, 1);
    check_gradients(cell, true, 10);
  }
}

TEST_CASE("Stacked: gradients through dropout between the layers agree with differences") {
  for (const bool residual : {false, true}) {
    nn::Parameters params(11, DType::f64);
    const Stack stacked(params, kIn, 5, {.layers = 3, .dropout = 0.4, .residual = residual},
                        {.cell = nn::Cell::gru});
    const Var x = params.add("x", {kSteps, kBatch, kIn}, nn::init::normal(1));
    CHECK(gradcheck(params, [&] {
      Random random(6);  // the same masks at every call
      const nn::Training training(random);
      return flat(stacked(x, {.mask = test::ragged_mask(kSteps, kLengths)}));
    }));
  }
}

TEST_CASE("Stacked: a padded batch gives what its sentences give one by one") {
  for (const nn::Cell cell : kCells) {
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      const bool has_c = cell == nn::Cell::lstm;
      nn::Parameters params(12, DType::f64);
      const Stack stacked(params, kIn, kHidden, {.layers = 3, .residual = true}, {.cell = cell});
      const std::size_t own = params.all().size();
      const auto states = initial_states(params, 3, has_c);
      const Tensor mask = test::ragged_mask(kSteps, kLengths);
      const Tensor words = mask.reshape({kSteps, kBatch, 1});
      const Tensor x = randn({kSteps, kBatch, kIn}, DType::f64, 13) * words + 7.5 * (1.0 - words);
      const Tensor g_h = randn({kSteps, kBatch, kHidden}, DType::f64, 14) * words;
      const Tensor g_last = randn({kBatch, kHidden}, DType::f64, 15);
      const auto loss_of = [](const Stack::Output& y, const Tensor& g, const Tensor& g_state) {
        Var loss = test::weighted(y.h, g);
        double factor = 1;
        for (const auto& [h, c] : y.last) {
          loss = loss + test::weighted(h, factor * g_state);
          if (c.defined()) loss = loss + test::weighted(c, 0.5 * factor * g_state);
          factor = -0.75 * factor;
        }
        return loss;
      };
      const auto padded = stacked(x, {.mask = mask, .initial = states, .direction = direction});
      const Gradients gradients = backward(loss_of(padded, g_h, g_last));
      std::vector<Tensor> total;
      for (Index b = 0; b < kBatch; ++b) {
        const Index length = kLengths[static_cast<std::size_t>(b)];
        nn::RunOptions<Stack::State> options{.direction = direction};
        for (const auto& [h, c] : states) {
          options.initial.push_back(
              {slice(h, 0, b, b + 1), c.defined() ? slice(c, 0, b, b + 1) : Var()});
        }
        const auto alone = stacked(test::sentence(x, b, length), options);
        CHECK(difference(test::sentence(padded.h.value(), b, length), alone.h.value()) < 1e-12);
        for (std::size_t l = 0; l < 3; ++l) {
          const auto &of_batch = padded.last[l], &of_one = alone.last[l];
          CHECK(difference(of_batch.h.value().slice(b, b + 1), of_one.h.value()) < 1e-12);
          if (!has_c) continue;
          CHECK(difference(of_batch.c.value().slice(b, b + 1), of_one.c.value()) < 1e-12);
        }
        const Gradients part =
            backward(loss_of(alone, test::sentence(g_h, b, length), g_last.slice(b, b + 1)));
        for (std::size_t i = 0; i < params.all().size(); ++i) {
          const Tensor& g = part[params.all()[i].variable];
          b == 0 ? total.push_back(g.clone()) : add_in_place(total[i], g);
        }
      }
      REQUIRE(own < total.size());
      for (std::size_t i = 0; i < total.size(); ++i) {
        INFO(params.all()[i].name);
        CHECK(difference(gradients[params.all()[i].variable], total[i]) < 1e-12);
      }
    }
  }
}

TEST_CASE("Stacked: steps made one by one give the whole sequence, values and gradients") {
  for (const nn::Cell cell : kCells) {
    for (const bool from_zero : {false, true}) {
      nn::Parameters params(17, DType::f64);
      const Stack stacked(params, kIn, kHidden, {.layers = 3, .residual = true}, {.cell = cell});
      const Var x = params.add("x", {kSteps, kBatch, kIn}, nn::init::normal(1));
      std::vector<nn::RecurrentState> states;
      if (!from_zero) states = initial_states(params, 3, cell == nn::Cell::lstm);
      const Tensor g = randn({kSteps, kBatch, kHidden}, DType::f64, 18);
      const auto [h, last] = stacked(x, {.initial = states});
      const Gradients whole = backward(test::weighted(h, g));

      Var loss = Var(scalar(0, DType::f64));
      const Var xw = stacked.input(x);
      for (Index t = 0; t < kSteps; ++t) {
        auto [top, next] = stacked.step(xw[t], states);
        CHECK(difference(top.value(), h.value()[t]) < 1e-13);
        loss = loss + test::weighted(top, g[t]);
        states = std::move(next);
      }
      REQUIRE(states.size() == 3);
      for (std::size_t l = 0; l < 3; ++l) {
        CHECK(difference(states[l].h.value(), last[l].h.value()) < 1e-13);
        CHECK(states[l].c.defined() == (cell == nn::Cell::lstm));
        if (!states[l].c.defined()) continue;
        CHECK(difference(states[l].c.value(), last[l].c.value()) < 1e-13);
      }
      const Gradients stepped = backward(loss);
      for (const auto& [name, w] : params) {
        CAPTURE_BINDING(name);
        CHECK(difference(stepped[w], whole[w]) < 1e-12);
      }
    }
  }
}

TEST_CASE("Stacked: dropout is between the layers, in training only") {
  nn::Parameters params(3, DType::f64), plain(3, DType::f64);
  const nn::Stacked<nn::Lstm> stacked(params, 4, 6, {.dropout = 0.5});
  const nn::Lstm first(nn::Scope(plain) / "layer1", 4, 6);
  const nn::Lstm second(nn::Scope(plain) / "layer2", 6, 6);
  const Tensor x = randn({5, 3, 4}, DType::f64, 4);
  CHECK(identical(stacked(x).h.value(), second(first(x).h).h.value()));
  Random random(6), same(6);
  Tensor dropped, by_hand;
  {
    const nn::Training training(random);
    dropped = stacked(x).h.value();
  }
  {
    const nn::Training training(same);
    by_hand = second(nn::Dropout(0.5)(first(x).h)).h.value();
  }
  CHECK(identical(dropped, by_hand));
  CHECK(random.state() == same.state());
  CHECK_FALSE(identical(dropped, stacked(x).h.value()));
}

TEST_CASE("Stacked: residual connections go around the dropout") {
  nn::Parameters params(3, DType::f64), plain(3, DType::f64);
  const nn::Stacked<nn::Gru> stacked(params, 4, 6, {.dropout = 0.5, .residual = true});
  const nn::Gru first(nn::Scope(plain) / "layer1", 4, 6);
  const nn::Gru second(nn::Scope(plain) / "layer2", 6, 6);
  const Tensor x = randn({3, 4}, DType::f64, 4);
  Random random(6), same(6);
  Tensor dropped, by_hand;
  {
    const nn::Training training(random);
    dropped = stacked.step(stacked.input(x), {}).h.value();
  }
  {
    const nn::Training training(same);
    const Var below = first.step(first.input(x), {}).h;
    by_hand = (second.step(second.input(nn::Dropout(0.5)(below)), {}).h + below).value();
  }
  CHECK(identical(dropped, by_hand));
}

TEST_CASE("Stacked: dropout per sequence has one mask per gap, in a run and step by step") {
  nn::Parameters params(3, DType::f64), plain(3, DType::f64);
  const nn::Stacked<nn::Gru> stacked(
      params, kIn, kHidden,
      {.layers = 3, .dropout = 0.5, .dropout_kind = nn::DropoutKind::per_sequence});
  const nn::Scope scope(plain);
  const nn::Gru first(scope / "layer1", kIn, kHidden), second(scope / "layer2", kHidden, kHidden);
  const nn::Gru third(scope / "layer3", kHidden, kHidden);
  const Tensor x = randn({kSteps, kBatch, kIn}, DType::f64, 4);
  Random random(6), same(6);
  Tensor whole;
  {
    const nn::Training training(random);
    whole = stacked(x).h.value();
  }
  const nn::Training training(same);
  const std::vector<Tensor> masks = stacked.draw_masks(kBatch, DType::f64);
  REQUIRE(masks.size() == 2);
  CHECK(masks[0].shape() == Shape{kBatch, kHidden});
  CHECK(identical(whole, third(second(first(x).h * masks[0]).h * masks[1]).h.value()));
  std::vector<nn::RecurrentState> states;
  for (Index t = 0; t < kSteps; ++t) {
    auto [top, next] = stacked.step(stacked.input(x[t]), states, masks);
    CHECK(difference(top.value(), whole[t]) < 1e-13);
    states = std::move(next);
  }
  CHECK(random.state() == same.state());
}

TEST_CASE("Stacked: gradients through dropout per sequence agree with differences") {
  nn::Parameters params(11, DType::f64);
  const Stack stacked(params, kIn, kHidden,
                      {.layers = 2, .dropout = 0.4, .dropout_kind = nn::DropoutKind::per_sequence},
                      {.cell = nn::Cell::lstm});
  const Var x = params.add("x", {kSteps, kBatch, kIn}, nn::init::normal(1));
  CHECK(gradcheck(params, [&] {
    Random random(6);  // the same masks at every call
    const nn::Training training(random);
    return flat(stacked(x, {.mask = test::ragged_mask(kSteps, kLengths)}));
  }));
}

TEST_CASE("Stacked: there are masks to share in training only, and per sequence") {
  nn::Parameters params;
  const nn::Scope scope(params);
  const auto count = [&](const char* name, const nn::StackedOptions& options) {
    return nn::Stacked<nn::Gru>(scope / name, 4, 3, options).draw_masks(2, DType::f32).size();
  };
  using nn::DropoutKind;
  CHECK(count("a", {.dropout = 0.5, .dropout_kind = DropoutKind::per_sequence}) == 0);
  Random random(6);
  const nn::Training training(random);
  CHECK(count("b", {.dropout = 0.5, .dropout_kind = DropoutKind::per_sequence}) == 1);
  CHECK(count("c", {.dropout = 0.5}) == 0);
  CHECK(count("d", {.dropout_kind = DropoutKind::per_sequence}) == 0);
}

TEST_CASE("Stacked: the lowest layer's state goes through a transition on its way up") {
  nn::Parameters params(3, DType::f64), plain(3, DType::f64);
  const nn::Stacked<nn::Lstm> stacked(params, 4, 6);
  const nn::Lstm first(nn::Scope(plain) / "layer1", 4, 6),
      second(nn::Scope(plain) / "layer2", 6, 6);
  const Tensor x = randn({3, 4}, DType::f64, 4);
  const auto transition = [](const nn::RecurrentState& state) {
    return nn::RecurrentState{.h = state.h * 2.0, .c = state.c + 1.0};
  };
  const auto [h, last] = stacked.step(stacked.input(x), {}, {}, transition);
  const nn::RecurrentState below = transition(first.step(first.input(x), {}));
  CHECK(identical(h.value(), second.step(second.input(below.h), {}).h.value()));
  CHECK(identical(last[0].h.value(), below.h.value()));
  CHECK(identical(last[0].c.value(), below.c.value()));
  CHECK(identical(last[1].h.value(), h.value()));
}

TEST_CASE("Stacked: parameters are named by layer, the lowest first, and start each differently") {
  nn::Parameters params;
  const nn::Stacked<nn::Lstm> stacked(nn::Scope(params) / "decoder", 3, 3, {.layers = 2});
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
  const nn::Stacked<nn::Gru> stacked(params, 4, 3, {.layers = 2}, {.form = GruForm::reset_before});
  CHECK_FALSE(params.contains("layer1.b_hn"));
  CHECK_FALSE(params.contains("layer2.b_hn"));
}

TEST_CASE("Stacked: of layers in both directions each reads both of the one below") {
  nn::Parameters params(3, DType::f64), plain(3, DType::f64);
  const nn::Stacked<nn::Bidirectional<nn::Lstm>> stacked(params, kIn, kHidden, {.layers = 2},
                                                         {.forget_bias = 0.5});
  const nn::Bidirectional<nn::Lstm> first(nn::Scope(plain) / "layer1", kIn, kHidden,
                                          {.forget_bias = 0.5});
  const nn::Bidirectional<nn::Lstm> second(nn::Scope(plain) / "layer2", 2 * kHidden, kHidden,
                                           {.forget_bias = 0.5});
  CHECK(stacked.size() == 2 * kHidden);
  const Tensor x = randn({kSteps, kBatch, kIn}, DType::f64, 4),
               mask = test::ragged_mask(kSteps, kLengths);
  const nn::BothWays<> none;
  const nn::BothWays<> initial{.forward = {.h = randn({kBatch, kHidden}, DType::f64, 5)},
                               .backward = {}};
  const auto [h, last] = stacked(x, {.mask = mask, .initial = {none, initial}});
  const auto expected = second(first(x, {.mask = mask}).h, {.mask = mask, .initial = initial});
  CHECK(identical(h.value(), expected.h.value()));
  CHECK(identical(last[1].backward.c.value(), expected.last.backward.c.value()));
  // Turned round, the layers exchange their directions.
  const auto turned = first(x, {.mask = mask, .direction = Direction::backward});
  CHECK_FALSE(identical(turned.h.value(), first(x, {.mask = mask}).h.value()));
  CHECK(identical(turned.last.forward.h.value(), slice(turned.h.value()[0], 1, 0, kHidden)));
}

TEST_CASE("Stacked: knows how many gates its layers have") {
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
  CHECK_THROWS_WITH_AS(make({.layers = 0}), "Stacked: layers = 0 is not in [1, inf)", Error);
  CHECK_THROWS_WITH_AS(make({.dropout = 1}), "dropout: the rate 1 is not in [0, 1)", Error);
  const nn::Stacked<nn::Gru> stacked(scope / "good", 4, 3, {.layers = 2});
  const Tensor x = randn({5, 2, 4}, DType::f64);
  CHECK_THROWS_WITH_AS(stacked(x, {.initial = {{}, {}, {}}}),
                       "Stacked: there are 3 states for 2 layers", Error);
  CHECK_THROWS_WITH_AS(stacked.step(stacked.input(x[0]), {{}}),
                       "Stacked: there are 1 states for 2 layers", Error);
  CHECK_THROWS_WITH_AS(stacked.step(stacked.input(x[0]), {}, {ones({2, 3}), ones({2, 3})}),
                       "Stacked: there are 2 masks for 2 layers", Error);
  CHECK_NOTHROW(stacked.step(stacked.input(x[0]), {{}, {}}));
}

}  // namespace
