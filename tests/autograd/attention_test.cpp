#include <cmath>

#include <doctest/doctest.h>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/grad.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/reference.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/random.hpp>

#include "support/same_function.hpp"

namespace attune {

TEST_CASE("additive_scores: a shape error names the argument and the letter") {
  const Var q = zeros({32, 128}), v = zeros({128});
  CHECK_ERROR("additive_scores: k (S, B, A) is (7, 64, 128), but B = 32 in q",
              additive_scores(q, zeros({7, 64, 128}), v));
  CHECK_ERROR("additive_scores: dtypes differ: f32 (32, 128) and f64 (128)",
              additive_scores(q, zeros({7, 32, 128}), zeros({128}, DType::f64)));
  CHECK_ERROR("additive_scores: coverage (S, B) is (5, 32), but S = 7 in k",
              additive_scores(q, zeros({7, 32, 128}), v, zeros({5, 32}), v));
}

TEST_CASE("weighted_sum: memory with a weight of 0 is not read, forward or backward") {
  const Tensor weights = reals({2, 2}, {0.5, 0.25, 0, 0.75});
  const Tensor memory = reals({2, 2, 3}, {1, 2, 3, 4, 5, 6, nan, nan, nan, 7, 8, 9});
  const Var w = variable(weights), h = variable(memory);
  const Var context = weighted_sum(w, h);
  CHECK(difference(context.value(), reals({2, 3}, {0.5, 1, 1.5, 6.25, 7.25, 8.25})) <= 1e-15);
  const Gradients gradients = backward(context, reals({2, 3}, {1, 10, 100, 2, 20, 200}));
  CHECK(identical(gradients[w], reals({2, 2}, {321, 1308, 0, 1974})));
  CHECK(difference(gradients[h],
                   reals({2, 2, 3}, {0.5, 5, 50, 0.5, 5, 50, 0, 0, 0, 1.5, 15, 150})) <= 1e-15);
}

TEST_CASE("attention: keys that no query attends to are not read, forward or backward") {
  const Var q = variable(ones({1, 2})),
            kv = variable(concat({Tensor::of<float>({1, 4}, {1, 2, 3, 4}), full({1, 4}, nan)}, 0));
  FusedAttentionOptions causal{.causal = true};
  causal.query_rows = Tensor::of<std::int32_t>({2, 1}, {0, -1});
  causal.key_rows = Tensor::of<std::int32_t>({2, 1}, {0, 1});
  const Var y = attention(q, kv, causal);
  CHECK(identical(y.value(), Tensor::of<float>({1, 2}, {3, 4})));
  const Gradients gradients = backward(sum(y));
  CHECK(identical(gradients[q], zeros({1, 2})));
  CHECK(identical(gradients[kv], Tensor::of<float>({2, 4}, {0, 0, 1, 1, 0, 0, 0, 0})));
}

TEST_CASE("attention: keys excluded for every query are not read, in backward and grad neither") {
  Tensor memory = randn({3, 1, 4}, DType::f64, 2);
  const Var q = variable(randn({2, 1, 2}, DType::f64)), bias = variable(zeros({2, 3}, DType::f64));
  FusedAttentionOptions by_keys{.mask = reals({3, 1}, {1, 0, 1})}, by_pairs;
  by_pairs.attention_mask = reals({1, 3}, {1, 0, 1});
  const Tensor expected = attention(q, memory, by_keys).value();
  for (Index i = 0; i < 4; ++i) memory.mutable_at<double>({1, 0, i}) = nan;
  for (const FusedAttentionOptions& o : {by_keys, by_pairs}) {
    const Var kv = variable(memory);
    const Var y = attention(q, kv, o, bias);
    CHECK(identical(y.value(), expected));
    const Gradients gradients = backward(sum(square(y)));
    CHECK(identical(gradients[kv][1], zeros({1, 4}, DType::f64)));
    CHECK(std::isfinite(sum(gradients[kv] + sum(gradients[bias]) + sum(gradients[q])).item()));
  }
  const Var kv = variable(memory), y = attention(q, kv, by_keys);
  CHECK(std::isfinite(sum(grad(sum(square(y)), {kv})[0].value()).item()));
  const Var none = variable(zeros({2, 0, 2}, DType::f64));
  CHECK(identical(backward(sum(attention(none, zeros({3, 0, 4}, DType::f64), {}, bias)))[bias],
                  zeros({2, 3}, DType::f64)));
}

TEST_CASE("attention: a query gives the same bits alone and among others") {
  const Tensor q = randn({300, 2, 8}), kv = randn({300, 2, 16});
  const Tensor all = attention(q, kv, {.heads = 2, .causal = true}).value();
  for (const Index t : {0, 5, 63, 64, 255, 299}) {
    INFO(t);
    CHECK(identical(attention(q.slice(t, t + 1), kv.slice(0, t + 1), {.heads = 2}).value(),
                    all.slice(t, t + 1)));
  }
}

TEST_CASE("attention_weights: the mean over the heads, 0 where a query or key takes no part") {
  const Tensor q = randn({70, 2, 8}, DType::f64), kv = randn({3, 2, 16}, DType::f64, 2);
  FusedAttentionOptions o{.heads = 2, .mask = reals({3, 2}, {1, 1, 1, 0, 0, 0})};
  const Tensor all = attention_weights(q, kv, o).value();
  REQUIRE(all.shape() == Shape{70, 2, 3, 2});
  CHECK(difference(attention_weights(q, kv, o, AttentionWeights::mean).value(), mean(all, {1})) <=
        1e-15);
  CHECK_FALSE(attention_weights(q, kv, o, AttentionWeights::no).defined());
  const Tensor query = arange(140, DType::f64).reshape({70, 2}).to(DType::i32);
  o.query_rows = where(query >= 3, query, -1);
  o.key_rows = where(o.mask != 0, zeros({3, 2}, DType::i32), -1), o.mask = {};
  const Tensor used = (query >= 3).to(DType::f64).reshape({70, 1, 1, 2});
  CHECK(identical(attention_weights(q, kv, o).value(), all * used));
  for (const auto which : {AttentionWeights::per_head, AttentionWeights::mean}) {
    CHECK(attention_weights(q.slice(0, 0), kv, {.heads = 2}, which).value().size() == 0);
    CHECK(attention_weights(q, kv.slice(0, 0), {.heads = 2}, which).value().size() == 0);
  }
}

TEST_CASE("attention: bf16 agrees with f32 up to its precision") {
  if (fastest_precision(Precision::bf16) == Precision::f32) return;
  const std::vector<Tensor> inputs{randn({70, 2, 16}), randn({300, 2, 32}, DType::f32, 2)};
  const Function f = [](const std::vector<Var>& v) {
    return attention(v[0], v[1], {.heads = 2, .causal = true});
  };
  const std::vector<Tensor> expected = value_and_gradients(f, inputs);
  const InPrecision in(Precision::bf16);
  const std::vector<Tensor> found = value_and_gradients(f, inputs);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(difference(found[i], expected[i]) > 0);
    CHECK(difference(found[i], expected[i]) <= 0.02);
  }
}

