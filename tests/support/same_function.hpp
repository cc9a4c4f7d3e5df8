// Compares two functions of variables: values and gradients.
#pragma once

#include <functional>
#include <vector>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>

#include "support/naive.hpp"

namespace attune {

using Function = std::function<Var(const std::vector<Var>&)>;

/// Concatenates several results into one vector, so that a single cotangent covers them all.
inline Var joined(const std::vector<Var>& results) {
  std::vector<Var> flat;
  for (const Var& result : results) flat.push_back(reshape(result, {-1}));
  return concat(flat, 0);
}

/// The value of f, and its gradient with respect to each input for one random cotangent; undefined
/// if f does not depend on the input.
inline std::vector<Tensor> value_and_gradients(const Function& f,
                                               const std::vector<Tensor>& inputs) {
  std::vector<Var> vars;
  for (const Tensor& x : inputs) vars.push_back(variable(x));
  const Var y = f(vars);
  const Gradients gradients = backward(y, randn(y.shape(), y.dtype(), 77));
  std::vector<Tensor> results{y.value()};
  for (const Var& x : vars) {
    const Tensor* gradient = gradients.find(x);
    results.push_back(gradient ? *gradient : Tensor());
  }
  return results;
}

/// The largest difference between the values of f and g and between their gradients; infinite if
/// only one of them has a gradient.
inline double function_difference(const Function& f, const Function& g,
                                  const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> of_f = value_and_gradients(f, inputs),
                            of_g = value_and_gradients(g, inputs);
  double largest = 0;
  for (std::size_t i = 0; i < of_f.size(); ++i) {
    if (!of_f[i].defined() && !of_g[i].defined()) continue;
    largest = std::max(largest, difference(of_f[i], of_g[i]));
  }
  return largest;
}

}  // namespace attune
