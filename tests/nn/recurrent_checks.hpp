// What every recurrent layer must satisfy, whichever its cell.
#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/nn/recurrent.hpp>

#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/golden.hpp"

namespace attune::test {

inline constexpr Index kSteps = 5, kBatch = 3, kIn = 4, kHidden = 6;
inline const std::vector<Index> kLengths = {5, 1, 3};

/// Initial states as parameters, so that their gradients are compared too.
inline nn::RecurrentState initial_state(nn::Parameters& params, Index batch, bool has_c) {
  nn::RecurrentState state{params.add("h0", {batch, kHidden}, nn::init::normal(0.5)), {}};
  if (has_c) state.c = params.add("c0", {batch, kHidden}, nn::init::normal(0.5));
  return state;
}

/// Gradients of all parameters, of x and of the initial states agree with central differences, with
/// parameters `scale` times their initial values.
template <class MakeLayer>
void check_gradients(MakeLayer make_layer, bool has_c, double scale, double step = 1e-3) {
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    nn::Parameters params(11, DType::f64);
    const auto layer = make_layer(params, kIn, kHidden);
    scale_parameters(params, scale);
    const Var x = params.add("x", {kSteps, kBatch, kIn}, nn::init::normal(1));
    const nn::RunOptions<> options{.mask = ragged_mask(kSteps, kLengths),
                                   .initial = initial_state(params, kBatch, has_c),
                                   .direction = direction};
    const auto run = [&] {
      const auto [h, last] = layer(x, options);
      return flat({h, last.h, last.c});
    };
    CHECK(gradcheck(params, run, {.step = step / scale}));
  }
}

/// A layer's results and the gradients of a weighted sum of them.
struct Traced {
  Tensor h, last_h, last_c;
  std::vector<Tensor> gradients;  // in the order of the parameters
};

template <class Layer>
Traced trace(const Layer& layer, const nn::Parameters& params, const Tensor& x,
             const nn::RunOptions<>& options, const Tensor& g_h, const Tensor& g_last) {
  const auto [h, last] = layer(x, options);
  Var loss = weighted(h, g_h) + weighted(last.h, g_last);
  if (last.c.defined()) loss = loss + weighted(last.c, 0.5 * g_last);
  const Gradients gradients = backward(loss);
  Traced traced{h.value(), last.h.value(), last.c.value(), {}};
  for (const auto& [name, w] : params) traced.gradients.push_back(gradients[w]);
  return traced;
}

/// A padded batch gives what its sentences give one by one: states after every word, last states,
/// and gradients.
template <class MakeLayer>
void check_padding(MakeLayer make_layer, bool has_c) {
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    nn::Parameters params(12, DType::f64);
    const auto layer = make_layer(params, kIn, kHidden);
    const Tensor mask = ragged_mask(kSteps, kLengths);
    // What stands at padding is far from the rest; its cotangent is zero.
    const Tensor words = mask.reshape({kSteps, kBatch, 1});
    const Tensor x = randn({kSteps, kBatch, kIn}, DType::f64, 13) * words + 7.5 * (1.0 - words);
    const Tensor g_h = randn({kSteps, kBatch, kHidden}, DType::f64, 14) * words;
    const Tensor g_last = randn({kBatch, kHidden}, DType::f64, 15),
                 h0 = randn({kBatch, kHidden}, DType::f64, 16);
    const auto state = [&](Index begin, Index end) {
      const Var h = h0.slice(begin, end);
      return nn::RecurrentState{.h = h, .c = has_c ? h * 0.5 : Var()};
    };
    const Traced padded =
        trace(layer, params, x, {.mask = mask, .initial = state(0, kBatch), .direction = direction},
              g_h, g_last);
    std::vector<Tensor> total;
    for (Index b = 0; b < kBatch; ++b) {
      const Index length = kLengths[static_cast<std::size_t>(b)];
      const Traced alone = trace(layer, params, sentence(x, b, length),
                                 {.initial = state(b, b + 1), .direction = direction},
                                 sentence(g_h, b, length), g_last.slice(b, b + 1));
      CHECK(difference(sentence(padded.h, b, length), alone.h) < 1e-12);
      CHECK(difference(padded.last_h.slice(b, b + 1), alone.last_h) < 1e-12);
      if (has_c) CHECK(difference(padded.last_c.slice(b, b + 1), alone.last_c) < 1e-12);
      for (std::size_t i = 0; i < alone.gradients.size(); ++i) {
        if (b == 0) {
          total.push_back(alone.gradients[i].clone());
        } else {
          add_in_place(total[i], alone.gradients[i]);
        }
      }
    }
    REQUIRE(total.size() == params.all().size());
    for (std::size_t i = 0; i < total.size(); ++i) {
      INFO(params.all()[i].name);
      CHECK(difference(padded.gradients[i], total[i]) < 1e-12);
    }
  }
}

