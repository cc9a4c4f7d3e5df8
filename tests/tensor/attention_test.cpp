#include <limits>

#include <doctest/doctest.h>

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fused_attention.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/scores.hpp>

#include "support/capture.hpp"
#include "support/naive.hpp"

namespace attune {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// (S, B, A) of tanh(q + k)
Tensor activations(const Tensor& q, const Tensor& k) {
  return naive::zip(q, k, [](double x, double y) { return std::tanh(x + y); });
}

}  // namespace

TEST_CASE("additive_scores_forward: batches and keys of many sizes are what the formula gives") {
  for (const Shape& shape : {Shape{4, 3, 5}, Shape{1, 1, 1}, Shape{7, 19, 67}, Shape{3, 2, 3000}}) {
    const Tensor k = randn(shape, DType::f64), q = randn({shape[1], shape[2]}, DType::f64, 2),
                 v = randn({shape[2]}, DType::f64, 3);
    const Tensor expected = naive::sum(activations(q, k) * v, {2});
    CHECK(difference(additive_scores_forward(q, k, v), expected) <= 1e-12);
  }
}

TEST_CASE("additive_scores_backward: dq, dv and dk are what the chain rule gives") {
  for (const Shape& shape : {Shape{4, 3, 5}, Shape{7, 19, 67}}) {
    const Tensor k = randn(shape, DType::f64), q = randn({shape[1], shape[2]}, DType::f64, 2),
                 v = randn({shape[2]}, DType::f64, 3);
    const Tensor de = randn({shape[0], shape[1]}, DType::f64, 4);
    const Tensor t = activations(q, k), de_column = de.reshape({shape[0], shape[1], 1});
    const Tensor g = de_column * v * (1.0 - t * t);
    Tensor dk = randn(shape, DType::f64, 5);
    const Tensor dk_before = dk.clone();
    const AdditiveScoresBackward d = additive_scores_backward(q, k, v, de, dk);
    CHECK(difference(d.dq, naive::sum(g, {0})) <= 1e-12);
    CHECK(difference(d.dv, naive::sum(de_column * t, {0, 1})) <= 1e-12);
    CHECK(difference(dk, dk_before + g) <= 1e-12);
  }
}

TEST_CASE("additive_scores_backward: keys at padding, where de is 0, are not read") {
  const Tensor q = randn({2, 3}, DType::f64), v = randn({3}, DType::f64, 2),
               de = reals({2, 2}, {1, 2, 3, 0});
  const Tensor clean = randn({2, 2, 3}, DType::f64, 3);
  Tensor dirty = clean.clone();
  Tensor padding = dirty[1][1];
  fill(padding, nan);
  Tensor dk_clean = zeros(clean.shape(), DType::f64), dk_dirty = dk_clean.clone();
  const AdditiveScoresBackward expected = additive_scores_backward(q, clean, v, de, dk_clean);
  const AdditiveScoresBackward d = additive_scores_backward(q, dirty, v, de, dk_dirty);
  CHECK(identical(d.dq, expected.dq));
  CHECK(identical(d.dv, expected.dv));
  CHECK(identical(dk_dirty, dk_clean));
}

TEST_CASE("weighted_sum: forward and backward are sums over positions") {
  for (const Shape& shape : {Shape{4, 3, 5}, Shape{11, 19, 67}}) {
    const Tensor h = randn(shape, DType::f64), alpha = positive({shape[0], shape[1]}, 2);
    const Tensor dc = randn({shape[1], shape[2]}, DType::f64, 3);
    const Tensor alpha_column = alpha.reshape({shape[0], shape[1], 1});
    CHECK(difference(weighted_sum_forward(alpha, h), naive::sum(alpha_column * h, {0})) <= 1e-13);
    CHECK(difference(weighted_sum_backward_weights(alpha, h, dc), naive::sum(h * dc, {2})) <=
          1e-13);
    Tensor dh = randn(shape, DType::f64, 4);
    const Tensor expected = dh + alpha_column * dc;
    weighted_sum_backward_memory(alpha, dc, dh);
    CHECK(difference(dh, expected) <= 1e-14);
  }
}

TEST_CASE("weighted_sum: memory under a weight of 0 is not read") {
  const Tensor alpha = reals({2, 2}, {1, 0.5, 0, 0.5});
  const Tensor h = reals({2, 2, 1}, {3, 4, nan, 6}), dc = reals({2, 1}, {2, 10});
  CHECK(identical(weighted_sum_forward(alpha, h), reals({2, 1}, {3, 5})));
  CHECK(identical(weighted_sum_backward_weights(alpha, h, dc), reals({2, 2}, {6, 40, 0, 60})));
}

