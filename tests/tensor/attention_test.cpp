#include <cmath>

#include <doctest/doctest.h>

#include <attune/tensor/kernels/fused_attention.hpp>
#include <attune/tensor/kernels/scores.hpp>
#include <attune/tensor/reduce.hpp>

#include "support/capture.hpp"
#include "support/naive.hpp"

namespace attune {

TEST_CASE("Attention kernels: a shape error names the argument and the letter") {
  CHECK_ERROR("weighted_sum: memory (S, B, D) is (7, 4, 5), but B = 3 in weights",
              weighted_sum_forward(zeros({7, 3}), zeros({7, 4, 5})));
  CHECK_ERROR("weighted_sum: dtypes differ: f32 (7, 3) and f64 (7, 3, 5)",
              weighted_sum_forward(zeros({7, 3}), zeros({7, 3, 5}, DType::f64)));
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
