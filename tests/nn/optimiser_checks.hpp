// What Adam and Sgd must both satisfy.
#pragma once

#include <initializer_list>
#include <string>
#include <tuple>
#include <utility>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/safetensors.hpp>

#include "nn/tools.hpp"

namespace attune::test {

/// Gradients with these values.
inline Gradients gradients_of(std::initializer_list<std::pair<Var, Tensor>> wanted) {
  Var loss;
  for (const auto& [w, g] : wanted) {
    const Var part = weighted(w, g);
    loss = loss.defined() ? loss + part : part;
  }
  return backward(loss);
}

inline void add_two(nn::Parameters& params) {
  params.add("a", {2, 3}, nn::init::normal(1));
  params.add("b", {5}, nn::init::normal(1));
}

/// Those of Σ (w - target)² / 2, where the targets are 1, -2, 4, ...
inline Gradients quadratic(const nn::Parameters& params) {
  Var loss;
  double target = 1;
  for (const auto& [name, w] : params) {
    const Var part = 0.5 * sum((w - target) * (w - target));
    loss = loss.defined() ? loss + part : part;
    target = -2 * target;
  }
  return backward(loss);
}

/// `make` makes an optimiser of parameters.
template <class Make>
void check_late_parameter(const std::string& name, Make make) {
  nn::Parameters params;
  const Var w = params.add("w", {2}, nn::init::zeros());
  auto optimiser = make(params);
  params.add("late", {3}, nn::init::zeros());
  CHECK_THROWS_WITH_AS(optimiser.step(gradients_of({{w, ones({2})}})),
                       (name + ": parameters were added after the optimiser was made").c_str(),
                       Error);
  CHECK(identical(w.value(), zeros({2})));
}

template <class Make>
void check_step_before_backward(Make make) {
  nn::Parameters params;
  const Var w = params.add("w", {2}, nn::init::constant(3));
  auto optimiser = make(params);
  const Var loss = sum(w * w);
  optimiser.step(gradients_of({{w, ones({2})}}));
  CHECK_THROWS_AS(std::ignore = backward(loss), Error);
}

template <class Make>
void check_goes_on(Make make) {
  nn::Parameters params(9), resumed(9);
  add_two(params);
  auto optimiser = make(params);
  for (int i = 0; i < 5; ++i) optimiser.step(quadratic(params));
  Safetensors file;
  optimiser.save(file);
  for (auto& [name, tensor] : file.tensors) tensor = tensor.clone();
  add_two(resumed);
  for (const auto& [name, w] : params) set(resumed, name, w.value());
  auto other = make(resumed);
  other.load(file);
  CHECK(other.steps() == 5);
  for (int i = 0; i < 5; ++i) {
    optimiser.step(quadratic(params));
    other.step(quadratic(resumed));
  }
  for (const auto& [name, w] : params) CHECK(identical(resumed[name].value(), w.value()));
}

}  // namespace attune::test