TEST_CASE("attention: storage without padding gives the bits and gradients of the padded form") {
  const Tensor mask = reals({4, 3}, {1, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0}).to(DType::f32);
  const auto row_of = [](std::vector<std::int32_t> rows) {
    return Tensor::of({4, 3}, std::span<const std::int32_t>(rows));
  };
  const Tensor q_rows = row_of({2, 0, 5, 6, 1, -1, 3, -1, -1, 4, -1, -1}),
               kv_rows = row_of({0, 2, -1, 1, -1, -1, 5, -1, 3, -1, 4, -1});
  const std::vector<Tensor> inputs{randn({7, 8}), randn({6, 16})};
  const auto padded = [](const Var& x, const Tensor& rows) {
    const Tensor row = maximum(rows, 0);
    return gather(x, row) * reshape(greater_equal(rows, 0).to(DType::f32), {4, 3, 1});
  };
  for (const double dropout : {0.0, 0.3}) {
    for (const bool causal : {false, true}) {
      const FusedAttentionOptions o{.heads = 2, .causal = causal, .dropout = dropout};
      FusedAttentionOptions with_mask = o, with_rows = o;
      with_mask.mask = mask;
      with_rows.query_rows = q_rows, with_rows.key_rows = kv_rows;
      const Function expected = [&](const std::vector<Var>& v) {
        const Var y = attention(padded(v[0], q_rows), padded(v[1], kv_rows), with_mask);
        return slice(scatter_add(zeros({8, 8}), where(q_rows >= 0, q_rows, 7), y), 0, 0, 7);
      };
      const Function packed = [&](const std::vector<Var>& v) {
        return attention(v[0], v[1], with_rows);
      };
      const auto of_padded = value_and_gradients(expected, inputs),
                 of_packed = value_and_gradients(packed, inputs);
      for (std::size_t i = 0; i < 3; ++i) CHECK(identical(of_packed[i], of_padded[i]));
    }
  }
}

