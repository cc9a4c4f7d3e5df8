#include <algorithm>

#include <doctest/doctest.h>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/reference.hpp>
#include <attune/tensor/precision.hpp>

#include "support/same_function.hpp"
#include "support/threads_scope.hpp"

namespace attune {
namespace {

const std::vector<Tensor> score_inputs{randn({3, 5}, DType::f64), randn({4, 3, 5}, DType::f64, 2),
                                       randn({5}, DType::f64, 3)};

Var scores(const std::vector<Var>& v) { return additive_scores(v[0], v[1], v[2]); }
Var reference_scores(const std::vector<Var>& v) {
  return reference::additive_scores(v[0], v[1], v[2]);
}
constexpr auto fused = [](const Var& q, const Var& k, const Var& v) {
  return additive_scores(q, k, v);
};
constexpr auto meant = [](const Var& q, const Var& k, const Var& v) {
  return reference::additive_scores(q, k, v);
};
const std::vector<Tensor> covered_inputs{randn({3, 5}, DType::f64), randn({4, 3, 5}, DType::f64, 2),
                                         randn({5}, DType::f64, 3), positive({4, 3}, 4),
                                         randn({5}, DType::f64, 5)};

Var covered_scores(const std::vector<Var>& v) {
  return additive_scores(v[0], v[1], v[2], v[3], v[4]);
}
Var reference_covered_scores(const std::vector<Var>& v) {
  return reference::additive_scores(v[0], v[1], v[2], v[3], v[4]);
}
Var weighted(const std::vector<Var>& v) { return weighted_sum(v[0], v[1]); }
Var reference_weighted(const std::vector<Var>& v) { return reference::weighted_sum(v[0], v[1]); }

}  // namespace

TEST_CASE("additive_scores: each score is v · tanh(q + k)") {
  const naive::Array q(score_inputs[0]), k(score_inputs[1]), v(score_inputs[2]);
  naive::Array e(Shape{4, 3});
  naive::for_each_index(k.shape(), [&](const naive::At& at) {
    e[{at[0], at[1]}] += v[{at[2]}] * std::tanh(q[{at[1], at[2]}] + k[at]);
  });
  CHECK(difference(additive_scores(score_inputs[0], score_inputs[1], score_inputs[2]).value(),
                   e.tensor()) <= 1e-14);
}

TEST_CASE(
    "additive_scores: it is its reference in values and gradients, which are central differences") {
  CHECK(gradcheck(scores, score_inputs));
  CHECK(gradcheck(scores, {score_inputs[0] * 4.0, score_inputs[1] * 4.0, score_inputs[2] * 4.0}));
  CHECK(function_difference(scores, reference_scores, score_inputs) <= 1e-12);
  // Several tiles of sentences, and more elements than one tile of work.
  CHECK(function_difference(scores, reference_scores,
                            {randn({19, 37}, DType::f64, 4), randn({11, 19, 37}, DType::f64, 5),
                             randn({37}, DType::f64, 6)}) <= 1e-12);
}

TEST_CASE("additive_scores: several queries at once give the scores of each") {
  const std::vector<Tensor> inputs{randn({2, 3, 5}, DType::f64, 7), score_inputs[1],
                                   score_inputs[2]};
  const Function one_by_one = [](const std::vector<Var>& v) {
    return stack({additive_scores(v[0][0], v[1], v[2]), additive_scores(v[0][1], v[1], v[2])});
  };
  CHECK(function_difference(scores, one_by_one, inputs) == 0);
}

TEST_CASE("additive_scores: keys used by several words get the sum of their gradients") {
  const auto words = [](auto f) -> Function {
    return [f](const std::vector<Var>& v) {
      return joined({f(v[0], v[1], v[2]), f(tanh(v[0]), v[1], v[2]), f(2.0 * v[0], v[1], v[2])});
    };
  };
  CHECK(function_difference(words(fused), words(meant), score_inputs) <= 1e-12);
}

TEST_CASE("additive_scores: constant keys get no gradient and change nothing for the others") {
  const auto only_query = [](auto f) -> Function {
    return [f](const std::vector<Var>& v) { return f(v[0], score_inputs[1], score_inputs[2]); };
  };
  CHECK(function_difference(only_query(fused), only_query(meant), {score_inputs[0]}) <= 1e-12);
}

TEST_CASE("additive_scores: a wrong shape is named with the letter that does not fit") {
  const Var q = zeros({32, 128}), v = zeros({128});
  CHECK_ERROR("additive_scores: k (S, B, A) is (7, 64, 128), but B = 32 in q",
              additive_scores(q, zeros({7, 64, 128}), v));
  CHECK_ERROR("additive_scores: dtypes differ: f32 (32, 128) and f64 (128)",
              additive_scores(q, zeros({7, 32, 128}), zeros({128}, DType::f64)));
}

TEST_CASE("additive_scores with coverage: it is its reference in values and gradients") {
  CHECK(gradcheck(covered_scores, covered_inputs));
  CHECK(function_difference(covered_scores, reference_covered_scores, covered_inputs) <= 1e-12);
  CHECK(function_difference(covered_scores, reference_covered_scores,
                            {randn({19, 37}, DType::f64, 4), randn({11, 19, 37}, DType::f64, 5),
                             randn({37}, DType::f64, 6), positive({11, 19}, 7),
                             randn({37}, DType::f64, 8)}) <= 1e-12);
}

TEST_CASE("additive_scores: a coverage of other places is named") {
  CHECK_ERROR("additive_scores: coverage (S, B) is (5, 3), but S = 4 in k",
              additive_scores(covered_inputs[0], covered_inputs[1], covered_inputs[2],
                              zeros({5, 3}, DType::f64), covered_inputs[4]));
}

TEST_CASE("weighted_sum: gradients are central differences, and all is as in its reference") {
  const std::vector<Tensor> inputs{positive({4, 3}, 1), randn({4, 3, 5}, DType::f64, 2)};
  CHECK(gradcheck(weighted, inputs));
  CHECK(function_difference(weighted, reference_weighted, inputs) <= 1e-12);
  CHECK(function_difference(weighted, reference_weighted,
                            {positive({13, 21}, 1), randn({13, 21, 67}, DType::f64, 2)}) <= 1e-12);
}

TEST_CASE("weighted_sum: memory under a weight of 0 is not read, forward or backward") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
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

TEST_CASE("Attention over padded memory: not a number at padding reaches nothing but itself") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor mask = mask_of(4, {4, 2, 3});
  const auto attend = [&](double padding) -> Function {
    return [&mask, padding](const std::vector<Var>& v) {
      naive::Array filler(Shape{4, 3, 5});
      const naive::Array used(mask);
      naive::for_each_index(filler.shape(), [&](const naive::At& at) {
        filler[at] = used[{at[0], at[1]}] == 0 ? padding : 0;
      });
      const Var memory = v[1] + filler.tensor();
      const Var weights = softmax(additive_scores(v[0], memory, v[2]), 0, mask);
      return joined({weights, weighted_sum(weights, memory)});
    };
  };
  CHECK(function_difference(attend(nan), attend(0), score_inputs) <= 1e-14);
}

