// How to add a function from scores to attention weights, with a state that decoders carry from step
// to step.
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

/// Expected alignment of monotonic attention (Raffel et al., 2017, equations 7 and 9); Σ_j α_ij ≤ 1:
///     p_ij = σ(e_ij + r),   α_ij = p_ij Σ_{k≤j} α_{i-1,k} Π_{k≤l<j} (1 - p_il)
class Monotonic : public nn::Normalizer {
 public:
  explicit Monotonic(const nn::Scope& scope) : r_(scope.add("r", {1}, nn::init::constant(-1))) {}

  nn::Normalized operator()(const Var& e, const nn::Query& query,
                            const nn::Keys& keys) const override {
    const Index S = e.dim(-2);
    const Tensor j = unsqueeze(arange(S), -1);  // (S, 1)
    const Var x = where(keys.mask, e + r_, -1e9);
    const Var skipped = pad(cumsum(slice(-softplus(x), -2, 0, S - 1), -2), -2, 1, 0);
    // log Π_{k≤l<j} (1 - p_il), ≤ 0 for k ≤ j: (..., j, k, B)
    const Var between = minimum(unsqueeze(skipped, -2) - unsqueeze(skipped, -3), 0.0);
    const Var reached = where(unsqueeze(j >= arange(S), -1), exp(between), 0.0);
    const auto& past = query.past.state;
    const Var before = past.empty() ? Var((j == 0).to(e.dtype())) : past[0];
    const Var alpha = sigmoid(x) * sum(reached * unsqueeze(before, -3), {-2});
    return {alpha, {alpha}};
  }

 private:
  Var r_;
};

/// Window of K Gaussians (Graves, 2013, equations 46 to 51), which needs no score:
///     φ(u) = Σ_k α_k exp(-β_k (κ_k - u)²),   α, β, κ - κ_{t-1} = exp(h_t W + b)
class GaussianWindow : public nn::Normalizer {
 public:
  GaussianWindow(const nn::Scope& scope, Index query, Index K)
      : window_(scope, query, 3 * K, {.bias_init = nn::init::constant(-0.5)}), K_(K) {}

  nn::Normalized operator()(const Var&, const nn::Query& query,
                            const nn::Keys& keys) const override {
    const auto w = split(transpose(exp(window_(query.state)), 0, 1), {K_, K_, K_}, 0);  // (K, B)
    const Var kappa = query.past.state.empty() ? w[2] : query.past.state[0] + w[2];
    const Tensor u = unsqueeze(arange(keys.mask.dim(0), kappa.dtype()), -1);  // (S, 1)
    const Var distance = unsqueeze(kappa, 1) - u;                             // (K, S, B)
    const Var phi = unsqueeze(w[0], 1) * exp(-unsqueeze(w[1], 1) * square(distance));
    return {sum(phi, {0}) * keys.mask, {kappa}};
  }

 private:
  nn::Linear window_;
  Index K_;
};

/// Compares the gradients of the loss of a model with this attention with central differences.
template <class Make>
bool check(const char* name, Make attention) {
  nn::Parameters params(/*seed=*/1, DType::f64);
  models::BahdanauOptions options{.source_vocabulary = 7, .target_vocabulary = 7};
  options.embedding = options.hidden = options.readout = 4;
  const nn::Scope scope(params);
  const models::Nematus model(scope, options, attention(scope / "attention", 4, 8));
  const std::vector<text::Pair> pairs = {{{4, 5, 6, 4}, {5, 4, 6}}, {{6, 5}, {5, 6}}};
  const text::Batch batch = text::make_batch(pairs);
  const GradcheckResult result = gradcheck(params, [&] { return models::loss(model, batch); });
  std::cout << name << ": " << result << "\n";
  return static_cast<bool>(result);
}

int main() {
  const bool monotonic = check("Monotonic", [](const nn::Scope& scope, Index query, Index memory) {
    return nn::Attention(nn::AdditiveScore(scope, query, memory), Monotonic(scope));
  });
  const bool window = check("GaussianWindow", [](const nn::Scope& scope, Index query, Index) {
    return nn::Attention(GaussianWindow(scope, query, 3));
  });
  return monotonic && window ? 0 : 1;
}