TEST_CASE("attention: errors name what does not fit") {
  const Tensor q = zeros({2, 3, 4}), kv = zeros({5, 3, 8});
  CHECK_ERROR("attention: kv (S, B, 8) is (5, 3, 4), but 8 was expected",
              attention(q, zeros({5, 3, 4})));
  CHECK_ERROR("attention: 3 heads do not divide a size of 4", attention(q, kv, {.heads = 3}));
  CHECK_ERROR("attention: the dropout 1 is not in [0, 1)", attention(q, kv, {.dropout = 1}));
  CHECK_ERROR("attention: 2 heads of the keys do not divide 1 heads of the queries",
              attention(q, kv, {.kv_heads = 2}));
  CHECK_ERROR("attention: bias (5, 2) does not broadcast to (B, K, T, S) = (3, 1, 2, 5)",
              attention(q, kv, {}, zeros({5, 2})));
  CHECK_ERROR("attention_weights: 0 heads do not divide a size of 4",
              attention_weights(q, kv, {.heads = 0}));
  CHECK_ERROR("attention_weights: mask (S, B) is (3, 5), but S = 5 in kv",
              attention_weights(q, kv, {.mask = ones({3, 5})}));
  CHECK_ERROR("rotary: the base 0 is not in (0, inf)", rotary(q, arange(2), 1, 4, 0));
  CHECK_ERROR("rotary: positions i32 (3) do not fit x (2, 3, 4)", rotary(q, arange(3), 1, 4));
  const Tensor rows = Tensor::of({3, 1}, {0, 1, 0});
  CHECK_ERROR("attention: query_rows: row 0 occurs twice",
              attention(zeros({2, 4}), zeros({5, 1, 8}), {.query_rows = rows}));
  CHECK_ERROR("attention: mask and key_rows exclude each other",
              attention(zeros({2, 1, 4}), zeros({3, 8}),
                        {.mask = ones({2, 1}), .key_rows = rows.slice(0, 2)}));
  CHECK_ERROR("attention: key_rows: row 2 is missing",
              attention(zeros({2, 1, 4}), zeros({3, 8}), {.key_rows = rows.slice(0, 2)}));
  CHECK_ERROR("attention: kv (M, 8) is (5, 3, 8), but 2 axes were expected",
              attention(q, kv, {.key_rows = zeros({5, 3}, DType::i32)}));
}

TEST_CASE("attention_step: equals attention over each hypothesis's own keys, for any sizes") {
  struct Sizes {
    Index k, g, a, a_v;
  };
  const Index B = 3, entries = 40;
  const auto check = [](const Sizes& n, Index S, DType dtype) {
    CAPTURE(n.k);
    CAPTURE(n.a);
    CAPTURE(S);
    const Tensor q = randn({B, n.k * n.a}, dtype),
                 cache = randn({entries, n.g * (n.a + n.a_v)}, dtype, 2),
                 bias = randn({B, n.k, 1, S}, dtype, 3);
    std::vector<std::int32_t> all;
    for (Index i = 0; i < S * B; ++i)  // hypothesis 1 has no key
      all.push_back(i % B == 1 || i % 7 == 0 ? -1 : static_cast<std::int32_t>(i * 13 % entries));
    const Tensor rows = Tensor::of<std::int32_t>({S, B}, all);
    FusedAttentionOptions o{.heads = n.k, .kv_heads = n.g, .value_size = n.a_v};
    const AttentionStep step = attention_step(q, cache, rows, o, bias);
    CHECK_FALSE(attention_step(q, cache, rows, o, bias, false).weights.defined());
    for (std::int32_t b = 0; b < B; ++b) {  // the same bits alone
      const Tensor own = Tensor::of<std::int32_t>({1}, {b});
      const AttentionStep alone =
          attention_step(gather(q, own), cache, gather(rows, own, 1), o, gather(bias, own));
      CHECK(identical(alone.y[0], step.y[b]));
    }
    o.mask = Mask(rows >= 0);
    const Tensor kv = gather(cache, maximum(rows, 0)), query = q.reshape({1, B, -1});
    const double error = dtype == DType::f32 ? 3e-6 : 1e-14;
    CHECK(difference(step.y, attention(query, kv, o, bias).value()[0]) <= error);
    const Var weights = attention_weights(query, kv, o, AttentionWeights::per_head, bias);
    CHECK(difference(step.weights, weights.value()[0]) <= error);
  };
  for (const Sizes& n :
       {Sizes{1, 1, 1, 1}, {4, 2, 5, 3}, {2, 2, 16, 32}, {6, 1, 20, 17}, {4, 4, 32, 70}})
    for (const Index S : {1, 4, 11, 30})
      for (const DType dtype : {DType::f32, DType::f64}) check(n, S, dtype);
}

}  // namespace attune
