// How to add an operation: its value, its pullback, and a gradient check.
#include <cmath>
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

/// ELU (Clevert et al., 2016): y = x if x > 0, else eˣ - 1
Var elu(const Var& x) {
  Tensor y = map(x.value(), [](auto v) { return v > 0 ? v : std::expm1(v); });
  // dy/dx is 1 if x > 0, else eˣ = y + 1: backward needs only y.
  return record("elu", y).wrt(x, [y](const Tensor& dy) {
    return zip("elu", dy, y, [](auto d, auto v) { return v > 0 ? d : d * (v + 1); });
  });
}

int main() {
  // Compares the gradients of all elements with central differences in f64.
  Random random(/*seed=*/1);
  const GradcheckResult result = gradcheck(elu, normal({3, 4}, random, DType::f64));
  std::cout << "elu: " << result << "\n";
  return result ? 0 : 1;
}
