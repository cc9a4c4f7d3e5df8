// Tensors that change between forward and backward: an error, or gradients of the old values.
#include <functional>
#include <optional>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/recurrent.hpp>
#include <attune/nn/transformer.hpp>
#include <attune/tensor/errors.hpp>

#include "tools.hpp"

namespace attune::nn {
namespace {

using Vars = std::vector<Var>;

/// A layer as a function of two sequences x (T, B, 4) and h (S, B, 4), to all of its results.
struct Layer {
  std::string name;
  std::function<std::function<Vars(const Tensor& x, const Tensor& h)>(const Scope&)> make;
};

std::vector<Layer> layers() {
  std::vector<Layer> all;
  const Mask mask = mask_of(4, {4, 2});
  for (const Cell kind : {Cell::lstm, Cell::gru, Cell::gru_reset_before}) {
    all.push_back(
        {name_of(kind), [=](const Scope& scope) {
           const Recurrent cell(scope, 4, 3, {.cell = kind});
           return [=](const Tensor& x, const Tensor&) -> Vars {
             const auto [h, last] = cell(x, {.mask = mask});
             const auto next = cell.step(cell.input(x[0]), last);
             return kind == Cell::lstm ? Vars{h, last.c, next.h, next.c} : Vars{h, next.h};
           };
         }});
  }
  for (const ScoreKind& kind : score_kinds()) {
    for (const Window window : {Window::global, Window::local_predictive}) {
      all.push_back({kind.name, [=](const Scope& scope) {
                       const ScoreOptions score{.kind = kind.name,
                                                .attention = 4,
                                                .heads = 2,
                                                .coverage = Coverage::summed,
                                                .radius = 1};
                       const Attention attention(make_score(scope, 4, 4, score), scope, 4,
                                                 {.window = window, .half_width = 1});
                       return [=](const Tensor& x, const Tensor& h) -> Vars {
                         const Memory memory = attention.precompute(h, mask);
                         const auto [c, alpha, past] = attention({.state = x[0]}, memory);
                         const auto [c_next, alpha_next, last] = attention({x[1], past}, memory);
                         return {c, alpha, c_next, alpha_next};
                       };
                     }});
    }
  }
  all.push_back({"transformer", [=](const Scope& scope) {
                   const TransformerLayer layer(scope, {.size = 4, .heads = 2, .inner = 5},
                                                Causal::yes, 4);
                   return [=](const Tensor& x, const Tensor& h) -> Vars {
                     return {layer(x, {}, layer.precompute(h, mask)).y};
                   };
                 }});
  all.push_back({"others", [](const Scope& scope) {
                   const Conv1d conv(scope / "conv", 4, 3);
                   const LayerNorm norm(scope / "norm", 3);
                   const Var table = Embedding(scope / "table", 5, 3).table();
                   return [=](const Tensor& x, const Tensor& h) -> Vars {
                     const Var y = norm(conv({x, {}}).x), z = conv({h, {}}).x;
                     return {y, matmul(y, table, {.b = true}), gather(table, arange(4)),
                             affine_cross_entropy(z, {table, {}, true}, zeros({2, 2}, DType::i32))};
                   };
                 }});
  return all;
}

/// Gradients of all parameters if tensor `changed` is filled with ones before backward: an input,
/// a parameter or a result; a larger index changes none. Empty if backward throws.
std::optional<std::vector<Tensor>> gradients(const Layer& layer, std::size_t changed) {
  Parameters parameters(1, DType::f64);
  const auto run = layer.make(parameters);
  const Var before = exp(variable(ones({1}, DType::f64)));  // older than the inputs
  std::vector<Tensor> kept{randn({4, 2, 4}, DType::f64, 2), randn({4, 2, 4}, DType::f64, 3)};
  Var loss = sum(before);
  for (int time = 0; time < 2; ++time) {
    for (const Var& y : run(kept[0], kept[1])) {
      kept.push_back(y.value());
      loss = loss + sum(y * randn(y.shape(), DType::f64, 9));
    }
  }
  for (const NamedVariable& parameter : parameters) kept.push_back(parameter.variable.value());
  if (changed < kept.size()) fill(kept[changed], 1);
  try {
    const Gradients all = backward(loss);
    return std::vector<Tensor>(all.all().begin(), all.all().end());
  } catch (const Error& error) {
    const std::string message = error.what();
    CHECK_MESSAGE(message.ends_with("was modified in place after the forward pass"), message);
    return {};
  }
}

TEST_CASE(
    "In place: what changes between forward and backward of a layer is an error or harmless") {
  for (const Layer& layer : layers()) {
    INFO(layer.name);
    constexpr std::size_t none = 99;
    const auto right = gradients(layer, none);
    REQUIRE(right);
    int errors = 0;
    for (std::size_t changed = 0; changed < 40; ++changed) {
      CAPTURE(changed);
      const auto found = gradients(layer, changed);
      errors += !found;
      CHECK((!found || std::ranges::equal(*found, *right, identical)));
    }
    CHECK(errors >= 2);
  }
}

}  // namespace
}  // namespace attune::nn
