// Layers of the Transformer: dropout, cache, errors. Their equations are in layers_test.cpp.
#include <cmath>

#include <doctest/doctest.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/nn/transformer.hpp>

#include "nn/tools.hpp"

namespace attune::nn {
namespace {

constexpr Index kSize = 8, kMemory = 6;
const Tensor x = randn({5, 3, kSize}, DType::f64), h = randn({4, 3, kMemory}, DType::f64, 2);
const Tensor source_mask = mask_of(4, {4, 2, 1});

TEST_CASE("MultiHeadAttention: dropout draws B · heads · T · S numbers, also for weights") {
  Parameters params(1, DType::f64);
  const MultiHeadAttention layer(params, kSize, {.heads = 2, .dropout = 0.4}, kMemory);
  const Var keys_values = layer.precompute(h);
  const auto run = [&](Random& random, Weights weights) {
    const Training training(random);
    return layer(x, keys_values, source_mask, weights);
  };
  Random fused(7), stored(7);
  const Var y = run(fused, Weights::no).y;
  const auto [same, weights] = run(stored, Weights::per_head);
  CHECK(fused.state() == Random(7).ahead(3 * 2 * 5 * 4).state());
  CHECK(stored.state() == fused.state());
  CHECK(difference(y.value(), same.value()) <= 1e-14);
  // The returned weights are those before dropout.
  CHECK(difference(weights.value(),
                   layer(x, keys_values, source_mask, Weights::per_head).weights.value()) <= 1e-14);
  CHECK_FALSE(difference(y.value(), layer(x, keys_values, source_mask).y.value()) <= 1e-3);
  Random next(8);
  CHECK_FALSE(identical(run(next, Weights::no).y.value(), y.value()));
}

/// The cache of a memory, where hypothesis i attends to column columns[i]; -1 at padding.
KeyValueCache cache_of(const Var& kv, const Tensor& mask, std::vector<std::int32_t> columns) {
  return select(KeyValueCache::of_memory(kv, mask),
                Tensor::of<std::int32_t>({std::ssize(columns)}, columns));
}

TEST_CASE("KeyValueCache: appends to one copy leave the others unchanged") {
  const auto entry = [](double value) { return full({2, 3}, value); };
  for (const bool recording : {false, true}) {
    std::optional<NoGrad> no_grad;
    if (!recording) no_grad.emplace();
    KeyValueCache cache, older;
    for (Index t = 0; t < 40; ++t) {  // beyond the first positions, and their double
      if (t == 20) older = cache;
      cache.append(recording ? variable(entry(t)) : Var(entry(t)));
    }
    KeyValueCache other = older,
                  reordered = select(older, Tensor::of<std::int32_t>({3}, {1, 1, 0}));
    other.append(entry(-1));
    reordered.append(full({3, 3}, -2.0));
    const auto value = [](const KeyValueCache& of, Index s, Index b) {
      return of.keys_values.value().at<float>({of.rows.at<std::int32_t>({s, b}), 2});
    };
    for (Index t = 0; t < 40; ++t) CHECK(value(cache, t, 1) == static_cast<float>(t));
    CHECK(older.rows.shape() == Shape{20, 2});
    for (Index t = 0; t < 20; ++t) {
      for (const KeyValueCache& of : {older, other, reordered})
        CHECK(value(of, t, 1) == static_cast<float>(t));
    }
    CHECK(value(other, 20, 0) == -1);
    CHECK(value(reordered, 20, 2) == -2);
    CHECK(reordered.rows.at<std::int32_t>({3, 0}) == older.rows.at<std::int32_t>({3, 1}));
  }
  CHECK_ERROR("KeyValueCache: keys and values (R, W) is (2, 4), but W = 3 in entries",
              KeyValueCache(zeros({2, 4}), zeros({1, 2}, DType::i32)).append(entry(0)));
  CHECK_ERROR("KeyValueCache: rows (S, B) is (3, 1), but B = 2 in entries",
              KeyValueCache({}, full({3, 1}, -1, DType::i32)).append(entry(0)));
}

TEST_CASE("MultiHeadAttention: dropout applies to a step with and without gradient") {
  Parameters params(1, DType::f64);
  const MultiHeadAttention layer(params, kSize, {.heads = 2, .dropout = 0.5}, kMemory);
  const KeyValueCache cache = cache_of(layer.precompute(h), ones({4, 3}, DType::f64), {0, 1, 2});
  const auto step = [&] {
    Random random(3);
    const Training training(random);
    return layer.step(x[0], cache).y.value();
  };
  const Tensor recorded = step();
  CHECK(difference(recorded, layer.step(x[0], cache).y.value()) > 0.01);
  const NoGrad no_grad;
  CHECK(identical(step(), recorded));
}

TEST_CASE("MultiHeadAttention: a step equals the query among others, with and without gradient") {
  Parameters params(1, DType::f64);
  const MultiHeadAttention layer(params, kSize, {.heads = 4}, kMemory);
  test::scale_parameters(params, 3);
  const Tensor mask = Tensor::of<double>({4, 3}, {1, 0, 1, 0, 0, 1, 1, 0, 1, 1, 0, 1});  // holes
  const Var keys_values = layer.precompute(h);
  const auto all = layer(x, keys_values, mask, Weights::per_head);
  CHECK(difference(layer(x, keys_values, mask, Weights::mean).weights.value(),
                   mean(all.weights.value(), {1})) <= 1e-15);
  const std::vector<std::int32_t> columns = {2, 0, 2, 1};
  const KeyValueCache cache = cache_of(keys_values, mask, columns);
  for (Index t = 0; t < 5; ++t) {
    const Tensor rows = Tensor::of({4}, std::span(columns));
    const Var query = gather(x[t], rows);
    const auto recorded = layer.step(query, cache);
    const NoGrad no_grad;
    const auto step = layer.step(query, cache);
    for (Index i = 0; i < 4; ++i) {
      const Index column = columns[static_cast<std::size_t>(i)];
      CHECK(difference(step.y.value()[i], all.y.value()[t][column]) <= 1e-14);
    }
    const Tensor weights = permute(all.weights.value()[t], {1, 2, 0});  // (S, B, K)
    CHECK(difference(permute(step.weights.value(), {1, 2, 0}), gather(weights, rows, 1)) <= 1e-14);
    CHECK(difference(recorded.y.value(), step.y.value()) <= 1e-14);
    CHECK(difference(recorded.weights.value(), step.weights.value()) <= 1e-14);
    CHECK(difference(layer.step(query, cache, {}, Weights::mean).weights.value(),
                     mean(step.weights.value(), {0})) <= 1e-15);
    CHECK_FALSE(layer.step(query, cache, {}, Weights::no).weights.defined());
  }
}

TEST_CASE("MultiHeadAttention: if all positions are masked, y is the bias of W_o") {
  Parameters params(1, DType::f64);
  const MultiHeadAttention layer(params, kSize, {.heads = 2}, kMemory);
  test::set(params, "output.b", randn({kSize}, DType::f64, 3));
  const Tensor none = mask_of(4, {4, 0, 1});
  for (const Index steps : {5, 1}) {
    for (const Weights weights : {Weights::no, Weights::per_head}) {
      const auto result = layer(x.slice(0, steps), layer.precompute(h), none, weights);
      CHECK(identical(result.y.value()[0][1], params["output.b"].value()));
    }
  }
  const NoGrad no_grad;
  const auto step = layer.step(x[0], cache_of(layer.precompute(h), none, {0, 1, 2}));
  CHECK(identical(step.y.value()[1], params["output.b"].value()));
  CHECK(sum(gather(permute(step.weights.value(), {1, 2, 0}), Tensor::of<std::int32_t>({1}, {1}), 1))
            .item() == 0);
}

TEST_CASE("MultiHeadAttention: grouped heads, rotary, bias and window, at once, packed, by steps") {
  Parameters params(1, DType::f64);
  const MultiHeadAttention layer(params, kSize,
                                 {.heads = 4,
                                  .causal = Causal::yes,
                                  .kv_heads = 2,
                                  .head_size = 6,
                                  .value_size = 3,
                                  .rotary = 50});
  test::scale_parameters(params, 2);
  const Tensor age = unsqueeze(arange(5), 1) - arange(5), near = age < 3;
  const Var bias = randn({4, 5, 5}, DType::f64, 4);
  const PairOptions pairs{.mask = near, .bias = bias};
  const auto all = layer(x, layer.precompute(x), {}, Weights::per_head, {}, pairs);
  KeyValueCache cache;
  for (Index t = 0; t < 5; ++t) {
    cache.append(layer.precompute(x.slice(t, t + 1), {}, t)[0]);
    const Tensor seen = where(near[t].slice(0, t + 1).reshape({-1, 1}), cache.rows, -1);
    const Var now = slice(slice(bias, 1, t, t + 1), 2, 0, t + 1);
    const auto recorded = layer.step(x[t], {cache.keys_values, seen}, now);
    CHECK(difference(recorded.y.value(), all.y.value()[t]) <= 1e-14);
    const NoGrad no_grad;
    const auto step = layer.step(x[t], {cache.keys_values, seen}, now);
    CHECK(difference(step.y.value(), all.y.value()[t]) <= 1e-14);
    CHECK(difference(step.weights.value(), slice(all.weights.value()[t], 1, 0, t + 1)) <= 1e-14);
  }
  const Mask tokens = mask_of(5, {5, 2, 4});
  const Layout packed = Layout::packed(tokens);
  const Var y = packed.unpack(layer.self(packed.pack(x), packed, pairs));
  CHECK(difference(y.value(), layer.self(x, tokens, pairs).value() * unsqueeze(tokens, -1)) <=
        1e-14);
  CHECK(gradcheck(params, [&] { return layer.self(x, {}, {near, bias}); }));
}

TEST_CASE("TransformerLayer: single steps equal the whole sequence, values and gradients") {
  for (const Norm norm : {Norm::before, Norm::after}) {
    Parameters params(1, DType::f64);
    const TransformerLayer layer(params, {.size = kSize, .heads = 2, .inner = 5, .norm = norm},
                                 Causal::yes, kMemory);
    test::scale_parameters(params, 2);
    const auto memory = layer.precompute(h, source_mask);
    const KeyValueCache places = cache_of(memory.keys_values, source_mask, {0, 1, 2});
    const auto at_once = [&] {
      return layer(x, {}, layer.precompute(h, source_mask), Weights::per_head);
    };
    const auto all = at_once();
    KeyValueCache cache;
    std::vector<Var> y, weights;
    for (Index t = 0; t < 5; ++t) {
      const auto step = layer.step(x[t], cache, places);
      y.push_back(step.y);
      weights.push_back(step.weights);
    }
    CHECK(difference(stack(y).value(), all.y.value()) <= 1e-13);
    CHECK(difference(stack(weights).value(), all.weights.value()) <= 1e-13);
    const Gradients of_steps = backward(sum(square(stack(y)))),
                    of_all = backward(sum(square(at_once().y)));
    for (const auto& [name, w] : params.all()) {
      CHECK(difference(of_steps[w], of_all[w]) <= 1e-11);
    }
  }
}

TEST_CASE("PositionalEncoding: sine and cosine of each position, from any first position") {
  const PositionalEncoding encoding(5, DType::f64, 3);
  for (const Index begin : {0, 2, 40}) {  // within the table, across its end, beyond it
    const Tensor p = encoding(zeros({3, 2, 5}, DType::f64), begin).value();
    for (Index t = 0; t < 3; ++t) {
      for (Index i = 0; i < 5; ++i) {
        const double angle =
            static_cast<double>(begin + t) / std::pow(10000, static_cast<double>(i - i % 2) / 5);
        const double expected = i % 2 == 0 ? std::sin(angle) : std::cos(angle);
        CHECK(std::abs(p.at<double>({t, 1, i}) - expected) <= 1e-15);
      }
    }
  }
  CHECK_ERROR("PositionalEncoding: position -1 is negative",
              encoding(zeros({3, 2, 5}, DType::f64), -1));
}

TEST_CASE("Layout: a mask of other extents is an error, though it has as many elements") {
  const Layout layout = Layout::packed(source_mask);
  CHECK_ERROR("Layout: rows (T, B) is (4, 3), but T = 3 in x",
              layout.pack(zeros({3, 4, kSize}, DType::f64)));
  CHECK_ERROR("Layout: rows (T, B) is (4, 3), but T = 6 in x", layout.pack(zeros({6, 2, kSize})));
  CHECK_ERROR("Layout: positions (N) is (7), but N = 3 in x", layout.unpack(zeros({3, kSize})));
}

TEST_CASE("Transformer layers: errors name the tensor and the layer") {
  Parameters params(1, DType::f64);
  const Scope scope = params / "decoder";
  const MultiHeadAttention attention(scope / "cross", kSize, {.heads = 2}, kMemory);
  const Var keys_values = attention.precompute(h);
  CHECK_ERROR("add_matmul: shapes do not fit: (4, 3, 8) x (6, 16), in decoder.cross.memory",
              attention.precompute(zeros({4, 3, 8}, DType::f64)));
  CHECK_ERROR(
      "MultiHeadAttention: query (T, B, D) is (3, 8), but 3 axes were expected, in decoder.cross",
      attention(x[0], keys_values));
  CHECK_ERROR(
      "MultiHeadAttention: keys and values (S, B, 16) is (4, 2, 16), but B = 3 in query, in "
      "decoder.cross",
      attention(x, zeros({4, 2, 16}, DType::f64)));
  for (const Index steps : {1, 5}) {
    for (const Weights weights : {Weights::no, Weights::per_head}) {
      CHECK_ERROR(
          "MultiHeadAttention: mask (S, B) is (1, 3), but S = 4 in keys and values, in "
          "decoder.cross",
          attention(x.slice(0, steps), keys_values, ones({1, 3}, DType::f64), weights));
    }
  }
  CHECK_ERROR("mask: (4, 3) must be 1 (takes part) or 0, but element (0, 0) is 2",
              attention(x, keys_values, ones({4, 3}, DType::f64) * 2.0));
  const TransformerLayer encoder(params / "encoder", {.size = kSize, .heads = 2, .inner = 5},
                                 Causal::no);
  CHECK_ERROR("TransformerLayer: encoder has no cross-attention",
              encoder.precompute(h, source_mask));
  const TransformerLayer decoder(params / "layer", {.size = kSize, .heads = 2, .inner = 5},
                                 Causal::yes, kMemory);
  KeyValueCache cache(zeros({3, 16}, DType::f64), zeros({1, 3}, DType::i32));
  const std::string lacks = "TransformerLayer: layer has cross-attention, but there is no memory";
  CHECK_ERROR(lacks, decoder(x, {}));
  CHECK_ERROR(lacks, decoder.step(x[0], cache));
  const NoGrad no_grad;
  CHECK_ERROR("attention_step: cache (R, 16) is (3, 12), but 16 was expected, in decoder.cross",
              attention.step(x[0], {zeros({3, 12}, DType::f64), cache.rows}));
  CHECK_ERROR(
      "attention_step: row 3 at 0 is not in -1 to 2, in decoder.cross",
      attention.step(x[0], {cache.keys_values, Tensor::of<std::int32_t>({1, 3}, {3, 0, 0})}));
  CHECK_ERROR("attention_step: rows (S, B) is (1, 2), but B = 3 in q, in decoder.cross",
              attention.step(x[0], {cache.keys_values, zeros({1, 2}, DType::i32)}));
  CHECK_ERROR("MultiHeadAttention: the cache is empty, in decoder.cross",
              attention.step(x[0], KeyValueCache()));
  CHECK_ERROR("dropout: the rate 1 is not in [0, 1)",
              TransformerLayer(params / "other",
                               {.size = kSize, .heads = 2, .attention_dropout = 1}, Causal::no));
  CHECK_ERROR("dropout: the rate -0.5 is not in [0, 1)",
              TransformerLayer(params / "negative",
                               {.size = kSize, .heads = 2, .inner_dropout = -0.5}, Causal::no));
}

}  // namespace
}  // namespace attune::nn
