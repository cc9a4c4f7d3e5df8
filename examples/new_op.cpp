// How to add an operation: its value, its pullback, and a gradient check.
#include <cmath>
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

/// ELU (Clevert et al., 2016): y = x if x > 0, else eˣ - 1
Var elu(const Var& x) {
  const Tensor y = map(x.value(), [](auto v) { return v > 0 ? v : std::expm1(v); });
  // dy/dx is 1 if x > 0, else eˣ = y + 1. Written with Vars, the pullback has gradients itself.
  return record("elu", y).wrt(
      x, [](const Var& dy, const Var& y) { return where(y > 0, dy, dy * (y + 1)); });
}

int main() {
  // Compares the gradients of all elements with central differences in f64.
  Random random(/*seed=*/1);
  const GradcheckResult result = gradcheck(elu, normal({3, 4}, random, DType::f64), {.order = 2});
  std::cout << "elu: " << result << "\n";
  return result ? 0 : 1;
}
