// How to add a layer: an ordinary class that creates its parameters in a Scope.
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

/// Highway layer (Srivastava et al., 2015):
///     y = t ⊙ tanh(x W_H + b_H) + (1 - t) ⊙ x,   t = σ(x W_T + b_T)
class Highway {
 public:
  Highway(const nn::Scope& scope, Index n)
      : transform_(scope / "transform", n, n),
        gate_(scope / "gate", n, n, {.bias_init = nn::init::constant(-2)}) {}

  /// (..., n) -> (..., n)
  Var operator()(const Var& x) const {
    Var t = sigmoid(gate_(x));
    return t * tanh(transform_(x)) + (1 - t) * x;
  }

 private:
  nn::Linear transform_, gate_;
};

int main() {
  nn::Parameters params(/*seed=*/1, DType::f64);
  const Highway highway(params, 5);
  for (const auto& [name, w] : params) std::cout << name << " " << to_string(w.shape()) << "\n";

  Random random(/*seed=*/2);
  const Tensor x = normal({2, 3, 5}, random, DType::f64);
  const GradcheckResult result = gradcheck(params, [&] { return highway(x); });
  std::cout << "Highway: " << result << "\n";
  return result ? 0 : 1;
}
