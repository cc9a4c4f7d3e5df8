// A physics-informed network (Raissi, Perdikaris and Karniadakis, 2019): u(x) is learned from a
// differential equation alone, u″ + u = 0 with u(0) = 0 and u′(0) = 1. The loss contains u′ and u″.
#include <iostream>
#include <numbers>

#include <attune/attune.hpp>

using namespace attune;

/// u (N, 1) at the points x (N, 1)
class Network {
 public:
  explicit Network(const nn::Scope& scope)
      : first_(scope / "first", 1, 32), second_(scope / "second", 32, 32), u_(scope / "u", 32, 1) {}
  Var operator()(const Var& x) const { return u_(tanh(second_(tanh(first_(x))))); }

 private:
  nn::Linear first_, second_, u_;
};

/// u′ at the points x. As each u depends on its own x only, one gradient of the sum is enough.
Var derivative(const Var& u, const Var& x) { return grad(sum(u), x); }

/// The mean of (u″ + u)² over the points, and the squared errors of u(0) and u′(0)
Var loss(const Network& network, const Tensor& points) {
  const Var x = variable(points), u = network(x);
  const Var residual = derivative(derivative(u, x), x) + u;
  const Var start = variable(zeros({1, 1}, points.dtype())), u0 = network(start);
  return mean(square(residual)) + sum(square(u0) + square(derivative(u0, start) - 1));
}

int main() {
  Random random(/*seed=*/1);
  nn::Parameters params(/*seed=*/1, DType::f64);
  const Network network(params);
  const Tensor few = uniform({4, 1}, random, 0, 6, DType::f64);
  const GradcheckResult result = gradcheck(params, [&] { return loss(network, few); });
  std::cout << "loss with u′ and u″: " << result << "\n";

  nn::Adam adam(params);
  const nn::LinearDecay schedule{.rate = 5e-3, .steps = 3000};
  for (int step = 1; step <= 3000; ++step) {
    const Tensor points = uniform({64, 1}, random, 0, 2 * std::numbers::pi, DType::f64);
    const Var value = loss(network, points);
    adam.set_rate(schedule(adam.steps()));
    adam.step(backward(value));
    if (step % 500 == 0) std::cout << step << ": loss " << value.item() << "\n";
  }
  const Tensor x = linspace(0, 2 * std::numbers::pi, 100, DType::f64).reshape({100, 1});
  const double error = max(abs(network(x).value() - sin(x))).item();
  std::cout << "largest distance from sin x on [0, 2π]: " << error << "\n";
  return result && error < 0.02 ? 0 : 1;
}