namespace {

/// Sizes and options of one call; D is 6.
struct AttentionCase {
  std::string what;
  Index T, S, B, heads;
  bool causal = false;
  bool masked = false;  // with holes, and a sentence that has no key
  double dropout = 0;
};
const AttentionCase attention_cases[] = {
    {"one query", 1, 2, 1, 1},
    {"more keys than queries", 3, 5, 2, 3},
    {"causal", 5, 5, 2, 2, true},
    {"causal with earlier keys", 2, 5, 2, 2, true},
    {"causal with fewer keys: the first queries see none", 5, 2, 2, 2, true},
    {"masked", 4, 5, 3, 2, false, true},
    {"causal and masked", 5, 5, 3, 2, true, true},
    {"dropout", 4, 5, 2, 2, false, false, 0.4},
    {"causal, masked, dropout", 5, 5, 3, 3, true, true, 0.4},
};
/// Of more than one block of queries and keys, and of one tile of work.
const AttentionCase large_attention_cases[] = {
    {"blocks of keys", 3, 600, 2, 2},
    {"blocks of both, masked", 150, 550, 2, 2, false, true},
    {"blocks of both, causal and masked, dropout", 530, 530, 3, 3, true, true, 0.3},
};

FusedAttentionOptions options_of(const AttentionCase& c, DType dtype = DType::f64) {
  FusedAttentionOptions o{
      .heads = c.heads, .causal = c.causal, .dropout = c.dropout, .random = Random(7).ahead(3)};
  if (!c.masked) return o;
  o.mask = ones({c.S, c.B}, dtype);
  for (Index s = 0; s < c.S; ++s) {
    for (Index b = 0; b < c.B; ++b) {
      const bool hole = (s * 7 + b) % 3 == 0 || b == 2;
      if (dtype == DType::f64 && hole) o.mask.mutable_at<double>({s, b}) = 0;
    }
  }
  return o;
}
std::vector<Tensor> inputs_of(const AttentionCase& c) {
  return {randn({c.T, c.B, 6}, DType::f64, 5), randn({c.S, c.B, 12}, DType::f64, 6)};
}
Function fused_attention(const FusedAttentionOptions& o) {
  return [o](const std::vector<Var>& v) { return attention(v[0], v[1], o); };
}
Function meant_attention(const FusedAttentionOptions& o) {
  return [o](const std::vector<Var>& v) { return reference::attention(v[0], v[1], o).y; };
}

}  // namespace

