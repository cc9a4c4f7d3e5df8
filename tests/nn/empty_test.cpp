// Batches of no sentences, and sequences of no steps: results of the right shape, and gradients
// that are zero; or an error that names the operation.
#include <functional>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/nn/transformer.hpp>

#include "nn/tools.hpp"

namespace attune::nn {
namespace {

constexpr Index kSize = 4;

/// Constructs a layer by name, and runs it on x (T, B, 4) and mask (T, B).
struct Case {
  std::string name;
  std::function<Var(const Scope&, const Var& x, const Tensor& mask)> run;
};

/// The first step (B, 4) of each sentence, or zeros.
Var first_of(const Var& x) { return x.dim(0) > 0 ? x[0] : zeros(x.shape().without(0), x.dtype()); }

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Cell cell : {Cell::lstm, Cell::gru, Cell::gru_reset_before}) {
    const std::string name = name_of(cell);
    all.push_back({name, [=](const Scope& scope, const Var& x, const Tensor& mask) {
                     const Recurrent layer(scope, kSize, 3, {.cell = cell});
                     const auto [h, last] = layer(x, {.mask = mask});
                     return test::flat({h, last.h, last.c});
                   }});
    all.push_back({name + " step", [=](const Scope& scope, const Var& x, const Tensor&) {
                     const Recurrent layer(scope, kSize, 3, {.cell = cell});
                     return layer.step(layer.input(first_of(x)), {}).h;
                   }});
  }
  all.push_back({"stacked both ways", [](const Scope& scope, const Var& x, const Tensor& mask) {
                   return Stacked<Bidirectional<Lstm>>(scope, kSize, 3)(x, {.mask = mask}).h;
                 }});
  for (const ScoreKind& kind : score_kinds()) {
    for (const Window window : {Window::global, Window::local_predictive}) {
      all.push_back(
          {kind.name, [&kind, window](const Scope& scope, const Var& x, const Tensor& mask) {
             const Attention attention(
                 make_score(scope, kSize, kSize, {.kind = kind.name, .attention = kSize}), scope,
                 kSize, {.window = window});
             const auto [context, weights, past] =
                 attention({.state = first_of(x)}, attention.precompute(x, mask));
             return test::flat({context, weights});
           }});
    }
  }
  all.push_back({"self-attention", [](const Scope& scope, const Var& x, const Tensor& mask) {
                   return MultiHeadAttention(scope, kSize, {.heads = 2}).self(x, mask);
                 }});
  for (const bool masked : {false, true}) {
    all.push_back({"joined steps", [masked](const Scope&, const Var& x, const Tensor& mask) {
                     return join_steps({x, masked ? mask : Tensor()}, 2).x;
                   }});
  }
  all.push_back({"linear", [](const Scope& scope, const Var& x, const Tensor&) {
                   return Linear(scope, kSize, 3)(x);
                 }});
  all.push_back({"layer norm", [](const Scope& scope, const Var& x, const Tensor&) {
                   return LayerNorm(scope, kSize)(x);
                 }});
  all.push_back({"embedding", [](const Scope& scope, const Var&, const Tensor& mask) {
                   return Embedding(scope, 5, kSize)(mask.to(DType::i32));
                 }});
  return all;
}

TEST_CASE("layers: an empty batch gives an empty result, and gradients of zero") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    Parameters params(1, DType::f64);
    const Var x = variable(zeros({3, 0, kSize}, DType::f64));
    const Var y = c.run(params, x, zeros({3, 0}, DType::f64));
    CHECK(y.size() == 0);
    const Gradients gradients = backward(sum(y));
    for (const auto& [name, w] : params) {
      if (const Tensor* g = gradients.find(w)) CHECK(sum(*g * *g).item() == 0);
    }
  }
}

TEST_CASE("layers: an empty sequence is an error only in recurrent layers") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    Parameters params(1, DType::f64);
    const Var x = variable(zeros({0, 2, kSize}, DType::f64));
    const std::string message = error_of([&] { c.run(params, x, zeros({0, 2}, DType::f64)); });
    const bool recurrent = c.name == "lstm" || c.name == "gru" || c.name == "gru_reset_before" ||
                           c.name == "stacked both ways";
    const std::string operation = c.name.starts_with("gru") ? "gru" : "lstm";
    const std::string place = c.name == "stacked both ways" ? ", in layer1.forward" : "";
    CHECK(message == (recurrent ? operation + ": the sequence has no steps" + place : "no error"));
  }
}

}  // namespace
}  // namespace attune::nn
