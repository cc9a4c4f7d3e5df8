#include <limits>

#include <doctest/doctest.h>

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fused_attention.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/scores.hpp>

#include "support/capture.hpp"
#include "support/naive.hpp"

namespace attune {

TEST_CASE("Attention kernels: a shape error names the argument and the letter") {
  CHECK_ERROR("weighted_sum: memory (S, B, D) is (7, 4, 5), but B = 3 in weights",
              weighted_sum_forward(zeros({7, 3}), zeros({7, 4, 5})));
  CHECK_ERROR("weighted_sum: dtypes differ: f32 (7, 3) and f64 (7, 3, 5)",
              weighted_sum_forward(zeros({7, 3}), zeros({7, 3, 5}, DType::f64)));
}

TEST_CASE(
    "attention_forward: norms hold the maximum and the inverse sum; 0 for a query without keys") {
  const Tensor q = randn({4, 2, 6}, DType::f64), kv = randn({3, 2, 12}, DType::f64, 2);
  const Tensor mask = mask_of(3, {3, 2});
  const AttentionForward found =
      attention_forward(q, kv, {.heads = 2, .causal = true, .mask = mask});
  const naive::Array queries = q, keys = kv;
  for (Index b = 0; b < 2; ++b) {
    for (Index head = 0; head < 2; ++head) {
      for (Index t = 0; t < 4; ++t) {  // a query that attends to the keys 0 .. t - 1
        double total = 0;
        for (Index s = 0; s < std::min<Index>(t, b == 0 ? 3 : 2); ++s) {
          double score = 0;
          for (Index i = 3 * head; i < 3 * head + 3; ++i)
            score += queries[{t, b, i}] * keys[{s, b, i}];
          total += std::exp(score / std::sqrt(3));
        }
        const double largest = found.norms.at<double>({b, head, t, 0}),
                     factor = found.norms.at<double>({b, head, t, 1});
        if (t == 0) {
          CHECK(factor == 0);
          CHECK(sum(found.y[t][b] * found.y[t][b]).item() == 0);
        } else {
          CHECK(std::abs(largest - std::log(factor) - std::log(total)) <= 1e-14);
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

TEST_CASE("attention: a NaN in a query or key reaches only the results that depend on it") {
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