TEST_CASE("attention: it is its reference, and its gradients are central differences") {
  for (const AttentionCase& c : attention_cases) {
    INFO(c.what);
    const FusedAttentionOptions o = options_of(c);
    const std::vector<Tensor> inputs = inputs_of(c);
    CHECK(function_difference(fused_attention(o), meant_attention(o), inputs) <= 1e-13);
    CHECK(gradcheck(fused_attention(o), inputs));
    CHECK(gradcheck(fused_attention(o), {inputs[0] * 5.0, inputs[1] * 5.0}));
  }
  for (const AttentionCase& c : large_attention_cases) {
    INFO(c.what);
    const FusedAttentionOptions o = options_of(c);
    CHECK(function_difference(fused_attention(o), meant_attention(o), inputs_of(c)) <= 1e-12);
  }
}

TEST_CASE("attention: its bits, and those of its gradients, depend on no number of threads") {
  const AttentionCase& c = large_attention_cases[2];
  const auto run = [&](int threads) {
    const test::ThreadsScope scope(threads);
    return value_and_gradients(fused_attention(options_of(c)), inputs_of(c));
  };
  const std::vector<Tensor> expected = run(1);
  for (const int threads : {2, 3}) CHECK(std::ranges::equal(run(threads), expected, identical));
}

TEST_CASE("attention: a query has the same bits alone and among others") {
  const Tensor q = randn({300, 2, 8}), kv = randn({300, 2, 16});
  const Tensor all = attention(q, kv, {.heads = 2, .causal = true}).value();
  for (const Index t : {0, 5, 63, 64, 255, 299}) {
    INFO(t);
    CHECK(identical(attention(q.slice(t, t + 1), kv.slice(0, t + 1), {.heads = 2}).value(),
                    all.slice(t, t + 1)));
  }
}

TEST_CASE("attention: what stands at padding reaches nothing, not a number included") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor mask = mask_of(4, {4, 2, 3});
  const Tensor padding =
      where(mask.reshape({4, 3, 1}), zeros({1}, DType::f64), full({1}, nan, DType::f64));
  const auto attend = [&](const Tensor& filler) -> Function {
    return [=](const std::vector<Var>& v) {
      return attention(v[0], v[1] + filler, {.heads = 2, .mask = mask});
    };
  };
  const std::vector<Tensor> inputs{randn({2, 3, 4}, DType::f64, 5), randn({4, 3, 8}, DType::f64)};
  CHECK(function_difference(attend(padding), attend(zeros({1}, DType::f64)), inputs) == 0);
}

TEST_CASE("attention: in f32 it has the numbers of f64 to its own precision") {
  const Tensor q = randn({70, 2, 8}) * 3.0, kv = randn({300, 2, 16}, DType::f32, 2) * 3.0;
  const FusedAttentionOptions o{.heads = 2};
  const std::vector<Tensor> single = value_and_gradients(fused_attention(o), {q, kv}),
                            twice = value_and_gradients(fused_attention(o),
                                                        {q.to(DType::f64), kv.to(DType::f64)});
  CHECK(difference(single[0].to(DType::f64), twice[0]) <= 1e-5);
}

TEST_CASE("attention: in bf16 it has the numbers of f32 to that precision") {
  if (!bf16_available()) return;
  const std::vector<Tensor> inputs{randn({70, 2, 16}), randn({300, 2, 32}, DType::f32, 2)};
  const auto f = fused_attention({.heads = 2, .causal = true});
  const std::vector<Tensor> expected = value_and_gradients(f, inputs);
  const InPrecision in(Precision::bf16);
  const std::vector<Tensor> found = value_and_gradients(f, inputs);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(difference(found[i], expected[i]) > 0);
    CHECK(difference(found[i], expected[i]) <= 0.02);
  }
}

TEST_CASE("attention: what does not fit is named") {
  const Tensor q = zeros({2, 3, 4}), kv = zeros({5, 3, 8});
  CHECK_ERROR("attention: kv (S, B, 2D) is (5, 3, 4), but D = 4 in q",
              attention(q, zeros({5, 3, 4})));
  CHECK_ERROR("attention: 3 heads do not divide a size of 4", attention(q, kv, {.heads = 3}));
  CHECK_ERROR("attention: the dropout 1 is not in [0, 1)", attention(q, kv, {.dropout = 1}));
}

TEST_CASE("unwindow: positions of another shape than x are an error") {
  const Var x(zeros({3, 2}, DType::f64));
  CHECK_ERROR("window: shapes do not fit: windows (3, 2), positions (4, 2), sequence (5, 2)",
              unwindow(x, zeros({4, 2}, DType::i32), 5));
}

}  // namespace attune
