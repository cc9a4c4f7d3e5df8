// How to add a layer, and a cell of a recurrent layer: ordinary classes that create their parameters
// in a Scope.
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

/// minGRU (Feng et al., 2024): h_t = (1 - z_t) ⊙ h_{t-1} + z_t ⊙ h̃_t,   [z_t; h̃_t] = [σ; 1](x_t W + b)
class MinGru {
 public:
  MinGru(const nn::Scope& scope, Index in, Index hidden) : W_(scope, in, 2 * hidden), H_(hidden) {}
  Index gates() const { return 2; }
  Index size() const { return H_; }

  /// Of all steps: (..., in) -> (..., 2H)
  Var input(const Var& x) const { return W_(x); }
  /// One step: (B, 2H), old state -> new state
  nn::RecurrentState step(const Var& xw, const nn::RecurrentState& old) const {
    const Var z = sigmoid(slice(xw, -1, 0, H_)), candidate = slice(xw, -1, H_, 2 * H_);
    return {.h = (1 - z) * old.h + z * candidate};
  }

 private:
  nn::Linear W_;
  Index H_;
};

int main() {
  nn::Parameters params(/*seed=*/1, DType::f64);
  const Highway highway(params, 5);
  for (const auto& [name, w] : params) std::cout << name << " " << to_string(w.shape()) << "\n";

  Random random(/*seed=*/2);
  const Tensor x = normal({2, 3, 5}, random, DType::f64);
  const GradcheckResult result = gradcheck(params, [&] { return highway(x); });
  std::cout << "Highway: " << result << "\n";

  // Encoders and decoders take the cell by the same option: models::BahdanauOptions::cell.
  nn::Parameters others(/*seed=*/1, DType::f64);
  const nn::Bidirectional<nn::Recurrent> layer(others, 5, 4, {.cell = nn::own_cell<MinGru>});
  const Mask mask = mask_of(std::vector<Index>{2, 1, 2});
  const GradcheckResult of_cell = gradcheck(others, [&] { return layer(x, {.mask = mask}).h; });
  std::cout << "MinGru: " << of_cell << "\n";
  return result && of_cell ? 0 : 1;
}
