// How to add an operation: its value and its pullback side by side, and the check that they agree.
#include <algorithm>
#include <cmath>
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

/// ELU (Clevert et al., 2016): y = x where x > 0, and eˣ - 1 elsewhere
Var elu(const Var& x) {
  Tensor y = map(x.value(), [](auto v) { return v > 0 ? v : std::expm1(v); });
  // dy/dx is 1 where x > 0, and eˣ = y + 1 elsewhere: the result is all that backward needs.
  return record("elu", y).wrt(x, [y](const Tensor& dy) {
    return zip("elu", dy, y, [](auto d, auto v) { return v > 0 ? d : d * (v + 1); });
  });
}

int main() {
  // Central differences in float64, every element. This is the test of an operation.
  Random random(/*seed=*/1);
  const GradcheckResult result = gradcheck(elu, normal({3, 4}, random, DType::f64));
  std::cout << "elu: " << result << "\n";
  return result ? 0 : 1;
}