/// Steps made one by one give the whole sequence, values and gradients, from the state given or
/// from none.
template <class MakeLayer>
void check_steps(MakeLayer make_layer, bool has_c) {
  for (const bool from_zero : {false, true}) {
    nn::Parameters params(17, DType::f64);
    const auto layer = make_layer(params, kIn, kHidden);
    const Var x = params.add("x", {kSteps, kBatch, kIn}, nn::init::normal(1));
    const nn::RecurrentState initial =
        from_zero ? nn::RecurrentState{} : initial_state(params, kBatch, has_c);
    const Tensor g = randn({kSteps, kBatch, kHidden}, DType::f64, 18);

    const auto [h, last] = layer(x, {.initial = initial});
    const Gradients whole = backward(weighted(h, g));

    Var loss = Var(scalar(0, DType::f64));
    nn::RecurrentState state = initial;
    for (Index t = 0; t < kSteps; ++t) {
      state = layer.step(layer.input(x[t]), state);
      CHECK(difference(state.h.value(), h.value()[t]) < 1e-14);
      CHECK(state.c.defined() == has_c);
      loss = loss + weighted(state.h, g[t]);
    }
    CHECK(difference(state.h.value(), last.h.value()) < 1e-14);
    if (has_c) CHECK(difference(state.c.value(), last.c.value()) < 1e-14);
    const Gradients stepped = backward(loss);
    for (const auto& [name, w] : params) {
      CAPTURE_BINDING(name);
      CHECK(difference(stepped[w], whole[w]) < 1e-13);
    }
  }
}

/// The states and gradients of a case of tests/golden.
template <class MakeLayer>
void check_golden(const Golden& golden, MakeLayer make_layer, Direction direction) {
  const bool has_c = golden.contains("c0");
  nn::Parameters params(1, DType::f64);
  const auto layer = make_layer(params, golden["x"].dim(2), golden["h0"].dim(1));
  for (const auto& [name, w] : params) set(params, name, golden[name]);
  const auto add = [&](const char* name) {
    const Tensor values = golden[name];
    return params.add(name, values.shape(), [=](Tensor& to, Random&) { copy(values, to); });
  };
  const Var x = add("x");
  nn::RecurrentState initial{add("h0"), {}};
  if (has_c) initial.c = add("c0");
  const Tensor mask = golden["mask"];

  const auto [h, last] = layer(x, {.mask = mask, .initial = initial, .direction = direction});
  // The file has zeros at padding, where the state is carried over here.
  CHECK(difference(h.value() * mask.reshape({mask.dim(0), mask.dim(1), 1}), golden["h"]) < 1e-10);
  CHECK(difference(last.h.value(), golden["h_last"]) < 1e-10);
  Var loss = weighted(h, golden["g_h"]) + weighted(last.h, golden["g_h_last"]);
  if (has_c) {
    CHECK(difference(last.c.value(), golden["c_last"]) < 1e-10);
    loss = loss + weighted(last.c, golden["g_c_last"]);
  }
  const Gradients gradients = backward(loss);
  for (const auto& [name, w] : params) {
    CAPTURE_BINDING(name);
    CHECK(difference(gradients[w], golden["d_" + name]) < 1e-10);
  }
}

}  // namespace attune::test
