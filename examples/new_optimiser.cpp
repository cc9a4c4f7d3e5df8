// How to add an optimiser: its slots (state per parameter), the update rule, and a check of both.
#include <cmath>
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

struct LionOptions {
  double rate = 1e-4;  // α
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;  // λ
};

/// Lion (Chen et al., 2023, algorithm 2):
///     w -= α (sign(β₁ m + (1 - β₁) g) + λ w),   m = β₂ m + (1 - β₂) g
/// In a checkpoint: "lion.m.PATH", "lion.steps".
class Lion : public nn::Optimiser {
 public:
  explicit Lion(nn::Parameters& parameters, const LionOptions& options = {})
      : Optimiser(parameters, "Lion", "lion", options.rate, options.weight_decay),
        options_(options) {
    add_slot("lion.m");
  }

 private:
  void update(std::size_t i, Tensor w, const Tensor& g) override {
    Tensor& m = slot(0, i);
    const double beta1 = options_.beta1, beta2 = options_.beta2;
    copy(w - rate_ * (sign(beta1 * m + (1 - beta1) * g) + weight_decay_ * w), w);
    m = beta2 * m + (1 - beta2) * g;
  }

  LionOptions options_;
};

int main() {
  nn::Parameters params(/*seed=*/1, DType::f64);
  const Var w = params.add("w", {}, nn::init::constant(1.05));
  const auto loss = [&] { return square(w - 1); };  // its gradient is 2 (w - 1)
  const LionOptions options{.rate = 0.1, .beta1 = 0.9, .beta2 = 0.2, .weight_decay = 0.5};
  Lion lion(params, options);
  lion.step(backward(loss()));
  Safetensors saved, last;
  lion.save(saved);
  Lion resumed(params, options);
  resumed.load(saved);
  resumed.step(backward(loss()));
  resumed.save(last);

  // The expected values. In the second step, m determines the sign, not g.
  const double w1 = 1.05 - 0.1 * (1 + 0.5 * 1.05), m1 = 0.8 * 2 * 0.05, g = 2 * (w1 - 1);
  const double w2 = w1 - 0.1 * (1 + 0.5 * w1), m2 = 0.2 * m1 + 0.8 * g;
  const double m = last.find("lion.m.w")->item();
  std::cout << "Lion, two steps: w " << w.item() << ", m " << m << "; expected: " << w2 << ", "
            << m2 << "\n";
  const bool equal = std::abs(w.item() - w2) < 1e-12 && std::abs(m - m2) < 1e-12;
  return equal && last.metadata.at("lion.steps") == "2" ? 0 : 1;
}
