// How to add an attention score: keys, computed once per source, and scores, computed per query.
#include <cmath>
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

/// e_ij = s_{i-1} W_a · h_j / √A:  the "general" score (Luong et al., 2015, section 3.1), scaled
class ScaledGeneralScore : public nn::Score {
 public:
  ScaledGeneralScore(const nn::Scope& scope, Index query, Index memory)
      : Score(scope),
        W_a_(scope.add("W_a", {query, memory}, nn::init::glorot())),
        scale_(1 / std::sqrt(memory)) {}

  /// The annotations, unchanged: (S, B, D)
  Var keys(const Var& memory) const override { return memory; }

  /// (B, Q) -> (S, B)
  Var operator()(const nn::Query& query, const nn::Keys& keys) const override {
    return sum(keys.k * matmul(query.state, W_a_), {-1}) * scale_;
  }

 private:
  Var W_a_;  // (Q, D)
  double scale_;
};

int main() {
  nn::Parameters params(/*seed=*/1, DType::f64);
  const nn::Attention attention(ScaledGeneralScore(params, /*query=*/4, /*memory=*/3));

  Random random(/*seed=*/2);
  const Tensor h = normal({5, 2, 3}, random, DType::f64);  // five positions, two sentences
  const Tensor s = normal({2, 4}, random, DType::f64);
  const Tensor mask = Tensor::of<double>({5, 2}, {1, 1, 1, 1, 1, 1, 1, 0, 1, 0});
  const auto [context, weights, past] = attention({.state = s}, attention.precompute(h, mask));
  std::cout << "weights " << to_string(weights.value()) << "\n";

  const GradcheckResult result = gradcheck(
      params, [&] { return attention({.state = s}, attention.precompute(h, mask)).context; });
  std::cout << "ScaledGeneralScore: " << result << "\n";
  return result ? 0 : 1;
}
