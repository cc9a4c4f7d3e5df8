#include <cmath>

#include <doctest/doctest.h>

#include <attune/autograd/ops.hpp>
#include <attune/nn/self_attention.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/random.hpp>

namespace attune::nn {
namespace {

constexpr Index kSteps = 4, kBatch = 3, kSize = 6;

/// Sentences of 4, 2 and 1 words.
Tensor ragged_mask() {
  return Tensor::of<double>({kSteps, kBatch}, {1, 1, 1, 1, 1, 0, 1, 0, 0, 1, 0, 0});
}

/// The equations, one place and one head at a time.
std::vector<double> by_loops(const Parameters& params, const Tensor& x, const Tensor& mask,
                             Index heads, bool causal) {
  const auto product = [](const Tensor& a, const Var& w) {
    return matmul(a, w.value()).to_vector<double>();
  };
  const std::vector<double> q = product(x, params["W_q"]), k = product(x, params["W_k"]),
                            v = product(x, params["W_v"]);
  const std::vector<double> words = mask.to_vector<double>();
  const Index width = kSize / heads;
  std::vector<double> read(q.size(), 0);
  for (Index t = 0; t < kSteps; ++t) {
    for (Index b = 0; b < kBatch; ++b) {
      for (Index head = 0; head < heads; ++head) {
        const auto at = [&](Index step, Index i) {
          return static_cast<std::size_t>((step * kBatch + b) * kSize + head * width + i);
        };
        std::vector<double> e(kSteps, 0);
        double total = 0;
        for (Index s = 0; s < kSteps; ++s) {
          if (words[static_cast<std::size_t>(s * kBatch + b)] == 0 || (causal && s > t)) continue;
          double score = 0;
          for (Index i = 0; i < width; ++i) score += q[at(t, i)] * k[at(s, i)];
          total += e[static_cast<std::size_t>(s)] =
              std::exp(score / std::sqrt(static_cast<double>(width)));
        }
        for (Index s = 0; s < kSteps; ++s) {
          for (Index i = 0; i < width; ++i)
            read[at(t, i)] += e[static_cast<std::size_t>(s)] / total * v[at(s, i)];
        }
      }
    }
  }
  const Tensor flat = Tensor::of(x.shape(), std::span<const double>(read));
  return (matmul(flat, params["output.W"].value()) + params["output.b"].value())
      .to_vector<double>();
}

TEST_CASE("SelfAttention: it is what the equations give, place by place and head by head") {
  for (Index heads : {1, 2, 3}) {
    for (Causal causal : {Causal::no, Causal::yes}) {
      CAPTURE(heads);
      Parameters params(heads, DType::f64);
      const SelfAttention layer(params, kSize, {.heads = heads, .causal = causal});
      const Tensor x = randn({kSteps, kBatch, kSize}, DType::f64);
      const std::vector<double> expected =
          by_loops(params, x, ragged_mask(), heads, causal == Causal::yes);
      const std::vector<double> actual = layer(x, ragged_mask()).y.value().to_vector<double>();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("SelfAttention: gradients are central differences, also at ten times initial values") {
  for (double factor : {1.0, 10.0}) {
    for (Causal causal : {Causal::no, Causal::yes}) {
      Parameters params(1, DType::f64);
      const SelfAttention layer(params, kSize, {.heads = 2, .causal = causal});
      const Var x = params.add("x", {kSteps, kBatch, kSize}, init::normal(0.3));
      for (const auto& [name, w] : params) {
        Tensor values = w.value();
        for (Index i = 0; i < values.size() && name != "x"; ++i)
          values.mutable_data<double>()[i] *= factor;
      }
      CHECK(gradcheck(params, [&] { return layer(x, ragged_mask()).y; }, {.step = 2e-4}));
    }
  }
}

TEST_CASE(
    "SelfAttention: weights are exactly 0 on padding and, where it is causal, on later places") {
  Parameters params(1, DType::f64);
  const SelfAttention layer(params, kSize, {.heads = 2, .causal = Causal::yes});
  const Tensor weights =
      layer(randn({kSteps, kBatch, kSize}, DType::f64), ragged_mask()).weights.value();
  REQUIRE(weights.shape() == Shape{2, kBatch, kSteps, kSteps});
  const double* w = weights.data<double>();
  const Index lengths[] = {4, 2, 1};
  for (Index i = 0; i < weights.size(); ++i) {
    const Index s = i % kSteps, t = i / kSteps % kSteps, b = i / (kSteps * kSteps) % kBatch;
    CHECK((w[i] == 0) == (s > t || s >= lengths[b]));
  }
}

TEST_CASE("SelfAttention: a padded sentence gives what it gives alone") {
  Parameters params(1, DType::f64);
  const SelfAttention layer(params, kSize, {.heads = 3});
  const Tensor x = randn({kSteps, kBatch, kSize}, DType::f64);
  const Var all = layer(x, ragged_mask()).y;
  const Var alone = layer(slice(slice(Var(x), 1, 1, 2), 0, 0, 2)).y;  // the second, of two words
  for (Index t = 0; t < 2; ++t) {
    const std::vector<double> expected = alone.value()[t].to_vector<double>();
    const std::vector<double> actual = all.value()[t][1].to_vector<double>();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-12));
    }
  }
}

TEST_CASE("SelfAttention: heads that do not divide the size are an error") {
  Parameters params;
  CHECK_THROWS_WITH_AS(SelfAttention(params, 6, {.heads = 4}),
                       "SelfAttention: 4 heads do not divide a size of 6", Error);
}

}  // namespace
}  // namespace attune::nn