TEST_CASE("Attention kernels: a wrong shape is named with the letter that does not fit") {
  CHECK_ERROR("additive_scores: k (S, B, A) is (7, 64, 128), but B = 32 in q",
              additive_scores_forward(zeros({32, 128}), zeros({7, 64, 128}), zeros({128})));
  CHECK_ERROR("weighted_sum: memory (S, B, D) is (7, 4, 5), but B = 3 in weights",
              weighted_sum_forward(zeros({7, 3}), zeros({7, 4, 5})));
  CHECK_ERROR("weighted_sum: dtypes differ: f32 (7, 3) and f64 (7, 3, 5)",
              weighted_sum_forward(zeros({7, 3}), zeros({7, 3, 5}, DType::f64)));
}

TEST_CASE("attention_forward: norms are log-sums of scores, and +∞ for a query that sees no key") {
  const Tensor q = randn({4, 2, 6}, DType::f64), kv = randn({3, 2, 12}, DType::f64, 2);
  const Tensor mask = mask_of(3, {3, 2});
  const AttentionForward found =
      attention_forward(q, kv, {.heads = 2, .causal = true, .mask = mask});
  const naive::Array queries = q, keys = kv;
  for (Index b = 0; b < 2; ++b) {
    for (Index head = 0; head < 2; ++head) {
      for (Index t = 0; t < 4; ++t) {  // which sees the keys 0 .. t - 1
        double total = 0;
        for (Index s = 0; s < std::min<Index>(t, b == 0 ? 3 : 2); ++s) {
          double score = 0;
          for (Index i = 3 * head; i < 3 * head + 3; ++i)
            score += queries[{t, b, i}] * keys[{s, b, i}];
          total += std::exp(score / std::sqrt(3));
        }
        const double norm = found.norms.at<double>({b, head, t});
        if (t == 0) {
          CHECK(norm == std::numeric_limits<double>::infinity());
          CHECK(sum(found.y[t][b] * found.y[t][b]).item() == 0);
        } else {
          CHECK(std::abs(norm - std::log(total)) <= 1e-14);
        }
      }
    }
  }
}

TEST_CASE("attention: sizes of 0, and as many heads as elements") {
  const struct {
    Index T, S, B, D, heads;
  } cases[] = {{0, 3, 2, 4, 2}, {3, 0, 2, 4, 2}, {0, 0, 2, 4, 1},
               {3, 3, 0, 4, 2}, {3, 3, 2, 0, 1}, {3, 5, 2, 4, 4}};
  for (const bool causal : {false, true}) {
    for (const bool masked : {false, true}) {
      for (const auto& [T, S, B, D, heads] : cases) {
        CAPTURE_BINDING(T);
        const Tensor q = randn({T, B, D}, DType::f64), kv = randn({S, B, 2 * D}, DType::f64, 2);
        FusedAttentionOptions o{.heads = heads, .causal = causal, .dropout = 0.25};
        if (masked) o.mask = ones({S, B}, DType::f64);
        const AttentionForward y = attention_forward(q, kv, o);
        const AttentionBackward d = attention_backward(q, kv, o, y, ones(q.shape(), DType::f64));
        CHECK(y.y.shape() == q.shape());
        CHECK(d.dq.shape() == q.shape());
        CHECK(d.dkv.shape() == kv.shape());
        if (heads == 4) continue;
        for (const Tensor& zero : {y.y, d.dq, d.dkv}) CHECK(sum_of_squares(zero) == 0);
      }
    }
  }
}

TEST_CASE("attention: not a number in a query or a key reaches those who see it, and no others") {
  const Tensor q = randn({3, 2, 4}, DType::f64), kv = randn({3, 2, 8}, DType::f64, 2);
  const FusedAttentionOptions o{.heads = 2, .causal = true};
  const Tensor expected = attention_forward(q, kv, o).y;
  const auto finite = [](const Tensor& x) { return std::isfinite(sum(x).item()); };
  for (const bool of_key : {false, true}) {
    Tensor bad_q = q.clone(), bad_kv = kv.clone();
    (of_key ? bad_kv : bad_q).mutable_at<double>({1, 1, 0}) = nan;  // of the first head
    const Tensor y = attention_forward(bad_q, bad_kv, o).y;
    for (Index t = 0; t < 3; ++t) {
      CHECK(identical(y[t][0], expected[t][0]));
      CHECK(identical(y[t][1].slice(2, 4), expected[t][1].slice(2, 4)));
      CHECK(finite(y[t][1].slice(0, 2)) == (of_key ? t < 1 : t != 1));
    }
  }
}

}  // namespace attune
